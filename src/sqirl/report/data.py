"""Every number that the report shows, computed once. The page, the figures, the tables and the docs only lay it out.

`report_data(records)` gathers everything. What only concerns an environment is in `sqirl.report.environments`, the median over
seeds in `sqirl.report.learning_curve`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqirl.algorithms.registry import DQN, PPO, SQIRL, algorithm, algorithm_names
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.envs.suites import FULL_ATARI, Suite, suite_of
from sqirl.report.environments import EnvironmentRow, environment_rows, paper_algorithms
from sqirl.report.full_length import FullLengthRun, full_length_run
from sqirl.report.learning_curve import LearningCurve, learning_curve
from sqirl.report.predictors import DRAWN, Predictor, predictors
from sqirl.results.agreement import Agreement, agreement, answer, is_open
from sqirl.results.costs import CostOfRows, DeviceTime, cost_of_rows, device_times
from sqirl.results.cross_validation import CrossValidated, cross_validated
from sqirl.results.outcomes import (
    Case,
    Outcome,
    VariantGain,
    our_tables,
    outcomes_by_variant,
    paper_tables,
    preferred,
    variant_gains,
)
from sqirl.results.random_play import random_play_of
from sqirl.results.statistics import Comparison, Complexities, censored_median, compare, num_solved, share_solved_where
from sqirl.results.trend import Trend, trend
from sqirl.runs.record import RunRecord

#: The pairs of algorithms that the paper compares in its Table 3, and those that it draws in its Figure 3.
PAIRS = ((SQIRL, PPO), (SQIRL, DQN), (PPO, DQN))
DRAWN_PAIRS = PAIRS[:2]
#: The ranges of k in Figure 2. Every range has its place, so that the axis does not jump from 9 to 20.
K_RANGES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, math.inf))


@dataclass(frozen=True, eq=False)
class EnvironmentRuns:
    """Our runs on one environment. The keys are names of algorithms, in the order of the registry."""

    env_id: str
    suite: Suite
    title: str
    optimal: float | None  # the lines in its figure of learning curves
    random: float | None
    outcomes: Mapping[str, Outcome]
    curves: Mapping[str, LearningCurve]


@dataclass(frozen=True)
class Summary:
    """The paper's Tables 2 and 3, and two shares of its introduction, from one set of sample complexities."""

    solved: Mapping[str, tuple[int, int]]  # Table 2: by algorithm, environments solved and environments run
    pairs: tuple[Comparison, ...]  # Table 3
    where_both: float | None  # the share that SQIRL solves of the environments that PPO and DQN both solve
    where_neither: float | None  # ... and of those that neither solves


@dataclass(frozen=True)
class LeastK:
    """The environments that need a k from `low` to `high`, by whether the paper's PPO solves them.

    `low` and `high` are None where more is needed than was searched.
    """

    low: int | None
    high: float | None
    solved: tuple[EnvironmentRow, ...]
    unsolved: tuple[EnvironmentRow, ...]

    @property
    def label(self) -> str:
        if self.low is None:
            return "more"
        if self.high == math.inf:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(frozen=True)
class SolvedByLuck:
    """Cases (environment, algorithm) that are solved by the paper's rule although the true return was never optimal.

    The paper's rule looks at the mean of an evaluation. The true return is computed on the table; `num_solved` counts the
    solved cases for which it is known.
    """

    num_solved: int
    cases: tuple[tuple[str, AlgorithmSpec], ...]


