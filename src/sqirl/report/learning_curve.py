"""The learning curve of a setting over its seeds: the one definition for the page and for the figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqirl.runs.record import RunRecord


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Median, least and greatest mean return over seeds, at each step of a grid.

    The grid is the union of the steps at which evaluations were due. At a step of the grid, the value of a run is that of its
    last evaluation at or before this step. Before its first evaluation a run has the value of its first evaluation.
    """

    steps: NDArray[np.int64]  # (N,), ascending
    median: NDArray[np.float64]  # (N,)
    low: NDArray[np.float64]  # (N,)
    high: NDArray[np.float64]  # (N,)

    def thinned(self, points: int) -> LearningCurve:
        """Every n-th point and the last one: between `points` and twice as many remain, if there are more."""
        last = len(self.steps) - 1
        kept = np.append(np.arange(0, last, max(1, len(self.steps) // points)), last)
        return LearningCurve(self.steps[kept], self.median[kept], self.low[kept], self.high[kept])


def learning_curve(records: Iterable[RunRecord]) -> LearningCurve | None:
    """The curve over the records, one for each seed; None if none of them was evaluated."""
    # Of two evaluations that were due at the same step the later one counts
    runs = [{_shown_at(record, place): point.mean for place, point in enumerate(record.curve)} for record in records]
    runs = [run for run in runs if run]
    if not runs:
        return None
    grid = np.array(sorted({steps for run in runs for steps in run}), np.int64)  # (N,)
    values = np.array([_held(run, grid) for run in runs])  # (seeds, N)
    return LearningCurve(grid, np.median(values, axis=0), values.min(axis=0), values.max(axis=0))


def _shown_at(record: RunRecord, place: int) -> int:
    """The step of an evaluation on the grid: when it was due. One that was due after the budget is shown where it was made."""
    return min(record.due(place), max(record.config.timesteps, record.curve[place].steps))


def _held(run: dict[int, float], grid: NDArray[np.int64]) -> NDArray[np.float64]:
    """The value of a run at each step of the grid: that of the last evaluation at or before it."""
    due = np.array(sorted(run), np.int64)
    means = np.array([run[steps] for steps in sorted(run)], np.float64)
    held: NDArray[np.float64] = means[np.maximum(np.searchsorted(due, grid, side="right") - 1, 0)]
    return held
