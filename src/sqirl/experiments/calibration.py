"""What a sweep will cost: runs, steps, memory, and time, measured by short runs."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from sqirl.envs.description import describe
from sqirl.experiments.search import search
from sqirl.experiments.sweeps import Sweep
from sqirl.mdp.store import stored_mdp
from sqirl.runs.config import STOP_NEVER, RunConfig
from sqirl.runs.store import RecordStore


@dataclass(frozen=True)
class Preview:
    """The first runs of every search, as an estimate of all. A run stops when it solves, so the hours are an upper bound."""

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
            f"a run stops when it solves; the search then tries other settings",
            f"at most {self.hours:.1f} core hours for these runs; {self.memory_gb:.1f} GB for each worker",
            *(f"  {kind:28} {speed:10,.0f} steps/s" for kind, speed in sorted(self.speeds.items())),
        ]
        if self.live:
            some = ", ".join(self.live[:3]) + (" …" if len(self.live) > 3 else "")
            lines.append(f"{len(self.live)} environments have no table and are played live, which is slow: {some}")
        return "\n".join(lines)


def preview(sweep: Sweep, *, device: str = "cpu") -> Preview:
    """The cost of a sweep, measured in a minute or two: one short run for every algorithm on every suite in it."""
    first = [config for env in sweep.envs for name in sweep.algorithms for config in next(search(sweep, env, name), [])]
    by_kind: dict[str, list[RunConfig]] = defaultdict(list)
    for config in first:
        by_kind[f"{config.algorithm} on {describe(config.env_id).suite.label}"].append(config)
    speeds, seconds, largest = {}, 0.0, 0.0
    for kind, configs in by_kind.items():
        speeds[kind], need = _calibrate(configs[0], device)
        seconds += sum(_most_steps(config) for config in configs) / speeds[kind]
        largest = max(largest, need)
    live = tuple(env for env in sweep.envs if sweep.live or stored_mdp(env) is None)
    steps = sum(_most_steps(config) for config in first)
    searches = len(sweep.envs) * len(sweep.algorithms)
    return Preview(searches, len(first), steps, seconds / 3600, largest / 1e9, speeds, live)


def _most_steps(config: RunConfig) -> int:
    return config.spec.max_steps(config.chosen, describe(config.env_id), config.timesteps)


def _calibrate(config: RunConfig, device: str) -> tuple[float, float]:
    """(steps/s, bytes) of one run like this one."""
    import torch

    from sqirl.runs.memory import memory_need
    from sqirl.runs.run import Run

    torch.set_num_threads(1)  # as in a worker
    spec, description = config.spec, describe(config.env_id)
    timesteps, options = spec.calibration_run(description, config.chosen)
    short = replace(config, timesteps=timesteps, options=options, stop=STOP_NEVER)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(short, RecordStore(Path(folder)), device, 1e9, None, None)
        began = time.perf_counter()
        left_out = spec.calibrate(run.model, description, timesteps)
        speed = run.model.num_timesteps / (time.perf_counter() - began + left_out)
        return speed, float(memory_need(spec, run.model, config.timesteps).total)