@dataclass(frozen=True, eq=False)
class ReportData:
    """All numbers of the report. What takes time is computed when it is first asked for, and then kept."""

    records: Sequence[RunRecord]
    rows: Sequence[EnvironmentRow]  # the paper's environments
    by_variant: Mapping[str, Mapping[Case, Outcome]]
    outcomes: Mapping[Case, Outcome]  # of the variants that are compared with the paper
    runs: Mapping[str, EnvironmentRuns]  # by environment, sorted
    own_analyses: Mapping[str, Analysis]  # of environments that are not the paper's

    @property
    def num_failed(self) -> int:
        return sum(record.error is not None for record in self.records)

    @property
    def num_built(self) -> int:
        """How many of the paper's environments are enumerated."""
        return sum(row.analysis is not None for row in self.rows)

    @cached_property
    def full_length(self) -> list[EnvironmentRuns]:
        """The runs on full-length Atari games."""
        return [runs for runs in self.runs.values() if runs.suite is FULL_ATARI]

    @cached_property
    def others(self) -> list[EnvironmentRuns]:
        """The runs on environments that are neither the paper's nor full-length Atari games."""
        known = {row.env_id for row in self.rows}
        return [runs for env, runs in self.runs.items() if env not in known and runs.suite is not FULL_ATARI]

    @cached_property
    def paper_complexities(self) -> dict[str, Complexities]:
        """The paper's sample complexities by algorithm; an algorithm that the paper does not have is missing."""
        known, tables = {spec.name for spec in paper_algorithms()}, paper_tables()
        return {name: table for name, table in tables.items() if name in known}

    @cached_property
    def our_complexities(self) -> dict[str, Complexities]:
        """Our sample complexities by algorithm, of the BRIDGE environments that our runs decide."""
        return our_tables({case: outcome for case, outcome in self.outcomes.items() if not is_open(outcome)})

    @cached_property
    def drawn_steps(self) -> dict[str, dict[str, float | None]]:
        """Our sample complexities by algorithm, as plots show them: with those of the user's own environments.

        An environment whose optimal return is not known cannot be solved, and is left out.
        """
        found: dict[str, dict[str, float | None]] = {name: {} for name in algorithm_names()}
        for (env, name), outcome in self.outcomes.items():
            has_target = outcome.records[0].optimal_return is not None and outcome.suite is not FULL_ATARI
            if has_target and not is_open(outcome):
                found[name][env] = outcome.complexity
        return found

    @cached_property
    def analyses(self) -> dict[str, Analysis]:
        """All analyses by environment: of the paper's environments, then of the user's own."""
        known = {row.env_id: row.analysis for row in self.rows if row.analysis is not None}
        return known | dict(self.own_analyses)

    @cached_property
    def _titles(self) -> dict[str, str]:
        return {env: runs.title for env, runs in self.runs.items()} | {row.env_id: row.title for row in self.rows}

    def title_of(self, env_id: str) -> str:
        """The name of an environment in figures and on the page."""
        return self._titles.get(env_id, env_id)

    def suite_of(self, env_id: str) -> Suite:
        return self.runs[env_id].suite if env_id in self.runs else suite_of(env_id)

    @cached_property
    def paper(self) -> Summary:
        return _summary(self.paper_complexities)

    @cached_property
    def ours(self) -> Summary:
        return _summary(self.our_complexities)

    @cached_property
    def paper_where_ours(self) -> tuple[Comparison, ...]:
        """The paper's comparisons of PAIRS over the environments that both algorithms solve in our runs."""
        found = []
        for first, second in PAIRS:
            ours = [self.our_complexities[spec.name] for spec in (first, second)]
            both = [env for env, steps in ours[0].items() if steps is not None and ours[1].get(env) is not None]
            cut = {
                spec.name: {env: self.paper_complexities[spec.name].get(env) for env in both}
                for spec in (first, second)
            }
            found.append(compare(first.name, second.name, cut))
        return tuple(found)

    @cached_property
    def agreement(self) -> tuple[Agreement, ...]:
        """One entry for each algorithm that the paper has."""
        return tuple(
            agreement(spec.name, self.outcomes, self.paper_complexities[spec.name]) for spec in paper_algorithms()
        )

    def agreement_of(self, spec: AlgorithmSpec) -> Agreement:
        return next(entry for entry in self.agreement if entry.algorithm == spec.name)

    @cached_property
    def cross_validated(self) -> dict[Case, CrossValidated | None]:
        """The steps with settings that were chosen without the seed that is reported, of the BRIDGE environments."""
        return {case: cross_validated(outcome) for case, outcome in self.outcomes.items() if outcome.suite.is_bridge}

    @cached_property
    def variant_gains(self) -> list[VariantGain]:
        """The BRIDGE environments and algorithms of which both variants were run."""
        return [gain for gain in variant_gains(self.by_variant) if gain.ours.suite.is_bridge]

    @property
    def median_gain(self) -> float | None:
        """The median of the ratios of the two variants; None where there is none."""
        return censored_median([gain.ratio for gain in self.variant_gains if gain.ratio is not None])

    @cached_property
    def device_times(self) -> list[DeviceTime]:
        return device_times(self.records)

    @cached_property
    def costs(self) -> list[CostOfRows]:
        """What the rows of the paper take, run and not run, by algorithm."""
        tables = self.paper_complexities
        found = [cost_of_rows(name, self.records, self.outcomes, table) for name, table in tables.items()]
        return [cost for cost in found if cost is not None]

    @cached_property
    def predictors(self) -> list[Predictor]:
        """The effective horizons and simpler properties, and how well they go with the paper's steps."""
        return predictors(self.rows)

    @property
    def leading_horizon(self) -> Predictor:
        """H̄_ε with the leading ε."""
        return next(found for found in self.predictors if found.tolerance == TOLERANCES[0])

    @cached_property
    def trends(self) -> dict[tuple[float, str], Trend | None]:
        """The paper's steps as a line over log A · H̄: by tolerance (0: by the letter) and algorithm."""
        return {
            (found.tolerance, spec.name): trend(found.values, self.paper_complexities[spec.name])
            for found in self.predictors
            if found.tolerance is not None
            for spec in DRAWN
        }

    def least_k(self, k_of: Callable[[EnvironmentRow], int | None]) -> list[LeastK]:
        """The enumerated environments by the range of the k that `k_of` says; "more" only where it is needed (Figure 2)."""
        known = [row for row in self.rows if row.analysis is not None]
        ends: list[tuple[int | None, float | None]] = [*K_RANGES]
        if any(k_of(row) is None for row in known):
            ends.append((None, None))
        found = []
        for low, high in ends:
            inside = [row for row in known if _is_between(k_of(row), low, high)]
            solved = tuple(row for row in inside if row.paper_solved[PPO.name] is not None)
            unsolved = tuple(row for row in inside if row.paper_solved[PPO.name] is None)
            found.append(LeastK(low, high, solved, unsolved))
        return found

    @property
    def largest_budget(self) -> int:
        """The most steps that a run on a BRIDGE environment could take."""
        found = [o.records for o in self.outcomes.values() if o.suite.is_bridge]
        return max((record.config.timesteps for records in found for record in records), default=0)

    @cached_property
    def solved_by_luck(self) -> SolvedByLuck:
        """Over the BRIDGE environments."""
        solved = [
            outcome
            for outcome in self.outcomes.values()
            if outcome.suite.is_bridge and outcome.complexity is not None and outcome.steps_to_optimal is not None
        ]
        cases = [(outcome.env_id, outcome.algorithm) for outcome in solved if outcome.exact_complexity is None]
        return SolvedByLuck(len(solved), tuple((env, algorithm(name)) for env, name in cases))

    @property
    def machines(self) -> list[tuple[str, str, int]]:
        """(device, version of torch, number of runs), the most frequent first."""
        found = Counter((record.device or "unknown", record.versions.get("torch", "?")) for record in self.records)
        return [(device, torch, count) for (device, torch), count in found.most_common()]

    @property
    def full_length_runs(self) -> list[FullLengthRun]:
        """Every algorithm on every full-length Atari game that was run."""
        return [
            full_length_run(runs.title, runs.outcomes[name], curve)
            for runs in self.full_length
            for name, curve in runs.curves.items()
        ]


