"""SQIRL populations in bfloat16 and in exact float32 on five sticky tables, five seeds each: the returns of both.

python benchmarks/gpu_precision.py [--limit 220] [--tiny]
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from functools import lru_cache

import torch as th

from sqirl.algorithms.population.evaluation import Evaluator
from sqirl.algorithms.population.sqirl import Member, SQIRLPopulation, SQIRLSettings
from sqirl.algorithms.population.table import DeviceTable, device_table
from sqirl.algorithms.sqirl.hyperparameters import SQIRLHyperparameters
from sqirl.analysis.archive import archive_path
from sqirl.envs.description import describe
from sqirl.play.table import Table, load_table

CASES = [
    ("freeway_10_fs30", 100), ("maze_easy_l0_30_fs1", 30), ("maze_easy_l2_30_fs1", 30),
    ("atlantis_10_fs30", 100), ("atlantis_10_fs30", 200), ("breakout_10_fs30", 300),
]  # fmt: skip
BEGAN = time.perf_counter()


@lru_cache
def cached_table(name: str) -> Table:
    table = load_table(name)
    assert table is not None
    return table


class OutOfTime(Exception):
    """The time limit is reached."""


def train(
    table: DeviceTable, m: int, dtype: th.dtype, seeds: int, settings: SQIRLSettings, limit: float
) -> SQIRLPopulation:
    population = SQIRLPopulation(table, [Member(seed, 1, m) for seed in range(seeds)], settings, dtype=dtype)
    if population.step.kernels:
        assert population.step.networks.dtype == dtype and population.step.networks.precision == "ieee"
    for _ in range(table.horizon):
        if time.perf_counter() - BEGAN > limit:
            raise OutOfTime(f"stopped at iteration {population.iteration} of {table.horizon}")
        population.play()
        population.learn()
        if table.device.type == "cuda":
            th.cuda.synchronize()
    return population


def report(row: str, m: int, dtype: th.dtype, options: argparse.Namespace, device: str) -> None:
    env = describe(f"BRIDGE/{row}-Sticky-v0")
    found = cached_table(env.name)
    known = json.loads(archive_path().read_text())
    optimum = known[env.name]["optimal_return"]
    table = device_table(found, reward_factor=env.reward_factor, device=device)
    settings = SQIRLSettings(gamma=env.suite.discount)
    if options.tiny:
        settings = SQIRLSettings(env.suite.discount, SQIRLHyperparameters(buffer_size=5000, batch_size=16, n_epochs=1))
    m, seeds, episodes = (3, 2, 200) if options.tiny else (m, 5, 2000)
    began = time.perf_counter()
    population = train(table, m, dtype, seeds, settings, options.limit)
    taken = time.perf_counter() - began
    rewards = th.tensor(found.mdp.rewards.reshape(-1), dtype=th.float64, device=device)
    evaluator = Evaluator(table, rewards, population.policies(episodes), population.seeds, episodes)
    sampled = evaluator.sampled(1000)[0].tolist()
    line = {
        "row": row, "m": m, "dtype": str(dtype)[6:], "optimum": optimum, "means": [round(x, 4) for x in sampled],
        "gradient_steps": population.learner.steps.tolist(), "train_s": round(taken, 1),
        "finite": bool(population.learner.flat.isfinite().all()),
    }  # fmt: skip
    print(json.dumps(line), flush=True)
    exact = list(evaluator.exact(list(range(seeds)), max_nodes=10**7).values())
    print("   exact", json.dumps([round(x, 4) for x in exact]), "within 1 %:",
          sum(x >= 0.99 * optimum for x in exact), "of", seeds,
          f"({sum(x >= 0.99 * optimum for x in sampled)} by sampled means)",
          f"at {time.perf_counter() - BEGAN:.0f} s", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=220, help="seconds after which no further iteration begins")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    device = "cuda" if th.cuda.is_available() else "cpu"
    print(th.cuda.get_device_name() if device == "cuda" else "CPU", "torch", th.__version__,
          "tf32 in matmul:", th.backends.cuda.matmul.allow_tf32, flush=True)  # fmt: skip
    for row, m in CASES:
        for dtype in (th.bfloat16, th.float32):
            try:
                report(row, m, dtype, options, device)
            except OutOfTime as reason:
                print(f"{row} m = {m} {dtype}: the time limit is reached, {reason}", flush=True)
                return
            except Exception:
                print(f"{row} m = {m} {dtype} failed", flush=True)
                traceback.print_exc(limit=-4)
            if device == "cuda":
                th.cuda.empty_cache()


if __name__ == "__main__":
    main()
