"""The record of a run: its learning curve and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any

from sqirl.errors import counted
from sqirl.runs.config import RunConfig
from sqirl.runs.fields import mapping, number, text, whole

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
    iterations: int | None = None  # of SQIRL and GORP: those that were completed
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
    def share(self) -> float | None:
        """How far the last return is on the way from random play to the optimum: see `share_of_gain`."""
        return share_of_gain(self._last_return, self.optimal_return, self.random_return) if self.curve else None

    @property
    def share_line(self) -> str | None:
        """'return 0.41 = 47 % of the way from random play (0.02) to the optimum (0.85)'."""
        if self.share is None:
            return None
        return (
            f"return {self._last_return:.4g} = {100 * self.share:.0f} % of the way from random play "
            f"({self.random_return:.4g}) to the optimum ({self.optimal_return:.4g})"
        )

    @property
    def _last_return(self) -> float:
        last = self.curve[-1]
        return last.mean if last.exact is None else last.exact

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
            f"{self.config.label}: {verdict}; last mean return {last.mean:.6g}{optimal}{exact}, {counted(self.steps, 'step')}, "
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
            "share": self.share,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> RunRecord:
        """The inverse of `to_dict`; a wrong value is a ValueError that names it."""
        own = {f.name for f in fields(cls)}  # what a newer version adds, and what is computed, is left out
        known = {key: value for key, value in mapping("the record", plain).items() if key in own}
        if missing := {"config", "curve"} - known.keys():
            raise ValueError(f"it has no {', '.join(sorted(missing))}")
        known["config"] = RunConfig.from_dict(mapping("config", known["config"]))
        known["curve"] = _curve(known["curve"])
        for each in fields(cls):
            kind, _, optional = str(each.type).partition(" | ")
            if kind in _CHECKS and each.name in known and not (optional and known[each.name] is None):
                known[each.name] = _CHECKS[kind](each.name, known[each.name])
        return cls(**known)


def _texts(name: str, value: Any) -> dict[str, str]:
    return {text(name, key): text(f"{name}.{key}", each) for key, each in mapping(name, value).items()}


#: By the type of a field: what checks its value.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {"int": whole, "float": number, "str": text, "dict[str, str]": _texts}


def _curve(plain: Any) -> tuple[Point, ...]:
    """The points of a curve; the steps never decrease."""
    if not isinstance(plain, list | tuple) or not all(isinstance(p, list | tuple) and 2 <= len(p) <= 3 for p in plain):
        raise ValueError(f"curve = {plain!r} is not a list of [steps, mean, exact]")
    points = [
        Point(
            whole("steps", steps),
            number("a mean return", mean),
            *[None if value is None else number("a true return", value) for value in exact],
        )
        for steps, mean, *exact in plain
    ]
    if any(first.steps > second.steps for first, second in pairwise(points)):
        raise ValueError("the steps of its curve decrease")
    return tuple(points)


def reaches(value: float, optimum: float, tolerance: float = 0.0) -> bool:
    return value >= optimum - max(tolerance, OPTIMUM_TOLERANCE * max(1.0, abs(optimum)))


def share_of_gain(value: float, optimal: float | None, random: float | None) -> float | None:
    """How far a return is on the way from random play (0) to the optimum (1); None if one of them is not known."""
    if optimal is None or random is None or optimal <= random:
        return None
    return (value - random) / (optimal - random)
