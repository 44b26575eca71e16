"""The record of a run: its learning curve and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqirl.runs.config import RunConfig

#: A mean is at the optimum if it lacks no more than this share of the return's magnitude, which is rounding of sums.
OPTIMUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Point:
    """One evaluation: after `steps` steps, the mean over episodes and, on a table, the true return of the policy."""

    steps: int
    mean: float
    exact: float | None = None


@dataclass(frozen=True)
class RunRecord:
    """The result of a run. `error` is set where it failed; the rest is then what there was until the failure."""

    config: RunConfig
    curve: tuple[Point, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    optimal_return: float | None = None
    tolerance: float = 0.0  # how far below it counts as reached: half a unit of the last digit, where it was printed
    random_return: float | None = None
    played_from: str = ""  # "table" or "live"
    device: str = ""  # "cpu" or "cuda": the same run may come out differently
    trainer: str = "single"  # "single": a model of its own; "population": one of several runs on the device
    precision: str = "float32"
    optimal_at: int | None = None  # steps of the first policy seen to be truly optimal, also between evaluations
    error: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def solved_at(self) -> int | None:
        """Steps at the first evaluation whose mean reaches the optimal return (the paper's rule)."""
        place = self._first(lambda point: point.mean)
        return None if place is None else self.curve[place].steps

    @property
    def complexity(self) -> int | None:
        """The paper's sample complexity: when the evaluation that solved was due."""
        place = self._first(lambda point: point.mean)
        return None if place is None else self.due(place)

    def due(self, place: int) -> int:
        """The steps at which the evaluation at a place of the curve was due: a whole number of intervals.

        It is done with the next step of all lanes, a little later. A run of SQIRL may end, and is then evaluated, between two
        evaluations of the paper's schedule: that evaluation counts for the next one.
        """
        steps, every = self.curve[place].steps, self.config.eval_every
        before = self.curve[place - 1].steps if place else 0
        in_time = steps // every > before // every or steps % every == 0
        return (steps // every + (not in_time)) * every

    @property
    def solved_exactly_at(self) -> int | None:
        """Steps at which the policy's true return was first seen to be optimal."""
        place = self._first(lambda point: point.exact)
        seen = [self.curve[place].steps] if place is not None else []
        return min([*seen, *([self.optimal_at] if self.optimal_at is not None else [])], default=None)

    def _first(self, value_of: Callable[[Point], float | None]) -> int | None:
        """The place in the curve of the first point that reaches the optimum."""
        if self.optimal_return is None:
            return None
        for place, point in enumerate(self.curve):
            value = value_of(point)
            if value is not None and reaches(value, self.optimal_return, self.tolerance):
                return place
        return None

    @property
    def best_mean(self) -> float | None:
        return max((point.mean for point in self.curve), default=None)

    @property
    def summary(self) -> str:
        """One line for people."""
        if not self.curve:
            return f"{self.config.label}: {f'failed: {self.error}' if self.error else 'not evaluated'}"
        last = self.curve[-1]
        exact = "" if last.exact is None else f" (true return {last.exact:.6g})"
        optimal = "" if self.optimal_return is None else f" of {self.optimal_return:.6g}"
        if self.solved_at is not None:
            verdict = f"solved after {self.solved_at:,} steps"
            if last.exact is not None:
                exactly = self.solved_exactly_at
                verdict += (
                    f", its true return optimal after {exactly:,}" if exactly else ", its true return not optimal"
                )
        else:
            verdict = "not solved" if self.optimal_return is not None else "done"
        return (
            f"{self.config.label}: {verdict}; last mean return {last.mean:.6g}{optimal}{exact}, {self.steps:,} steps, "
            f"{self.seconds:.0f} s"
        )

    def to_dict(self) -> dict[str, Any]:
        points = [[p.steps, p.mean, p.exact] for p in self.curve]
        return {
            **asdict(self),
            "config": self.config.to_dict(),
            "curve": points,
            "solved_at": self.solved_at,
            "solved_exactly_at": self.solved_exactly_at,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> RunRecord:
        own = {f.name for f in fields(cls)}  # what a newer version adds, and what is computed, is left out
        known = {key: value for key, value in plain.items() if key in own}
        known["config"] = RunConfig.from_dict(plain["config"])
        known["curve"] = tuple(Point(int(p[0]), float(p[1]), *map(_optional_float, p[2:])) for p in plain["curve"])
        if not all(math.isfinite(point.mean) for point in known["curve"]):
            raise ValueError("a mean return that is not a number")
        return cls(**known)


def _optional_float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def reaches(value: float, optimum: float, tolerance: float = 0.0) -> bool:
    return value >= optimum - max(tolerance, OPTIMUM_TOLERANCE * max(1.0, abs(optimum)))
