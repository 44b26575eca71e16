"""The paper's search for the best setting of an algorithm on one environment.

If the spec of the algorithm has a `searched_option`, the smallest value of that option with which the median run solves is
searched for every setting of the other options: the value is multiplied until it solves, then bisected, all settings side by
side.
Otherwise every setting is tried. A search is a generator: it yields the runs that it needs next, which are those of one setting
with all seeds, and receives their records, so it does not know where and in which order they are run. Where the median run is
known to solve, a run that would take longer may come with a smaller budget, in which it did not solve.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace

from sqirl.algorithms.registry import algorithm
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.analysis.archive import archived_analyses
from sqirl.envs.description import EnvDescription, describe
from sqirl.errors import SqirlError, counted
from sqirl.experiments.protocol import planned_run
from sqirl.experiments.sweeps import Sweep
from sqirl.results.censoring import UNKNOWN, StepRange, median_range, steps_to_optimal
from sqirl.results.growth import between, next_value
from sqirl.results.outcomes import rank
from sqirl.results.statistics import censored_median
from sqirl.runs.config import STOP_MEAN, RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runs.target import target_of, trouble_of

#: Bisecting stops when the smallest solving value is within this factor of the largest that does not solve.
FINE_ENOUGH = 1.5

Search = Generator[list[RunConfig], list[RunRecord], "Finding"]


@dataclass(frozen=True)
class Finding:
    """The best setting that was found: its median sample complexity, None if no setting's median run solved.

    The paper counts evaluations, which are thousands of steps apart. `steps_to_optimal` is the median of the steps at which a
    truly optimal policy was first seen: populations of SQIRL are looked at between evaluations, other runs mostly at evaluations
    and at their ends.
    """

    env_id: str
    algorithm: str
    steps: float | None
    best: tuple[RunConfig, ...]  # its runs, one for each seed
    num_runs: int
    error: str | None = None  # of the first run that failed, which ends a search
    steps_to_optimal: StepRange = UNKNOWN

    @property
    def truly_optimal_after(self) -> float | None:
        """The steps, where they are known."""
        return self.steps_to_optimal.steps if self.steps_to_optimal.is_known else None

    def to_dict(self) -> dict[str, object]:
        options = self.best[0].chosen if self.best else {}
        return {
            "env_id": self.env_id, "algorithm": self.algorithm, "steps": self.steps, "runs": self.num_runs,
            "truly_optimal_after": self.truly_optimal_after, **options,
        }  # fmt: skip

    def __str__(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in (self.best[0].chosen.items() if self.best else ()))
        found = "not solved" if self.steps is None else f"{self.steps:,.0f} steps with {options}"
        if self.truly_optimal_after is not None:
            found += f", seen to be truly optimal after {self.truly_optimal_after:,.0f}"
        if self.error is not None:
            found += f", a run failed: {self.error}"
        runs = counted(self.num_runs, "run")
        every = f", an evaluation every {self.best[0].eval_every:,} steps" if self.steps is not None else ""
        return f"{self.env_id} {self.algorithm}: {found} ({runs}{every})"


@dataclass(frozen=True, eq=False)
class SearchContext:
    """What every run of one search shares."""

    sweep: Sweep
    env: EnvDescription
    spec: AlgorithmSpec

    def config(self, options: dict[str, int]) -> RunConfig:
        """The config of seed 0 with these options."""
        config = planned_run(
            self.spec.name, self.env, timesteps=self.sweep.timesteps, live=self.sweep.live,
            variant=self.sweep.variant_of(self.spec), options=dict(options),
        )  # fmt: skip
        return replace(config, stop=STOP_MEAN)

    def seeded(self, config: RunConfig) -> list[RunConfig]:
        return [replace(config, seed=seed) for seed in self.sweep.seeds_of(self.spec)]

    def finding(
        self,
        steps: float | None,
        best: list[RunConfig],
        records: list[RunRecord],
        num_runs: int,
        error: str | None = None,
    ) -> Finding:
        """`records` are those of the runs `best`; they count only where the median run solved."""
        optimal = UNKNOWN if steps is None else median_range([steps_to_optimal(record) for record in records])
        return Finding(self.env.name, self.spec.name, steps, tuple(best), num_runs, error, optimal)


def search(sweep: Sweep, env_id: str, algorithm_name: str) -> Search:
    """All runs of one algorithm on one environment."""
    context = SearchContext(sweep, describe(env_id), algorithm(algorithm_name))
    if sweep.search and context.spec.searched_option is not None:
        return _search_smallest(context)
    return _try_all(context)


@dataclass(frozen=True)
class _Tried:
    """The runs of a setting with their records."""

    runs: list[RunConfig]
    records: list[RunRecord]

    @property
    def steps(self) -> float | None:
        return censored_median([record.complexity for record in self.records])


def _try_all(context: SearchContext) -> Search:
    """Every setting with every seed; the one with the smallest median wins. A setting is given the steps in which it can win."""
    best: _Tried | None = None
    count = 0
    for setting in context.spec.settings(context.sweep.values_of(context.spec), searched=False):
        config = context.config(setting)
        if best is not None and best.steps is not None and not context.spec.depends_on_budget:
            config = replace(config, timesteps=int(best.steps) - config.eval_every)
            if config.timesteps < config.eval_every:
                break
        group = context.seeded(config)
        records = yield group
        count += len(records)
        if (error := _first_error(records)) is not None:
            if best is None:
                return context.finding(None, group, records, count, error)
            return context.finding(best.steps, best.runs, best.records, count, error)
        found = _Tried(group, records)
        if best is None or rank(found.records) < rank(best.records):
            best = found
    assert best is not None
    return context.finding(best.steps, best.runs, best.records, count)


def _search_smallest(context: SearchContext) -> Search:
    """Bisect all settings side by side: always the cheapest next value, as long as it can still win."""
    sweep, env, spec = context.sweep, context.env, context.spec
    if target_of(env).optimal is None:
        raise SqirlError(
            trouble_of(env)
            or f"the optimal return of {env.name} is not known, so no setting can be seen to solve it; "
            "give --horizon T if it has none, or try one setting with `sqirl train`"
        )
    best: float | None = None
    runs: list[RunConfig] = []
    kept: list[RunRecord] = []  # those of `best`
    count, cost = 0, Cost(env, spec)
    option = spec.searched_option
    assert option is not None
    values = sweep.values_of(spec)
    bisections = [
        _Bisection(setting, _smallest(context, setting, values[option][0])) for setting in _promising(context, values)
    ]
    while bisections:
        # Of two with the same cost the first one, which is the more promising
        bisection = min(bisections, key=lambda each: cost.of_an_iteration({**each.setting, option: each.value}))
        setting = {**bisection.setting, option: bisection.value}
        config = context.config(setting)
        if best is not None:  # only a complexity that is at least one evaluation smaller is better
            config = replace(config, timesteps=min(sweep.timesteps, int(best) - config.eval_every))
        if cost.of_an_iteration(setting) >= config.timesteps:  # nothing would be learned within the budget
            bisections.remove(bisection)
            continue
        group = context.seeded(config)
        records = yield group
        count += len(records)
        if (error := _first_error(records)) is not None:
            return context.finding(best, runs or group, kept, count, error)
        cost.learn(records)
        steps = censored_median([record.complexity for record in records])
        if steps is not None and (best is None or steps < best):
            best, runs, kept = steps, group, records
        runs = runs or group
        whole = spec.max_steps(setting, env, config.timesteps + 1)
        if not bisection.update(solved=steps is not None, cut=whole > config.timesteps):
            bisections.remove(bisection)
    return context.finding(best, runs, kept, count)


def _smallest(context: SearchContext, setting: dict[str, int], value: int) -> int:
    """The first value of the searched option: doubled as long as the whole run surely ends before the first evaluation.

    The sample complexity of these values is that of the first evaluation or none, so that smaller ones cannot be better. With a
    budget below the first evaluation, the run must end within its budget.
    """
    option = context.spec.searched_option
    assert option is not None
    first = context.config({**setting, option: value})
    if context.env.horizon is None:
        return value
    most = min(first.eval_every, first.timesteps)
    while context.spec.max_steps({**setting, option: 2 * value}, context.env, most + 1) <= most:
        value *= 2
    return value


@dataclass
class _Bisection:
    """The values to try with one setting: larger ones until one solves (`results/growth.py`), then bisected."""

    setting: dict[str, int]
    value: int  # the next value
    failed: dict[int, bool] = field(default_factory=dict)  # values whose runs do not solve; did the budget cut them?
    high: int | None = None  # runs with this value do

    def update(self, *, solved: bool, cut: bool) -> bool:
        """Take the result of the runs with `value`, which the budget may have cut; True if there is a next value."""
        if solved:
            self.high = self.value
        else:
            self.failed[self.value] = cut
        if self.high is None:
            self.value = next_value(self.failed)
            return True
        low = max((value for value in self.failed if value < self.high), default=0)
        self.value = max(low + 1, between(low, self.high))
        return self.high > max(FINE_ENOUGH * low, low + 1) and self.value < self.high


def _first_error(records: list[RunRecord]) -> str | None:
    return next((record.error for record in records if record.error is not None), None)


def _promising(context: SearchContext, values: dict[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """The settings to search, those first that the analysis favours."""
    settings = context.spec.settings(values, searched=True)
    if not all("k" in setting for setting in settings):
        return settings
    by_k = {setting["k"]: setting for setting in settings}
    return [by_k[k] for k in promising_ks(context.env, tuple(by_k))]


def promising_ks(env: EnvDescription | str, ks: tuple[int, ...]) -> list[int]:
    """The k to try, the most promising first: by effective horizon where the analysis says that k is solvable."""
    description = describe(env)
    analysis = archived_analyses().get(description.name)
    if analysis is None:
        return [k for k in ks if k <= (description.horizon or k)]

    def order(k: int) -> tuple[bool, float, int]:
        known = k <= len(analysis.effective_horizons)
        horizon = analysis.effective_horizons[k - 1] if known else None
        return horizon is None, horizon or 0.0, k

    return sorted((k for k in ks if k <= analysis.horizon), key=order)


class Cost:
    """The least steps that an iteration takes; every record makes the estimate better."""

    def __init__(self, env: EnvDescription, spec: AlgorithmSpec) -> None:
        self.env, self.spec = env, spec
        self.horizon = env.horizon or 1
        # Episodes may be far shorter than the horizon; a tenth of it is the least that is assumed, and of a user's env one step
        self.episode = max(1.0, self.horizon / 10) if env.is_bridge else 1.0

    def learn(self, records: list[RunRecord]) -> None:
        """Runs that completed all iterations show how long episodes are; half of that is a safe estimate."""
        for record in records:
            if record.error is None and record.steps < record.config.timesteps:
                episodes = self.horizon * self.episodes(record.config.chosen)
                self.episode = max(self.episode, record.steps / episodes / 2)

    def episodes(self, options: dict[str, int]) -> int:
        return self.spec.episodes_per_iteration(options, self.env.num_actions()) or 1

    def of_an_iteration(self, options: dict[str, int]) -> float:
        return self.episodes(options) * self.episode
