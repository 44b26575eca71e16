"""The marks of all plots of steps: one for each environment and each source, with a place on a rail where it is not solved.

The page and the figures draw the same marks. A rail is a band beyond the end of an axis of steps. Marks on it are spread over
LANES lanes, one after the other, so that they do not hide each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqirl.algorithms.registry import SQIRL
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.report.data import ReportData
from sqirl.report.predictors import scaled_horizon

LANES = 4
#: The steps that are shown, and where the rail of environments that are not solved begins and ends.
LEAST_STEPS, RAIL = 5e3, (7e6, 4.5e7)


@dataclass(frozen=True)
class Mark:
    """One environment in a plot. A coordinate in steps is None where the algorithm does not solve the environment."""

    env_id: str
    title: str
    suite: str
    x: float | None
    y: float | None
    ours: bool  # from our runs, else from the paper's
    lane: int = 0  # on a rail


def rail_height(lane: int) -> float:
    """The steps at which a lane of the rail is drawn, on a logarithmic axis."""
    low, high = RAIL
    return float(low * (high / low) ** ((lane + 0.6) / (LANES + 0.2)))


def horizon_marks(data: ReportData, tolerance: float, spec: AlgorithmSpec) -> list[Mark]:
    """log A · H̄ of the environments, with the steps of one algorithm: the paper's, then ours. `tolerance` 0: by the letter."""
    values = {env: value for env, a in data.analyses.items() if (value := scaled_horizon(a, tolerance)) is not None}
    return _against(data, values, spec)


def bound_marks(data: ReportData) -> list[Mark]:
    """The theorem's bound, its constant dropped, with the steps of SQIRL."""
    return _against(data, {row.env_id: row.bound for row in data.rows if row.bound is not None}, SQIRL)


def _against(data: ReportData, values: Mapping[str, float], spec: AlgorithmSpec) -> list[Mark]:
    found = []
    for steps_of, ours in ((data.paper_complexities.get(spec.name, {}), False), (data.drawn_steps[spec.name], True)):
        shown = sorted((env for env in values if env in steps_of), key=lambda env: values[env])
        found += [_mark(data, env, values[env], steps_of[env], ours) for env in shown]
    return _in_lanes(found, lambda mark: mark.y is None)


def pair_marks(data: ReportData, y: AlgorithmSpec, x: AlgorithmSpec) -> list[Mark]:
    """The steps of two algorithms in the environments that were run with both, the paper's first (Figure 3)."""
    found = []
    for tables, ours in ((data.paper_complexities, False), (data.drawn_steps, True)):
        of_x, of_y = tables.get(x.name, {}), tables.get(y.name, {})
        found += [_mark(data, env, of_x[env], of_y[env], ours) for env in of_x if env in of_y]
    found = _in_lanes(found, lambda mark: mark.x is None and mark.y is not None)
    return _in_lanes(found, lambda mark: mark.y is None and mark.x is not None)


def num_neither(marks: list[Mark], *, ours: bool) -> int:
    """The environments that neither algorithm of a pair solves."""
    return sum(mark.x is None and mark.y is None and mark.ours is ours for mark in marks)


def _mark(data: ReportData, env: str, x: float | None, y: float | None, ours: bool) -> Mark:
    return Mark(env, data.title_of(env), data.suite_of(env).name, x, y, ours)


def _in_lanes(marks: list[Mark], is_on_rail: Callable[[Mark], bool]) -> list[Mark]:
    placed, count = [], 0
    for mark in marks:
        placed.append(replace(mark, lane=count % LANES) if is_on_rail(mark) else mark)
        count += is_on_rail(mark)
    return placed


def value_range(marks: list[Mark]) -> tuple[float, float]:
    """The ends of a logarithmic axis of x: one and the same for all panels that show these marks."""
    xs = [mark.x for mark in marks if mark.x is not None]
    return (min(xs) / 1.15, max(xs) * 1.15) if xs else (1.0, 10.0)
