"""The sample complexity of a setting that was not chosen by the run that it is reported of.

The paper reports the setting with the smallest median over the same seeds that it was chosen by, which is optimistic. Here
each seed is left out once: the setting is chosen by the median over the other seeds, and the steps of this seed count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqirl.results.censoring import StepRange, median_range, steps_to_solve
from sqirl.results.outcomes import Outcome, rank
from sqirl.runs.record import RunRecord


@dataclass(frozen=True)
class CrossValidated:
    """The median over the seeds, and the setting that was chosen without each seed."""

    steps: StepRange
    chosen: tuple[str, ...]  # in the order of the seeds


def cross_validated(outcome: Outcome) -> CrossValidated | None:
    """Leave-one-seed-out over the settings that were run with all seeds of the outcome; None with fewer than two seeds.

    A run that did not solve counts as more than the steps that it was run for, so the median may be a range. A setting that a
    search gave up after some seeds cannot be chosen: it did not solve with most of the seeds.
    """
    seeds = [record.config.seed for record in outcome.records]
    if len(seeds) < 2:
        return None
    settings = [records for records in outcome.settings if [record.config.seed for record in records] == seeds]
    left_out = [_chosen_without(settings, place)[place] for place in range(len(seeds))]
    steps = median_range([steps_to_solve(record) for record in left_out])
    return CrossValidated(steps, tuple(record.config.setting for record in left_out))


def _chosen_without(settings: Sequence[tuple[RunRecord, ...]], place: int) -> tuple[RunRecord, ...]:
    """The best setting by the median over all seeds but one."""
    return min(settings, key=lambda records: _preference([*records[:place], *records[place + 1 :]]))


def _preference(records: Sequence[RunRecord]) -> tuple[bool, float, bool, float, float]:
    """The smaller the better: by the median, then by the lower median, then by the return.

    Of five seeds four remain. If two of them solve, their median is not known, but the setting is better than one that solves
    with none of them.
    """
    unsolved, steps, returns = rank(records)
    ordered = sorted(math.inf if record.complexity is None else record.complexity for record in records)
    lower = ordered[(len(ordered) - 1) // 2]
    return unsolved, steps, math.isinf(lower), lower, returns
