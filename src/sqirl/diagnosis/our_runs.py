"""Runs of PPO with our presets: the steps until it has 90 % of the gain on random play, in data/our_runs.json.

`scripts/make_our_runs.py` makes them. The second prediction of `diagnose` is fitted to them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from sqirl.envs.description import describe
from sqirl.runtime.files import write_atomically


@dataclass(frozen=True)
class OurRun:
    """One run. It was trained until an evaluation reached the return that counts as good, or until it was cut."""

    env: str  # the name of what was trained
    table: str  # the id of the game
    seen_as: str  # how the agent sees it: see `sqirl.diagnosis.features.SEEN_AS`
    seed: int
    reached_at: int | None  # steps of the first evaluation that reached it
    steps: int  # that were trained
    features: Mapping[str, float]  # the exact ones
    eval_every: int = 10_000

    @property
    def step_range(self) -> tuple[float, float]:
        """What it says about log10 of the steps: (at least, at most)."""
        if self.reached_at is None:
            return math.log10(self.steps), math.inf
        before = self.reached_at - self.eval_every
        return math.log10(before) if before >= self.eval_every else -math.inf, math.log10(self.reached_at)


def our_runs_path() -> Path:
    return Path(str(resources.files("sqirl.data"))) / "our_runs.json"


def read_our_runs() -> list[OurRun]:
    """The runs that ship with the package."""
    path = our_runs_path()
    return [OurRun(**record) for record in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


@cache
def longest_horizon() -> int:
    """The steps of the longest episodes of these runs."""
    return max(describe(run.table).horizon or 0 for run in read_our_runs())


def write_our_runs(runs: Iterable[OurRun]) -> None:
    """One line for each run."""
    plain = [asdict(run) for run in runs]
    for record in plain:
        record["features"] = {name: round(value, 4) for name, value in record["features"].items()}
    lines = ",\n".join(json.dumps(record) for record in plain)
    write_atomically(our_runs_path(), f"[\n{lines}\n]\n".encode())
