"""Device time: what our runs took, and what the rows of the paper that were not run would take at the same rate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqirl.results.outcomes import Case, Outcome
from sqirl.results.statistics import Complexities
from sqirl.runs.record import RunRecord


@dataclass(frozen=True)
class DeviceTime:
    """The runs of one algorithm on one kind of device. In a population, the seconds of a run are its share of the time."""

    algorithm: str
    device: str
    trainer: str
    runs: int
    seconds: float
    steps: int


@dataclass(frozen=True)
class CostOfRows:
    """The seconds of the rows that were run on a kind of device, and the estimate for those that were not."""

    algorithm: str
    device: str
    rows: int
    seconds: float
    rows_left: int
    seconds_left: float


def device_times(records: Iterable[RunRecord]) -> list[DeviceTime]:
    """The time of all runs by algorithm, device and trainer, failed ones included."""
    groups: dict[tuple[str, str, str], list[RunRecord]] = defaultdict(list)
    for record in records:
        groups[record.config.algorithm, record.device or "unknown", record.trainer].append(record)
    return [
        DeviceTime(*key, len(runs), sum(run.seconds for run in runs), sum(run.steps for run in runs))
        for key, runs in sorted(groups.items())
    ]


def cost_of_rows(
    name: str, records: Sequence[RunRecord], found: Mapping[Case, Outcome], paper: Complexities
) -> CostOfRows | None:
    """The cost of the rows of the paper's table with one algorithm; None if no row was run.

    A row that was not run is taken to cost the mean of the rows that were run and that the paper's result agrees with: solved
    or not solved. If no such row was run, it is the mean of all rows. The runs are those of the variant that is compared, on the
    kind of device that made most of their steps: seconds of a GPU and of a CPU do not add up.
    """

    def counts(record: RunRecord) -> bool:
        outcome = found.get((record.config.env_id, name))
        is_compared = outcome is not None and outcome.variant == record.config.variant
        return record.config.algorithm == name and record.config.env_id in paper and is_compared

    runs, steps = [record for record in records if counts(record)], Counter[str]()
    for record in runs:
        steps[record.device or "unknown"] += record.steps
    if not runs:
        return None
    [(device, _)] = steps.most_common(1)
    seconds: dict[str, float] = defaultdict(float)
    for record in runs:
        if (record.device or "unknown") == device:
            seconds[record.config.env_id] += record.seconds
    left = [env for env in paper if env not in seconds]
    rates = {solved: _mean([s for env, s in seconds.items() if (paper[env] is not None) == solved], seconds)
             for solved in (True, False)}  # fmt: skip
    return CostOfRows(
        name, device, len(seconds), sum(seconds.values()), len(left), sum(rates[paper[env] is not None] for env in left)
    )


def _mean(values: list[float], otherwise: Mapping[str, float]) -> float:
    chosen = values or list(otherwise.values())
    return sum(chosen) / len(chosen)
