"""Device time: what our runs took, and what the rows of the paper that were not run would take at the same rate."""

from __future__ import annotations

from collections import defaultdict
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
    """The seconds of the rows that were run, and the estimate for those that were not."""

    algorithm: str
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
    or not solved. If no such row was run, it is the mean of all rows. The runs are those of the variant that is compared.
    """
    seconds: dict[str, float] = defaultdict(float)
    for record in records:
        env = record.config.env_id
        outcome = found.get((env, name))
        if record.config.algorithm == name and env in paper and outcome and outcome.variant == record.config.variant:
            seconds[env] += record.seconds
    if not seconds:
        return None
    left = [env for env in paper if env not in seconds]
    rates = {solved: _mean([s for env, s in seconds.items() if (paper[env] is not None) == solved], seconds)
             for solved in (True, False)}  # fmt: skip
    return CostOfRows(
        name, len(seconds), sum(seconds.values()), len(left), sum(rates[paper[env] is not None] for env in left)
    )


def _mean(values: list[float], otherwise: Mapping[str, float]) -> float:
    chosen = values or list(otherwise.values())
    return sum(chosen) / len(chosen)
