"""Records gathered by environment and algorithm: the best setting, its sample complexity, its returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqirl.algorithms.registry import algorithm_names
from sqirl.envs.catalogue import catalogue
from sqirl.envs.suites import Suite, suite_of
from sqirl.results.statistics import Complexities, censored_median, within_budget
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an algorithm on an environment, with the setting whose median run solved it soonest (or did best)."""

    env_id: str
    algorithm: str
    setting: str  # "k=1 m=100", "rollout=128", …
    complexity: float | None  # the median over seeds by the paper's rule; None: not solved
    exact_complexity: float | None  # the same by the true return
    best_return: float | None  # the median over seeds of the best mean
    records: tuple[RunRecord, ...]
    num_settings: int

    @property
    def suite(self) -> Suite:
        return suite_of(self.env_id)


def outcomes(records: Iterable[RunRecord]) -> dict[tuple[str, str], Outcome]:
    """(environment, algorithm) -> outcome. Failed runs are ignored; runs that never solved count as not solved."""
    groups: dict[tuple[str, str], dict[RunConfig, list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.error is None:
            groups[record.config.env_id, record.config.algorithm][_setting(record.config)].append(record)
    return {key: _best(key, settings) for key, settings in sorted(groups.items())}


def _setting(config: RunConfig) -> RunConfig:
    """What the seeds of one setting share: everything but the seed and the rule to stop."""
    return replace(config, seed=0, stop="", eval_episodes=0)


def _best(key: tuple[str, str], settings: Mapping[RunConfig, list[RunRecord]]) -> Outcome:
    each_once = [_one_of_each_seed(records) for records in settings.values()]
    most = max(len(records) for records in each_once)
    # In an unfinished sweep the seeds that are done may be those that solved early: settings with all seeds come first
    chosen = min((records for records in each_once if len(records) == most), key=rank)
    return Outcome(
        *key,
        chosen[0].config.setting,
        censored_median([record.complexity for record in chosen]),
        censored_median([record.solved_exactly_at for record in chosen]),
        censored_median([record.best_mean for record in chosen]),
        tuple(sorted(chosen, key=lambda record: record.config.seed)),
        len(settings),
    )


def _one_of_each_seed(records: list[RunRecord]) -> list[RunRecord]:
    """The same run with another rule to stop is not another seed: the longest one is taken."""
    by_seed: dict[int, RunRecord] = {}
    for record in sorted(records, key=lambda record: (record.steps, record.config.stop)):
        by_seed[record.config.seed] = record
    return list(by_seed.values())


def rank(records: list[RunRecord]) -> tuple[bool, float, float]:
    """The smaller the better: solved by the median run, soon, or else with a high return."""
    median = censored_median([record.complexity for record in records])
    returns = censored_median([record.best_mean for record in records])
    return median is None, median or 0.0, -(returns or 0.0)


def paper_tables() -> dict[str, Complexities]:
    """The paper's printed sample complexities by algorithm; those above its budget count as not solved."""
    rows = catalogue()
    return {
        name: within_budget({str(row.env_id): row.paper_steps.get(name) for row in rows}) for name in algorithm_names()
    }


def our_tables(found: Mapping[tuple[str, str], Outcome]) -> dict[str, Complexities]:
    """Our sample complexities by algorithm, of the BRIDGE environments that were run."""
    return {
        name: {env: o.complexity for (env, a), o in found.items() if a == name and o.suite.is_bridge}
        for name in algorithm_names()
    }
