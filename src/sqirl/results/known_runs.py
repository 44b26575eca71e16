"""What earlier runs say about a run: its record, or what its record would be if only its budget differs.

SQIRL and GORP do not depend on their budget (`AlgorithmSpec.depends_on_budget`): a run with a larger budget passes through the
same steps, and a run that ended before its budget was spent would have ended at the same step with any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord


class KnownRuns:
    """Records by everything but their budgets."""

    def __init__(self, records: Iterable[RunRecord]) -> None:
        self._records: dict[RunConfig, list[RunRecord]] = defaultdict(list)
        for record in records:
            self.add(record)

    def add(self, record: RunRecord) -> None:
        if record.error is None:
            self._records[_without_budget(record.config)].append(record)

    def answer(self, config: RunConfig) -> RunRecord | None:
        """The record that the run would have; None if it does not follow from the records."""
        for record in self._records.get(_without_budget(config), ()):
            if record.config == config:
                return record
            if config.spec.depends_on_budget:
                continue
            if record.config.timesteps >= config.timesteps:
                return _cut(record, config)
            if record.steps < record.config.timesteps:  # over before its budget was spent
                return replace(record, config=config)
        return None

    def answers(self, wanted: Sequence[RunConfig]) -> dict[RunConfig, RunRecord]:
        """The records that the runs of one setting would have, as far as they are known.

        When the majority is known to solve within C steps, a record of C steps is enough for the others: see `majority`.
        """
        found = {config: record for config in wanted if (record := self.answer(config)) is not None}
        solved = sorted(record.complexity for record in found.values() if record.complexity is not None)
        if len(solved) >= majority(wanted):
            for config in wanted:
                shorter = self._records.get(_without_budget(config), ())
                if config not in found and not config.spec.depends_on_budget:
                    long_enough = [r for r in shorter if r.config.timesteps >= solved[majority(wanted) - 1]]
                    if long_enough:
                        found[config] = long_enough[0]
        return found


def majority(configs: Sequence[RunConfig]) -> int:
    """How many runs decide the median of these: when so many are solved, the others need not go on."""
    return len(configs) // 2 + 1


def _without_budget(config: RunConfig) -> RunConfig:
    return replace(config, timesteps=0)


def _cut(record: RunRecord, config: RunConfig) -> RunRecord:
    """The record of the run at the time when the smaller budget was spent."""
    if record.steps <= config.timesteps:
        return replace(record, config=config)
    curve = tuple(point for place, point in enumerate(record.curve) if record.due(place) <= config.timesteps)
    seen = record.optimal_at is not None and record.optimal_at <= config.timesteps
    return replace(
        record, config=config, curve=curve, steps=config.timesteps, optimal_at=record.optimal_at if seen else None
    )
