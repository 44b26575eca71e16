"""Learning: steps/s from the table, the live game and full-length games, the parts of a deep SQIRL run's time, peak memory.

python benchmarks/bench_train.py [play] [whole] [freeway] [together] [memory]
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

import sqirl
from sqirl.algorithms.sqirl.algorithm import SQIRL
from sqirl.algorithms.sqirl.gradient_step import gradient_step
from sqirl.experiments.protocol import planned_run
from sqirl.play.episodes import Transitions
from sqirl.play.full_atari import full_atari_env
from sqirl.play.lanes import Lanes
from sqirl.play.table import load_table
from sqirl.play.vec_env import TableVecEnv
from sqirl.runs.config import RunConfig
from sqirl.runs.population_run import measure
from sqirl.runs.run import Run
from sqirl.runs.store import RecordStore
from sqirl.runtime.memory import peak_memory
from sqirl.runtime.workers import all_cores

NAME = "BRIDGE/freeway_10_fs30-Sticky-v0"
LANES = 256
#: Seconds of each measurement of populations.
TOGETHER_SECONDS = 10.0
#: Seconds of the authors' code for the same run, one torch thread (measured before we began, on the same kind of machine).
AUTHORS_SECONDS = 255


def play() -> None:
    """Steps per second in one process: the live game, the table with observations, the table by keys."""
    live, rng = sqirl.make_env(NAME), np.random.default_rng(0)
    live.reset(seed=0)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < 5:
        if live.step(int(rng.integers(3)))[2]:
            live.reset()
        steps += 1
    live_speed = steps / (time.perf_counter() - began)
    env = TableVecEnv(load_table(NAME), LANES, seed=0)
    env.reset()
    seen = speed(lambda: env.step(rng.integers(3, size=LANES)))
    lanes = Lanes(load_table(NAME), LANES, rng)

    def by_keys() -> None:
        _, ends = lanes.step(rng.integers(3, size=LANES))
        lanes.reset(ends)

    keys = speed(by_keys)
    print(f"{NAME}, one process, {LANES} lanes of the table")
    print(f"  live game                     {live_speed:12,.0f} steps/s")
    print(f"  table, observations made      {seen:12,.0f} steps/s   {seen / live_speed:8,.0f} times the live game")
    print(f"  table, keys only (SQIRL)      {keys:12,.0f} steps/s   {keys / live_speed:8,.0f} times")


def whole() -> None:
    """Steps per second of a full-length game, eight of them at once, on one thread and on all."""
    for threads in (1, all_cores()):
        th.set_num_threads(threads)
        games, rng = full_atari_env("QbertNoFrameskip-v4", num_envs=8, seed=0), np.random.default_rng(0)
        games.reset()
        found = speed(lambda games=games, rng=rng: games.step(rng.integers(6, size=8)), lanes=8)
        print(f"full-length Qbert, 8 games at once, {threads} thread{'s' * (threads > 1)}: {found:,.0f} steps/s")
    th.set_num_threads(1)


def speed(step: object, *, lanes: int = LANES) -> float:
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < 2:
        step()  # type: ignore[operator]
        count += lanes
    return count / (time.perf_counter() - began)


def freeway() -> None:
    """SQIRL, k = 1, m = 100: 10,000 steps and 790 gradient steps on one torch thread."""
    th.set_num_threads(1)
    model = SQIRL("CnnPolicy", NAME, k=1, m=100, seed=0, device="cpu")
    inside = 0.0

    def timed(*arguments: object) -> th.Tensor:
        nonlocal inside
        began = time.perf_counter()
        result = gradient_step(*arguments)  # type: ignore[arg-type]
        inside += time.perf_counter() - began
        return result

    import sqirl.algorithms.sqirl.algorithm as module

    module.gradient_step = timed  # type: ignore[attr-defined]
    began, cpu = time.perf_counter(), time.process_time()
    distinct = []
    batch = model._batch

    def counted(samples: Transitions) -> object:
        made = batch(samples)
        distinct.append(made.learned)
        return made

    model._batch = counted  # type: ignore[method-assign, assignment]
    model.learn(5_000_000)
    total, cpu = time.perf_counter() - began, time.process_time() - cpu
    module.gradient_step = gradient_step  # type: ignore[attr-defined]
    print(f"deep SQIRL on {NAME}, k = 1, m = 100, one torch thread: {model.num_timesteps:,} steps")
    print(
        f"  {total:.1f} s ({cpu:.1f} s of CPU), {model.n_updates} gradient steps of {1000 * inside / model.n_updates:.0f} ms"
    )
    print(f"  everything but the gradient steps: {100 * (1 - inside / total):.1f} %")
    print(f"  distinct observations in a minibatch of 128: {np.mean(distinct):.0f}")
    print(f"  the authors' code: {AUTHORS_SECONDS} s, so {AUTHORS_SECONDS / total:.1f} times faster here")


def together() -> None:
    """The authors' details, one core: a run with a model of its own, and five seeds as a population."""
    th.set_num_threads(1)
    print(f"one core, env steps/s with training, {TOGETHER_SECONDS:.0f} s each")
    sqirl_k2, ppo, dqn = ("sqirl", {"k": 2, "m": 16}), ("ppo", {"rollout": 128}), ("dqn", {})
    grids = [(f"MiniGrid-{name}", case) for name in ("Empty-5x5", "LavaCrossingS9N3") for case in (sqirl_k2, ppo, dqn)]
    for name, (algorithm, options) in [*grids, ("freeway_10_fs30", ppo)]:
        config = planned_run(
            algorithm, f"BRIDGE/{name}-Sticky-v0", timesteps=1_000_000, variant="paper", options=options
        )
        alone = speed_alone(config)
        five, _ = measure([replace(config, seed=seed) for seed in range(5)], device="cpu", seconds=TOGETHER_SECONDS)
        print(
            f"  {name:25} {algorithm:5}  alone {alone:8,.0f}   five together {five:8,.0f}   {five / alone:5.1f} times"
        )


