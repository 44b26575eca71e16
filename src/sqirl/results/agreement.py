"""Do our runs agree with the paper? Only rows that answer the paper's question are compared with it.

The question is whether the median of five seeds solves the environment within the paper's budget, with any of the settings that
the paper tries. A row that was run for fewer steps, with fewer seeds or with fewer settings, and that is not solved, leaves
the question open. It is listed as open, and is no disagreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqirl.algorithms.registry import algorithm
from sqirl.analysis.archive import archived_analyses
from sqirl.envs.catalogue import find_row
from sqirl.envs.ids import parse_id
from sqirl.results.causes import CAUSES
from sqirl.results.censoring import StepRange, median_range, steps_to_solve
from sqirl.results.growth import next_value
from sqirl.results.outcomes import Case, Outcome
from sqirl.results.statistics import BUDGET, WITHIN_FACTOR, Comparison, Complexities, compare, num_within
from sqirl.runs.record import RunRecord

#: Seeds of every setting in the paper.
PROTOCOL_SEEDS = 5
#: The actions of a game that is not enumerated, where the catalogue does not have them: all that Atari has.
MOST_ACTIONS = 18


@dataclass(frozen=True)
class Answer:
    """Is the environment solved within the budget? `solved` is None if that is open.

    `missing` says what a full protocol would have besides. Of a solved environment it concerns the number of steps only: a
    setting that was not tried might solve it sooner.
    """

    solved: bool | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Disagreement:
    """A row that only one of us solves, or that needs very different numbers of steps; None: not solved."""

    env_id: str
    ours: float | None
    paper: float | None
    cause: str  # the likely one, may be empty


@dataclass(frozen=True)
class OpenRow:
    """A row whose runs do not answer the question."""

    env_id: str
    paper: float | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Agreement:
    """Our results of one algorithm against the paper's, over the rows that answer the question."""

    algorithm: str
    comparison: Comparison  # first: ours, second: the paper's
    complete: int  # rows with the whole protocol
    within: int  # rows that we solve within WITHIN_FACTOR times the paper's steps
    solved_by_one: tuple[Disagreement, ...]
    far_apart: tuple[Disagreement, ...]  # both solve, with steps that differ by more than WITHIN_FACTOR
    open: tuple[OpenRow, ...]

    @property
    def answered(self) -> int:
        c = self.comparison
        return c.both + c.only_first + c.only_second + c.neither

    @property
    def agreeing(self) -> int:
        """Rows in which solved or not is the same."""
        return self.comparison.both + self.comparison.neither


def answer(outcome: Outcome, *, budget: float = BUDGET) -> Answer:
    """What the runs of an outcome say about the budget; nothing where the environment is not one of the paper's."""
    if not outcome.suite.is_bridge:
        return Answer(None)
    ranges = [_median_of(records) for records in outcome.settings]
    best = min((found for found in ranges if found.within(budget)), key=lambda found: found.high, default=None)
    if best is None:
        missing = _missing(outcome, budget)
        return Answer(None if missing else False, missing)
    # Only a complexity that is at least one evaluation smaller is better
    missing = _missing(outcome, best.high - outcome.records[0].config.eval_every)
    return Answer(True, missing if best.is_known else (f"{len(outcome.records)} of {PROTOCOL_SEEDS} seeds", *missing))


def is_open(outcome: Outcome) -> bool:
    """Is it not solved so far, although what was not run could solve it? Then it must not be shown as "not solved"."""
    has_target = outcome.suite.is_bridge and outcome.records[0].optimal_return is not None
    return has_target and outcome.complexity is None and answer(outcome).solved is None


def _median_of(records: tuple[RunRecord, ...]) -> StepRange:
    return median_range([steps_to_solve(record) for record in records], seeds=PROTOCOL_SEEDS)


def _missing(outcome: Outcome, budget: float) -> tuple[str, ...]:
    """Why the runs do not show that no setting solves within the budget; empty if they do."""
    if budget <= 0:
        return ()
    spec = algorithm(outcome.algorithm)
    groups: dict[tuple[tuple[str, int], ...], list[tuple[RunRecord, ...]]] = {}
    for records in outcome.settings:
        groups.setdefault(tuple(records[0].config.chosen.items()), []).append(records)
    # Where a run depends on its budget, a setting may have been run with several: one that decides is enough
    undecided = [group for group in groups.values() if all(_is_open(each, budget) for each in group)]
    if undecided:
        return _why_undecided([records for group in undecided for records in group], budget)
    reasons, horizon = [], parse_id(outcome.env_id).horizon
    for setting in spec.settings({option.name: option.tried for option in spec.options}, searched=True):
        if setting.get("k", 0) > horizon:
            continue
        tried = [records for options, group in groups.items() if setting.items() <= set(options) for records in group]
        if not tried:
            reasons.append(f"{spec.label_of(setting)} not tried")
        elif spec.searched_option is not None and not _searched(outcome, setting, tried, budget):
            reasons.append(f"search with {spec.label_of(setting)} not finished")
    return tuple(reasons)


