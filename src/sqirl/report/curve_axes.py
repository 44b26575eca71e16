"""The axes of a figure of learning curves: one definition for the page and for the figures.

Steps are on a logarithmic axis, for which a run that was evaluated before its first step has no place: zero is drawn at its left
end. An axis of a single value, or of equal ones, has that value in its middle.
"""

from __future__ import annotations

from sqirl.report.data import EnvironmentRuns

#: Returns beyond this are not drawn: the length of the axis would not be a number.
LARGEST = 1e300


def step_range(runs: EnvironmentRuns, *, log: bool) -> tuple[float, float]:
    """The ends of the axis of steps."""
    steps = [int(step) for curve in runs.curves.values() for step in curve.steps]
    last = max(steps, default=1)
    if not log:
        return 0.0, 1.02 * max(last, 1)
    first = min((step for step in steps if step > 0), default=1)
    return (0.9 * first, 1.1 * last) if last > first else (0.1 * first, 10.0 * first)


def return_range(runs: EnvironmentRuns) -> tuple[float, float]:
    """The ends of the axis of returns: all ranges over seeds, and the lines of the optimal and the random return."""
    values = [float(v) for curve in runs.curves.values() for ends in (curve.low, curve.high) for v in ends]
    values += [line for line in (runs.optimal, runs.random) if line is not None]
    values = [value for value in values if abs(value) < LARGEST]
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = 0.06 * (high - low) or 0.5 * abs(high) or 1.0
    return low - pad, high + pad