class Until(BaseCallback):
    """Stops training after a time, and counts the steps until then, without the first one."""

    def _on_training_start(self) -> None:
        self.began = self.first = None

    def _on_step(self) -> bool:
        now = time.perf_counter()
        if self.began is None:
            self.began, self.first = now, self.num_timesteps
        self.speed = (self.num_timesteps - self.first) / max(now - self.began, 1e-9)
        return now - self.began < TOGETHER_SECONDS


def speed_alone(config: RunConfig) -> float:
    """Steps per second of the run, from its second step on; it may end before its time is over."""
    with tempfile.TemporaryDirectory() as folder:
        model = Run(config, RecordStore(Path(folder)), "cpu", 1e9, None, None).model
        until = Until()
        model.learn(config.timesteps, callback=until)
        return until.speed


def memory() -> None:
    """Peak memory of this process with a full buffer of 10^6 transitions from the table."""
    model = SQIRL("CnnPolicy", NAME, k=2, m=100, seed=0, device="cpu")
    rng, length = np.random.default_rng(0), model.player.key_length
    for _ in range(11):
        n = 100_000
        keys = rng.integers(100, size=(2, n, length), dtype=np.int32)
        model.replay.extend(
            Transitions(*keys, rng.integers(3, size=n), rng.random(n), rng.random(n), rng.random(n) < 0.9)
        )
    model.set_logger(configure(None, []))
    model.train(26)
    peak = peak_memory() / 1e9
    print(
        f"full buffer: {model.replay.size:,} transitions in {model.replay.nbytes / 1e6:.0f} MB; peak memory {peak:.2f} GB"
    )


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["play", "whole", "freeway", "together", "memory"]
    if "memory" in wanted and len(wanted) > 1:  # peaks never come down: measured by itself
        import subprocess

        subprocess.run([sys.executable, "-W", "ignore", __file__, "memory"], check=True)
        wanted = [name for name in wanted if name != "memory"]
    for name in wanted:
        {"play": play, "whole": whole, "freeway": freeway, "together": together, "memory": memory}[name]()
