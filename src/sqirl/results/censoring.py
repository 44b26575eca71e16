"""Steps of which only a range is known: a run that never solved needs more than the steps that it was run for.

A search gives smaller budgets to settings that can no longer win, so "not solved" says nothing by itself. A `StepRange` keeps
what a run says: "30,000", "more than 110,000", or "never" for a run of SQIRL or GORP that was over before its budget was spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqirl.algorithms.iterated_spec import IteratedSpec
from sqirl.runs.config import STOP_EXACT, STOP_MEAN
from sqirl.runs.record import RunRecord


@dataclass(frozen=True)
class StepRange:
    """A number of steps: more than `low` and at most `high`, or exactly `low` where both are equal."""

    low: float
    high: float

    @property
    def steps(self) -> float | None:
        """The most steps that it can be; None if there is no limit."""
        return None if math.isinf(self.high) else self.high

    @property
    def is_known(self) -> bool:
        return self.low == self.high

    def within(self, budget: float) -> bool | None:
        """Is it at most the budget? None: that is not known."""
        if self.high <= budget:
            return True
        return False if self.low >= budget else None


#: Nothing is known, as of a seed that was not run.
UNKNOWN = StepRange(0, math.inf)


def steps_to_solve(record: RunRecord) -> StepRange:
    """The sample complexity of a run, by the paper's rule."""
    found = record.complexity
    return StepRange(_run_for(record), math.inf) if found is None else StepRange(found, found)


def steps_to_optimal(record: RunRecord) -> StepRange:
    """The steps to the first policy whose true return is optimal. UNKNOWN where true returns are not known."""
    found = record.solved_exactly_at
    if found is not None:
        return StepRange(found, found)
    if not has_true_returns(record):
        return UNKNOWN
    if record.config.stop == STOP_MEAN and record.complexity is not None:  # nobody knows how it would have gone on
        return StepRange(_last_step(record), math.inf)
    return StepRange(_run_for(record), math.inf)


def has_true_returns(record: RunRecord) -> bool:
    return record.optimal_at is not None or any(point.exact is not None for point in record.curve)


def _run_for(record: RunRecord) -> float:
    """The steps for which a run that did not solve is known not to solve."""
    config, last = record.config, _last_step(record)
    stopped = config.stop == STOP_EXACT and record.solved_exactly_at is not None
    if isinstance(config.spec, IteratedSpec) and last < config.timesteps and not stopped:
        return math.inf  # all iterations were done: a larger budget changes nothing
    return min(config.timesteps, last)


def _last_step(record: RunRecord) -> int:
    return max([record.steps, *(point.steps for point in record.curve[-1:])])


def median_range(runs: Sequence[StepRange], *, seeds: int = 0) -> StepRange:
    """The range of the median. If there are fewer runs than `seeds`, nothing is known of the others.

    Three runs of five that need more than 5,000,000 steps decide that the median does, too.
    """
    padded = [*runs, *[UNKNOWN] * (seeds - len(runs))]
    if not padded:
        return UNKNOWN
    return StepRange(_median([run.low for run in padded]), _median([run.high for run in padded]))


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