def _is_open(records: tuple[RunRecord, ...], budget: float) -> bool:
    """Is it unknown whether the setting solves at all, and within the budget?"""
    median = _median_of(records)
    return median.steps is None and median.within(budget) is None


def _why_undecided(settings: list[tuple[RunRecord, ...]], budget: float) -> tuple[str, ...]:
    """Too few seeds, too few steps, or both."""
    reasons = []
    seeds = min(map(_decisive, settings))
    if seeds <= PROTOCOL_SEEDS // 2:
        reasons.append(f"{seeds} of {PROTOCOL_SEEDS} seeds")
    steps = max(record.config.timesteps for records in settings for record in records)
    if steps < budget:
        reasons.append(f"run to {steps:,} steps")
    return tuple(reasons)


def _decisive(records: tuple[RunRecord, ...]) -> int:
    """The seeds that solved or those that did not, whichever are more: a majority decides the median."""
    solved = sum(record.complexity is not None for record in records)
    return max(solved, len(records) - solved)


def _searched(outcome: Outcome, setting: Mapping[str, int], tried: list[tuple[RunRecord, ...]], budget: float) -> bool:
    """Was a value found that solves, or would an iteration with the next value of the search exceed the budget?

    Episodes are taken to have the full length. Of a game with shorter ones, a finished search went further than this asks for.
    """
    spec = algorithm(outcome.algorithm)
    option = spec.searched_option
    assert option is not None
    if any(_median_of(records).steps is not None for records in tried):
        return True
    failed = {
        records[0].config.chosen.get(option, 1): any(record.steps >= record.config.timesteps for record in records)
        for records in tried  # a record may lack the option
    }
    episodes = spec.episodes_per_iteration({**setting, option: next_value(failed)}, _num_actions(outcome.env_id))
    return (episodes or 1) * parse_id(outcome.env_id).horizon >= budget


def _num_actions(env_id: str) -> int:
    analysis, row = archived_analyses().get(env_id), find_row(parse_id(env_id))
    return (analysis and analysis.num_actions) or (row and row.num_actions) or MOST_ACTIONS


def agreement(name: str, found: Mapping[Case, Outcome], paper: Complexities) -> Agreement:
    """Our results of one algorithm against the paper's complexities of it."""
    mine = {env: outcome for (env, which), outcome in found.items() if which == name and env in paper}
    answers = {env: answer(outcome) for env, outcome in mine.items()}
    ours: dict[str, float | None] = {
        env: mine[env].complexity if answers[env].solved else None for env in mine if answers[env].solved is not None
    }
    return Agreement(
        name,
        compare("ours", "paper", {"ours": ours, "paper": paper}),
        complete=sum(not answers[env].missing for env in ours),
        within=num_within(ours, paper),
        solved_by_one=_disagreements(mine, ours, paper, lambda a, b: (a is None) != (b is None)),
        far_apart=_disagreements(mine, ours, paper, _far_apart),
        open=tuple(OpenRow(env, paper[env], answers[env].missing) for env in mine if env not in ours),
    )


def _far_apart(ours: float | None, paper: float | None) -> bool:
    return ours is not None and paper is not None and max(ours / paper, paper / ours) > WITHIN_FACTOR


def _disagreements(
    mine: Mapping[str, Outcome],
    ours: Complexities,
    paper: Complexities,
    disagree: Callable[[float | None, float | None], bool],
) -> tuple[Disagreement, ...]:
    return tuple(
        Disagreement(env, steps, paper[env], likely_cause(mine[env], paper[env]))
        for env, steps in ours.items()
        if disagree(steps, paper[env])
    )


def likely_cause(outcome: Outcome, paper: float | None) -> str:
    """From `sqirl.results.causes`, else the spread of the seeds if the paper's number lies within it, else nothing."""
    if (known := CAUSES.get((outcome.env_id, outcome.algorithm))) is not None:
        return known
    seeds = sorted(math.inf if r.complexity is None else r.complexity for r in outcome.records)
    if not seeds[0] <= (math.inf if paper is None else paper) <= seeds[-1]:
        return ""
    shown = ", ".join("–" if math.isinf(steps) else f"{steps:,.0f}" for steps in seeds)
    return f"seeds differ as much: {shown}"
