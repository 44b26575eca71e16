"""Env steps a second on a full-length Atari game: the emulators alone, PPO and SQIRL on a GPU, and their plain classes.

    python benchmarks/bench_full_atari.py [--device cuda] [--game PongNoFrameskip-v4] [--seconds 12] [--threads 16]
        [--no-plain] [--no-alone] [--repeatable] [--no-compile]

Prints one JSON object for each line of the table. The first rollout or iteration is not counted. The seconds of emulation,
acting and learning are shares of the counted time; for SQIRL emulation and acting are one number.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from sqirl.algorithms import mixed_precision
from sqirl.algorithms.networks import policy_arguments
from sqirl.algorithms.ppo.hyperparameters import PAPER
from sqirl.algorithms.ppo.on_gpu import PPOOnGPU
from sqirl.algorithms.sqirl.algorithm import SQIRL
from sqirl.algorithms.sqirl.on_gpu import SQIRLOnGPU
from sqirl.play.full_atari import AtariGames, full_atari_env


class Clock(BaseCallback):
    """Notes the time at the start of every rollout; stops after `seconds`, if `least` rollouts are over."""

    def __init__(self, seconds: float, least: int) -> None:
        super().__init__()
        self.seconds, self.least, self.over = seconds, least, False
        self.marks: list[tuple[float, int, dict[str, float]]] = []

    def _on_rollout_start(self) -> None:
        if th.cuda.is_available():
            th.cuda.synchronize()
        now = time.perf_counter()
        parts = dict(getattr(self.model, "seconds", {}))
        parts["learning"] = getattr(self.model, "training_seconds", parts.get("learning", 0.0))
        self.marks.append((now, self.model.num_timesteps, parts))
        self.over = len(self.marks) > self.least and now - self.marks[1][0] > self.seconds

    def _on_step(self) -> bool:
        return not self.over


def timed(name: str, model: BaseAlgorithm, seconds: float, *, least: int = 2) -> dict[str, Any]:
    """Steps a second from the second rollout on, and the shares of its parts."""
    model.set_logger(Logger(folder=None, output_formats=[]))
    clock = Clock(seconds, least)
    model.learn(10**9, callback=clock)
    (began, first, before), (ended, last, after) = clock.marks[1], clock.marks[-1]
    took = ended - began
    shares = {part: round((after[part] - before.get(part, 0.0)) / took, 3) for part in after}
    found = {"what": name, "steps_per_second": round((last - first) / took), "steps": last - first, "shares": shares}
    return {**found, "learning us a step": round(1e6 * took * shares["learning"] / (last - first))}


def emulators(game: str, num_envs: int, seconds: float) -> dict[str, Any]:
    env, rng = AtariGames(game, num_envs, seed=0), np.random.default_rng(0)
    env.reset()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        env.step(rng.integers(env.num_actions, size=num_envs))
        steps += num_envs
    return {"what": f"{num_envs} emulators alone", "steps_per_second": round(steps / (time.perf_counter() - began))}


def ppo(made: type[PPO], game: str, device: str, *, num_envs: int, rollout: int) -> PPO:
    arguments = {**asdict(PAPER), **policy_arguments("impala", actor_critic=True)}
    env = full_atari_env(game, num_envs=num_envs)
    return made(env=env, n_steps=rollout, gamma=0.99, seed=0, device=device, **arguments)


def sqirl(made: type[SQIRL], game: str, device: str, *, m: int, k: int = 1, buffer_size: int = 1_000_000) -> SQIRL:
    env = full_atari_env(game, num_envs=m)
    given = policy_arguments("impala")
    return made(env=env, k=k, m=m, gamma=0.99, seed=0, device=device, buffer_size=buffer_size, **given)


def gradient_steps(model: SQIRLOnGPU, count: int = 300) -> dict[str, Any]:
    """Gradient steps a second without the emulators; the model has learned before."""
    rng = np.random.default_rng(0)
    model._descend(20, rng)
    th.cuda.synchronize()
    began = time.perf_counter()
    model._descend(count, rng)
    th.cuda.synchronize()
    rate = count / (time.perf_counter() - began)
    return {"what": f"SQIRL k={model.k} gradient steps of {model.batch_size}", "per_second": round(rate)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="PongNoFrameskip-v4")
    parser.add_argument("--device", default="cuda" if th.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each line, at least")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--envs", type=int, default=128)
    parser.add_argument("--rollouts", type=int, nargs="*", default=[32])
    parser.add_argument("--m", type=int, default=10)
    parser.add_argument("--no-plain", action="store_true", help="leave out the plain classes")
    parser.add_argument("--no-alone", action="store_true", help="leave out the emulators alone")
    parser.add_argument(
        "--repeatable", action="store_true", help="only kernels with which a seed always gives the same run"
    )
    parser.add_argument("--no-compile", action="store_true", help="do not fuse kernels with torch.compile")
    given = parser.parse_args()
    mixed_precision.REPEATABLE, mixed_precision.COMPILED = given.repeatable, not given.no_compile
    th.set_num_threads(given.threads)
    game, device, seconds = given.game, given.device, given.seconds
    lines: list[Callable[[], dict[str, Any]]] = [
        *(lambda n=n: emulators(game, n, min(seconds, 4.0)) for n in (() if given.no_alone else (given.m, given.envs))),
        *(
            lambda r=r: timed(
                f"PPO on the GPU, {given.envs} envs, rollout {r}",
                ppo(PPOOnGPU, game, device, num_envs=given.envs, rollout=r),
                seconds,
            )
            for r in given.rollouts
        ),
        lambda: sqirl_lines(game, device, given.m, seconds),
    ]
    if not given.no_plain:
        plain = given.rollouts[0]
        lines += [
            lambda: timed("PPO, plain", ppo(PPO, game, device, num_envs=given.envs, rollout=plain), seconds),
            lambda: timed(f"SQIRL, plain, m={given.m}", sqirl(SQIRL, game, device, m=given.m), seconds, least=1),
        ]
    for line in lines:
        began = time.perf_counter()
        found = line()
        print(json.dumps({**found, "took": round(time.perf_counter() - began, 1)}), flush=True)


def sqirl_lines(game: str, device: str, m: int, seconds: float) -> dict[str, Any]:
    model = sqirl(SQIRLOnGPU, game, device, m=m, buffer_size=200_000)
    found = timed(f"SQIRL on the GPU, m={m}", model, seconds)
    return {**found, "gradient steps": gradient_steps(model)["per_second"]} if device != "cpu" else found


if __name__ == "__main__":
    main()
