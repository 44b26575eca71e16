"""What a sweep will cost: runs, steps, memory, and time, measured by short runs. What is known already costs nothing."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sqirl.envs.description import describe
from sqirl.errors import counted
from sqirl.experiments.scheduler import OpenSearch
from sqirl.experiments.search import search
from sqirl.experiments.sweeps import Sweep
from sqirl.mdp.store import stored_mdp
from sqirl.results.known_runs import KnownRuns
from sqirl.runs.config import STOP_NEVER, RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runs.store import RecordStore

#: Seconds in which all kinds of populations of a sweep are measured.
POPULATION_SECONDS = 10.0


@dataclass(frozen=True)
class Preview:
    """The next runs of every search, as an estimate of all. A run stops when it solves, so the hours are an upper bound."""

    searches: int
    finished: int  # of these, the ones that known records answer
    next_runs: int
    most_steps: int
    device: str
    hours: float | None  # None: not measured
    memory_gb: float | None
    speeds: dict[str, float]  # "algorithm on kind" -> steps/s of one worker, or of one population
    live: tuple[str, ...]  # environments without a table

    def __str__(self) -> str:
        left, on_gpu = self.searches - self.finished, self.device.startswith("cuda")
        done = f"{self.finished} of {self.searches} searches are answered by known runs; " if self.finished else ""
        lines = [
            f"{done}{left} searches go on with {self.next_runs} runs of at most {self.most_steps:,} steps in all; "
            f"a run stops when it solves; the search then tries other settings"
        ]
        if self.hours is not None and self.memory_gb is not None:
            unit, who = ("GPU hours", "population") if on_gpu else ("core hours", "worker")
            lines.append(f"at most {self.hours:.2g} {unit} for these runs; {self.memory_gb:.1f} GB for each {who}")
        lines += [f"  {kind:28} {speed:10,.0f} steps/s" for kind, speed in sorted(self.speeds.items())]
        if self.live:
            some = ", ".join(self.live[:3]) + (" …" if len(self.live) > 3 else "")
            have = counted(len(self.live), "environment has no table and is", "environments have no table and are")
            lines.append(f"{have} played live, which is slow: {some}")
        return "\n".join(lines)


def preview(sweep: Sweep, *, device: str = "cpu", known: Iterable[RunRecord] = (), measure: bool = True) -> Preview:
    """The cost of a sweep, measured in a minute or two by a short run of every algorithm on every suite.

    Populations are measured for ten seconds in all.

    :param device: "cpu" or "cuda"
    :param known: records of runs that need not be run again
    :param measure: measure speed and memory
    """
    searches = [OpenSearch(search(sweep, env, name)) for env, name in sweep.cases()]
    runs = KnownRuns(known)
    for each in searches:
        each.advance()
        each.take(runs)
    waiting = [each for each in searches if each.finding is None]
    by_kind: dict[str, list[RunConfig]] = defaultdict(list)
    for each in waiting:
        first = each.wanted[0]
        by_kind[f"{first.algorithm} on {describe(first.env_id).suite.label}"] += each.missing
    speeds, seconds, largest = {}, 0.0, 0.0
    for kind, configs in by_kind.items() if measure else ():
        speeds[kind], need = _calibrate(configs, device, POPULATION_SECONDS / len(by_kind))
        seconds += sum(map(_most_steps, configs)) / speeds[kind]
        largest = max(largest, need)
    steps = sum(_most_steps(config) for configs in by_kind.values() for config in configs)
    return Preview(
        len(searches),
        len(searches) - len(waiting),
        sum(map(len, by_kind.values())),
        steps,
        device,
        seconds / 3600 if measure else None,
        largest / 1e9 if measure else None,
        speeds,
        tuple(env for env in sweep.envs if sweep.live or stored_mdp(env) is None),
    )


def _most_steps(config: RunConfig) -> int:
    return config.spec.max_steps(config.chosen, describe(config.env_id), config.timesteps)


def _calibrate(configs: list[RunConfig], device: str, seconds: float) -> tuple[float, float]:
    """(steps/s, bytes) of one run like the first of these, or of its population."""
    import torch

    from sqirl.runs.perform import trains_together

    torch.set_num_threads(1)  # as in a worker
    first = configs[0]
    if trains_together(first, device):
        from sqirl.runs.population_run import measure

        group = [config for config in configs if replace(config, seed=0) == replace(first, seed=0)]
        return measure(group, device=device, seconds=seconds)
    from sqirl.runs.memory import memory_need
    from sqirl.runs.run import Run

    spec, description = first.spec, describe(first.env_id)
    timesteps, options = spec.calibration_run(description, first.chosen)
    short = replace(first, timesteps=timesteps, options=options, stop=STOP_NEVER)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(short, RecordStore(Path(folder)), device, 1e9, None, None)
        began = time.perf_counter()
        left_out = spec.calibrate(run.model, description, timesteps)
        speed = run.model.num_timesteps / (time.perf_counter() - began + left_out)
        return speed, float(memory_need(spec, run.model, first.timesteps).total)
