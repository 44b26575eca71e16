"""Populations on one GPU: gradient steps/s of SQIRL, env steps/s of PPO and DQN, and learning on tables of the package.

Speed is measured with NatureCNN on 4 stacked 84×84 screens, keys drawn at random from 10,000 screens, 18 actions. Equal
observations are not merged. P members that make one gradient step count as P steps.

python benchmarks/bench_gpu.py [steps] [envs] [ppo] [dqn] [--members 1 25] [--k 2] [--rows ROW ...] [--timesteps 200000]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import torch as th

from sqirl.algorithms.population.batch import AdamSettings, Heads, Learner
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.dqn import DQNPopulation, DQNSettings, make_dqn
from sqirl.algorithms.population.evaluation import Evaluator
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.layout import ATARI, Layout, initial_weights
from sqirl.algorithms.population.ppo import PPOPopulation, PPOSettings, make_ppo
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.table import DeviceTable, device_table
from sqirl.algorithms.spec import NUM_ENVS
from sqirl.envs.description import describe
from sqirl.play.table import load_table
from sqirl.runs.record import reaches
from sqirl.runs.target import target_of

NUM_SCREENS, NUM_ACTIONS, NUM_STATES = 10_000, 18, 5000
#: The implementations whose gradient steps are compared.
PATHS: dict[str, dict[str, Any]] = {
    "Triton bf16": {},
    "Triton bf16, clipped": {"max_norm": 10.0},
    "Triton fp32, tf32x3": {"dtype": th.float32, "precision": "tf32x3"},
    "Triton fp32, exact": {"dtype": th.float32},
    "plain torch bf16": {"kernels": False},
    "plain torch fp32": {"kernels": False, "dtype": th.float32},
}
ROWS = ("freeway_10_fs30", "maze_easy_l0_30_fs1", "atlantis_10_fs30", "breakout_10_fs30", "pong_20_fs30")
SEEDS, EVAL_EVERY, EVAL_EPISODES = 5, 10_000, 100


# Speed ---------------------------------------------------------------------------------------------------------------


def random_replay(members: int, count: int = 2000) -> DeviceReplay:
    replay = DeviceReplay(members, count, key_length=5, device="cuda")
    shape = (members, count)
    keys = [th.randint(0, NUM_SCREENS, (*shape, 5), device="cuda", dtype=th.int32) for _ in range(2)]
    actions = th.randint(0, NUM_ACTIONS, shape, device="cuda", dtype=th.int32)
    numbers = [th.randn(shape, device="cuda") for _ in range(2)]
    masks = [th.rand(shape, device="cuda") < 0.9, th.ones(shape, dtype=th.bool, device="cuda")]
    replay.extend(DeviceTransitions(*keys, actions, *numbers, *masks))
    return replay


def random_table() -> DeviceTable:
    """5,000 states whose actions lead to random states."""
    return DeviceTable(
        th.randint(0, NUM_STATES, (NUM_STATES * NUM_ACTIONS,), device="cuda", dtype=th.int32),
        th.randn(NUM_STATES * NUM_ACTIONS, device="cuda"),
        th.randint(0, NUM_SCREENS, (NUM_STATES + 1,), device="cuda", dtype=th.int32),
        random_screens(),
        th.zeros(5, dtype=th.int32, device="cuda"),
        start_state=0, num_actions=NUM_ACTIONS, horizon=100, stickiness=0.25, picture=ATARI,
    )  # fmt: skip


def random_screens() -> th.Tensor:
    return th.randint(0, 256, (NUM_SCREENS, 1, 21, 21, 16), dtype=th.uint8, device="cuda")


def same_weights(layout: Layout, members: int) -> th.Tensor:
    """(P, n) the same weights for all members: quickly made."""
    return initial_weights(layout, [0], device="cuda").repeat(members, 1)


def make_step(members: int, k: int, *, max_norm: float | None = None, **options: Any) -> SQIRLStep:
    th.manual_seed(0)
    heads = Heads(k, NUM_ACTIONS)
    learner = Learner.start(same_weights(Layout(heads.num_outputs), members), heads, rate=1e-4)
    settings = StepSettings(heads, adam=AdamSettings(max_norm=max_norm))
    seeds = th.arange(members, device="cuda")
    return SQIRLStep(settings, learner, random_replay(members), random_screens(), seeds, **options)


def seconds_per_call(call: Callable[[], object], *, seconds: float = 0.5, block: int = 10) -> float:
    call()
    th.cuda.synchronize()
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(block):
            call()
        th.cuda.synchronize()
        count += block
    return (time.perf_counter() - began) / count


def report_steps(sizes: list[int], ks: list[int]) -> None:
    print("\nSQIRL: gradient steps/s, batch 128, one CUDA graph")
    print(f"{'':22s}" + "".join(f"P={p}, k={k}".rjust(14) for k, p in product(ks, sizes)))
    for name, options in PATHS.items():
        cells = []
        for k, p in product(ks, sizes):
            step = make_step(p, k, **options)
            step.capture()
            cells.append(f"{p / seconds_per_call(step):,.0f}")
            del step
            th.cuda.empty_cache()
        print(f"{name:22s}" + "".join(cell.rjust(14) for cell in cells), flush=True)


def report_envs(sizes: list[int]) -> None:
    print(f"\nenv steps/s over the whole population, {NUM_ENVS} lanes for each member, bf16, training included")
    for members, kernels in [*((p, True) for p in sizes), (max(sizes), False)]:
        path, table, seeds = "Triton" if kernels else "plain torch", random_table(), list(range(members))
        ppo = make_ppo(table, seeds, PPOSettings(), num_lanes=NUM_ENVS, kernels=kernels)
        per_update = members * NUM_ENVS * ppo.settings.rollout
        seconds = seconds_per_call(lambda ppo=ppo: (ppo.play(), ppo.learn()), block=1)
        print(f"PPO {path}, P={members}: {per_update / seconds:,.0f}", flush=True)
        dqn = make_dqn(table, seeds, DQNSettings(), num_lanes=NUM_ENVS, kernels=kernels)
        print(f"DQN {path}, P={members}: {members * NUM_ENVS / seconds_per_call(dqn.round):,.0f}", flush=True)


# Learning ------------------------------------------------------------------------------------------------------------


def make_learner(algorithm: str, table: DeviceTable) -> tuple[PPOPopulation | DQNPopulation, Callable[[], object], int]:
    """(population, one update, its env steps for each member)."""
    seeds = list(range(SEEDS))
    if algorithm == "ppo":
        ppo = make_ppo(table, seeds, PPOSettings(), num_lanes=NUM_ENVS)
        return ppo, lambda: (ppo.play(), ppo.learn()), NUM_ENVS * ppo.settings.rollout
    dqn = make_dqn(table, seeds, DQNSettings(), num_lanes=NUM_ENVS)
    return dqn, dqn.round, NUM_ENVS


def learn(algorithm: str, row: str, timesteps: int) -> None:
    """Train five seeds; print when the mean of an evaluation first reaches the optimum, and the last means."""
    env = describe(f"BRIDGE/{row}-Sticky-v0")
    table, optimum = load_table(env), target_of(env).optimal
    assert table is not None and optimum is not None
    began = time.perf_counter()
    on_device = device_table(table, reward_factor=env.reward_factor, device="cuda")
    rewards = th.tensor(table.mdp.rewards.reshape(-1), dtype=th.float64, device="cuda")
    population, update, per_update = make_learner(algorithm, on_device)
    policies = population.policies(EVAL_EPISODES)
    evaluator = Evaluator(on_device, rewards, policies, population.seeds, EVAL_EPISODES)
    solved: list[int | None] = [None] * SEEDS
    steps, due, curve = 0, EVAL_EVERY, []
    while due <= timesteps:
        if steps + per_update > due:  # the weights that are in use when the evaluation is due
            curve.append(evaluator.sampled(due)[0].tolist())
            for member, mean in enumerate(curve[-1]):
                if solved[member] is None and reaches(mean, optimum):
                    solved[member] = due
            due += EVAL_EVERY
        update()
        steps += per_update
    taken = time.perf_counter() - began
    print(
        f"{algorithm.upper()} {row}: optimum {optimum:.6g}, reached after {solved}, {taken:.1f} s for {steps:,} steps"
    )
    for member in range(SEEDS):
        print(f"   seed {member}:", *(f"{means[member]:.3g}" for means in curve), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Populations on one GPU.")
    parser.add_argument("parts", nargs="*", default=["steps", "envs"], help="steps, envs, ppo, dqn")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 5, 25])
    parser.add_argument("--k", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", nargs="+", default=ROWS)
    parser.add_argument("--timesteps", type=int, default=200_000)
    options = parser.parse_args()
    if not (th.cuda.is_available() and has_triton(th.device("cuda"))):
        print("bench_gpu.py needs a GPU with Triton; there is none here")
        sys.exit(0)
    print(th.cuda.get_device_name(), "torch", th.__version__)
    if "steps" in options.parts:
        report_steps(options.members, options.k)
    if "envs" in options.parts:
        report_envs([p for p in options.members if p <= 25])
    for algorithm, row in product(("ppo", "dqn"), options.rows):
        if algorithm in options.parts:
            learn(algorithm, row, options.timesteps)


if __name__ == "__main__":
    main()
