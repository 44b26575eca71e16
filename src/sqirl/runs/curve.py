"""The learning curve of a run while it grows: when it is evaluated next, whether it is solved, and its record."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sqirl.errors import WorkFailed
from sqirl.runs.config import STOP_MEAN, STOP_NEVER, RunConfig
from sqirl.runs.record import Point, RunRecord, reaches
from sqirl.runs.target import Target

#: Packages whose versions are stored in a record.
VERSIONS = ("sqirl", "torch", "stable-baselines3", "numpy")


class Curve:
    """The evaluations of one run so far. A model of its own and a member of a population both fill one."""

    def __init__(self, config: RunConfig, target: Target, points: Iterable[Point] = ()) -> None:
        self.config, self.target, self.points = config, target, list(points)
        self.optimal_at: int | None = None  # steps of the first policy seen to be truly optimal

    def due(self, before: int, after: int) -> range:
        """The steps after `before` and up to `after` at which an evaluation is due."""
        every = self.config.eval_every
        return range((before // every + 1) * every, min(after, self.config.timesteps) + 1, every)

    def add(self, steps: int, mean: float, exact: float | None) -> None:
        """Add an evaluation. A mean that is not finite is an error of the environment."""
        if not math.isfinite(mean):
            raise WorkFailed(
                f"the mean return of {self.config.env_id} after {steps:,} steps is {mean}: its rewards are not finite"
            )
        point = Point(steps, mean, exact)
        if point not in self.points:  # learning after the last step makes another one of the same steps
            self.points.append(point)
        if exact is not None:
            self.note_exact(steps, exact)

    def note_exact(self, steps: int, exact: float) -> None:
        """Take the true return of the policy after so many steps, also between evaluations."""
        if self.optimal_at is None and self.reached(exact):
            self.optimal_at = steps

    def reached(self, value: float) -> bool:
        """Is this return optimal?"""
        return self.target.optimal is not None and reaches(value, self.target.optimal, self.target.tolerance)

    @property
    def solved(self) -> bool:
        """By the rule that the run stops by; without a true return, by the mean."""
        if self.config.stop == STOP_NEVER or not self.points:
            return False
        last = self.points[-1]
        return self.reached(last.mean if self.config.stop == STOP_MEAN or last.exact is None else last.exact)

    def record(self, steps: int, seconds: float, **how: Any) -> RunRecord:
        """The record of the run that ends now; `how` are the fields of `RunRecord` that say how it was trained."""
        return RunRecord(
            self.config,
            tuple(self.points),
            steps,
            round(seconds, 3),
            self.target.optimal,
            self.target.tolerance,
            self.target.random,
            optimal_at=self.optimal_at,
            **how,
        )


def versions_of(names: Iterable[str] = VERSIONS) -> dict[str, str]:
    """The versions of the packages that are installed here."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
