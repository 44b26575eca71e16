"""What a sweep will cost: runs, steps, memory, and time by a short calibration."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqirl.envs.ids import is_bridge_id, is_full_atari, parse_id
from sqirl.experiments.search import Cost, search
from sqirl.experiments.sweeps import Sweep
from sqirl.mdp.store import stored_mdp
from sqirl.results.records import RecordStore, RunConfig

#: Steps of the short run that tells an algorithm's speed on a kind of environment.
CALIBRATION_STEPS = {"sqirl": 600, "gorp": 2000, "ppo": 1100, "dqn": 300}
#: The same for SQIRL in whole games, which learns only after an episode.
WHOLE_GAME_STEPS = 2500


@dataclass(frozen=True)
class Preview:
    """The first runs of every search, as an estimate of all. A run stops when it solves, so hours are at most."""

    searches: int
    first_runs: int
    most_steps: int
    hours: float
    memory_gb: float
    speeds: dict[str, float]  # "algorithm on kind" -> steps/s of one worker
    live: tuple[str, ...]  # environments without a table

    def __str__(self) -> str:
        lines = [
            f"{self.searches} searches begin with {self.first_runs} runs of at most {self.most_steps:,} steps in all; "
            f"a run stops when it solves, a search goes on to better settings",
            f"at most {self.hours:.1f} core hours for these runs; {self.memory_gb:.1f} GB for each worker",
            *(f"  {kind:28} {speed:10,.0f} steps/s" for kind, speed in sorted(self.speeds.items())),
        ]
        if self.live:
            some = ", ".join(self.live[:3]) + (" …" if len(self.live) > 3 else "")
            lines.append(f"{len(self.live)} environments have no table and are played live, which is slow: {some}")
        return "\n".join(lines)


def preview(sweep: Sweep, *, device: str = "cpu") -> Preview:
    """Measured in a minute or two: one short run for every algorithm on every kind of environment in the sweep."""
    first = [config for env in sweep.envs for name in sweep.algorithms for config in next(search(sweep, env, name), [])]
    by_kind: dict[str, list[RunConfig]] = defaultdict(list)
    for config in first:
        by_kind[_kind(config)].append(config)
    speeds, seconds, most = {}, 0.0, 0.0
    for kind, configs in by_kind.items():
        speeds[kind], need = _calibrate(configs[0], device)
        seconds += sum(_most_steps(config) for config in configs) / speeds[kind]
        most = max(most, need)
    bare = [env for env in sweep.envs if not is_bridge_id(env) or sweep.live or stored_mdp(parse_id(env)) is None]
    steps = sum(_most_steps(config) for config in first)
    return Preview(
        len(sweep.envs) * len(sweep.algorithms), len(first), steps, seconds / 3600, most / 1e9, speeds, tuple(bare)
    )


def _kind(config: RunConfig) -> str:
    if is_bridge_id(config.env_id):
        return f"{config.algorithm} on {parse_id(config.env_id).suite}"
    return f"{config.algorithm} on {'full-length Atari' if is_full_atari(config.env_id) else 'own env'}"


def _most_steps(config: RunConfig) -> int:
    """A run of SQIRL or GORP is over after T iterations of m episodes."""
    if config.algorithm in ("ppo", "dqn") or not is_bridge_id(config.env_id):
        return config.timesteps
    horizon = parse_id(config.env_id).horizon
    iteration = Cost(config.env_id, config.algorithm).episodes(config.k or 1, config.m or 1) * horizon
    return int(min(config.timesteps, horizon * iteration))


def _calibrate(config: RunConfig, device: str) -> tuple[float, float]:
    """(steps/s, bytes) of one run like this one."""
    import torch

    from sqirl.experiments.memory import memory_need
    from sqirl.experiments.run import Run

    torch.set_num_threads(1)  # as in a worker
    short = replace(config, timesteps=CALIBRATION_STEPS[config.algorithm], m=config.m and 2, stop="never")
    whole_episodes = config.algorithm == "sqirl" and is_full_atari(config.env_id)
    if whole_episodes:
        short = replace(short, timesteps=WHOLE_GAME_STEPS, m=1)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(short, RecordStore(Path(folder)), device, 1e9, None, None)
        began = time.perf_counter()
        unspent = 0.0
        if whole_episodes:
            unspent = learn_one_epoch(run.model, short.timesteps)
        else:
            run.model.learn(short.timesteps)
        speed = run.model.num_timesteps / (time.perf_counter() - began + unspent)
        return speed, float(memory_need(run.model, config.timesteps).total)


def learn_one_epoch(model: Any, timesteps: int) -> float:
    """Learn with one epoch instead of ten, or calibrating would take minutes; the seconds that the others would have taken."""
    epochs, model.n_epochs, train, seconds = model.n_epochs, 1, model.train, 0.0

    def timed(samples: int) -> None:
        nonlocal seconds
        began = time.perf_counter()
        train(samples)
        seconds += time.perf_counter() - began

    model.train = timed
    model.learn(timesteps)
    return (epochs - 1) * seconds