def report_data(records: Sequence[RunRecord], analyses: Sequence[Analysis] = ()) -> ReportData:
    """The numbers of the report, from the records of runs and the analyses that come with the package.

    `analyses`: those of the user's own environments, or of rows that the package has no analysis of.
    """
    added = {analysis.env_id: analysis for analysis in analyses}
    by_variant = outcomes_by_variant(records)
    rows = [replace(row, analysis=added.get(row.env_id)) if row.analysis is None else row for row in environment_rows()]
    # The variants of MiniGrid see other observations: there, ours says nothing about the paper's
    found = preferred(by_variant, is_decided=lambda o: bool(o.suite.paper_network) or answer(o).solved is not None)
    rows_by_id = {row.env_id: row for row in rows}
    runs = {env: _environment_runs(env, found, rows_by_id.get(env)) for env in sorted({env for env, _ in found})}
    own = {env: analysis for env, analysis in added.items() if env not in rows_by_id}
    return ReportData(records, rows, by_variant, found, runs, own)


def _is_between(k: int | None, low: int | None, high: float | None) -> bool:
    return k is None if low is None or high is None else k is not None and low <= k <= high


def _environment_runs(env: str, found: Mapping[Case, Outcome], row: EnvironmentRow | None) -> EnvironmentRuns:
    mine = {name: found[env, name] for name in algorithm_names() if (env, name) in found}
    curves = {name: learning_curve(outcome.records) for name, outcome in mine.items()}
    suite, first = suite_of(env), next(iter(mine.values())).records[0]
    analysis = None if row is None else row.analysis
    measured = random_play_of(env)
    random = first.random_return if measured is None else measured.mean
    return EnvironmentRuns(
        env,
        suite,
        suite.title_of(env) if row is None else row.title,
        first.optimal_return if analysis is None else analysis.optimal_return,
        random if analysis is None else analysis.random_return,
        mine,
        {name: curve for name, curve in curves.items() if curve is not None},
    )


def _summary(tables: Mapping[str, Complexities]) -> Summary:
    ppo, dqn = tables[PPO.name], tables[DQN.name]
    sqirl = {env: steps for env, steps in tables[SQIRL.name].items() if env in ppo and env in dqn}
    both = share_solved_where(sqirl, lambda env: ppo[env] is not None and dqn[env] is not None)
    neither = share_solved_where(sqirl, lambda env: ppo[env] is None and dqn[env] is None)
    return Summary(
        solved={name: (num_solved(table), len(table)) for name, table in tables.items()},
        pairs=tuple(compare(first.name, second.name, tables) for first, second in PAIRS),
        where_both=None if math.isnan(both) else both,
        where_neither=None if math.isnan(neither) else neither,
    )
