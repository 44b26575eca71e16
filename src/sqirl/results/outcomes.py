"""Records gathered by environment, algorithm and variant: the best setting, its sample complexity, its returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqirl.algorithms.registry import algorithm_names
from sqirl.envs.catalogue import catalogue
from sqirl.envs.suites import OURS, PAPER, Suite, suite_of
from sqirl.results.censoring import StepRange, has_true_returns, median_range, steps_to_optimal
from sqirl.results.statistics import Complexities, censored_median, within_budget
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord

#: (environment, algorithm).
Case = tuple[str, str]
#: Where there are records of several variants, the first of these is compared with the paper.
PREFERRED_VARIANTS = (PAPER, OURS)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of an algorithm on an environment, with the setting whose median run solved it soonest (or did best)."""

    env_id: str
    algorithm: str
    variant: str
    setting: str  # "k=1 m=100", "rollout=128", …
    complexity: float | None  # the median over seeds by the paper's rule; None: not solved
    exact_complexity: float | None  # the same by the true return, without the intervals of evaluations
    best_return: float | None  # the median over seeds of the best mean
    records: tuple[RunRecord, ...]  # one for each seed of the best setting
    settings: tuple[tuple[RunRecord, ...], ...]  # the same of all settings, the best one included

    @property
    def num_settings(self) -> int:
        """How many settings were tried. The same one with another budget counts once."""
        return len({records[0].config.options for records in self.settings})

    @property
    def suite(self) -> Suite:
        return suite_of(self.env_id)

    @property
    def steps_to_optimal(self) -> StepRange | None:
        """The median over seeds of the steps to a truly optimal policy; None where true returns are not known."""
        if not any(map(has_true_returns, self.records)):
            return None
        return median_range([steps_to_optimal(record) for record in self.records])


@dataclass(frozen=True)
class VariantGain:
    """An environment and an algorithm of which both variants were run."""

    ours: Outcome
    paper: Outcome

    @property
    def ratio(self) -> float | None:
        """Median steps of OURS over those of PAPER; None where one of them did not solve."""
        ours, paper = self.ours.complexity, self.paper.complexity
        return None if ours is None or paper is None else ours / paper


def outcomes(records: Iterable[RunRecord]) -> dict[Case, Outcome]:
    """(environment, algorithm) -> outcome, of the variant that is compared with the paper."""
    return preferred(outcomes_by_variant(records))


def outcomes_by_variant(records: Iterable[RunRecord]) -> dict[str, dict[Case, Outcome]]:
    """Variant -> (environment, algorithm) -> outcome. Failed runs are ignored; runs that never solved count as not solved."""
    groups: dict[tuple[str, Case], dict[RunConfig, list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.error is None:
            config = record.config
            groups[config.variant, (config.env_id, config.algorithm)][_setting(config)].append(record)
    found: dict[str, dict[Case, Outcome]] = defaultdict(dict)
    for (variant, case), settings in sorted(groups.items(), key=lambda group: group[0]):
        found[variant][case] = _best(variant, case, settings)
    return dict(found)


def preferred(
    by_variant: Mapping[str, Mapping[Case, Outcome]], *, is_decided: Callable[[Outcome], bool] = lambda outcome: True
) -> dict[Case, Outcome]:
    """The outcome of each case, of the first of PREFERRED_VARIANTS that was run, else of any other variant.

    A variant whose runs do not decide the case (`is_decided`) comes after those that do: its search is not finished.
    """
    order = [*PREFERRED_VARIANTS, *sorted(by_variant.keys() - set(PREFERRED_VARIANTS))]
    cases = sorted({case for found in by_variant.values() for case in found})
    chosen = {}
    for case in cases:
        run = [by_variant[variant][case] for variant in order if case in by_variant.get(variant, {})]
        chosen[case] = next((outcome for outcome in run if is_decided(outcome)), run[0])
    return chosen


def variant_gains(by_variant: Mapping[str, Mapping[Case, Outcome]]) -> list[VariantGain]:
    """The cases of which both OURS and PAPER were run."""
    ours, paper = by_variant.get(OURS, {}), by_variant.get(PAPER, {})
    return [VariantGain(ours[case], paper[case]) for case in sorted(ours.keys() & paper.keys())]


def _setting(config: RunConfig) -> RunConfig:
    """What the seeds of one setting share: all but the seed, the rule to stop, and a budget that changes nothing."""
    budget = config.timesteps if config.spec.depends_on_budget else 0
    return replace(config, seed=0, stop="", eval_episodes=0, timesteps=budget)


def _best(variant: str, case: Case, settings: Mapping[RunConfig, list[RunRecord]]) -> Outcome:
    each_once = [_one_of_each_seed(records) for records in settings.values()]
    most = max(len(records) for records in each_once)
    # In an unfinished sweep the seeds that are done may be those that solved early: settings with all seeds come first
    chosen = min((records for records in each_once if len(records) == most), key=rank)
    return Outcome(
        *case,
        variant,
        chosen[0].config.setting,
        censored_median([record.complexity for record in chosen]),
        censored_median([record.solved_exactly_at for record in chosen]),
        censored_median([record.best_mean for record in chosen]),
        chosen,
        tuple(each_once),
    )


def _one_of_each_seed(records: list[RunRecord]) -> tuple[RunRecord, ...]:
    """The same run with another budget or another rule to stop is not another seed: the longest one is taken."""
    by_seed: dict[int, RunRecord] = {}
    for record in sorted(records, key=lambda record: (record.config.timesteps, record.steps, record.config.stop)):
        by_seed[record.config.seed] = record
    return tuple(by_seed[seed] for seed in sorted(by_seed))


def rank(records: Sequence[RunRecord]) -> tuple[bool, float, float]:
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


def our_tables(found: Mapping[Case, Outcome]) -> dict[str, Complexities]:
    """Our sample complexities by algorithm, of the BRIDGE environments that were run."""
    return {
        name: {env: o.complexity for (env, a), o in found.items() if a == name and o.suite.is_bridge}
        for name in algorithm_names()
    }
