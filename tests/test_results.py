"""Outcomes, statistics and known runs: against slow definitions, against SciPy, and on random records."""

from __future__ import annotations

import math
import statistics as plain
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from sqirl.algorithms.registry import algorithm, algorithm_names
from sqirl.results.known_runs import KnownRuns
from sqirl.results.outcomes import our_tables, outcomes, paper_tables, rank
from sqirl.results.statistics import (
    Estimate,
    censored_median,
    compare,
    median_ratio,
    num_solved,
    num_within,
    share_solved_where,
    spearman,
    within_budget,
)
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord

FREEWAY, MAZE = "BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0"
STEPS = st.none() | st.sampled_from([10.0, 20.0, 20.0, 50.0, 1000.0])
TABLES = st.dictionaries(st.sampled_from("abcdefghij"), STEPS)


def record(
    seed: int, solved: int | None, *, best: float = 0.5, env: str = FREEWAY, name: str = "sqirl", **changes: object
) -> RunRecord:
    """A run that solved at so many steps, or whose best mean was `best`."""
    options = {"k": 1, "m": 10} if name in ("sqirl", "gorp") else {}
    config = RunConfig(name, env, seed=seed, options=options)
    config = replace(config, **{key: changes.pop(key) for key in ("options", "stop", "timesteps") if key in changes})
    curve = (Point(10_000, best), *(() if solved is None else (Point(solved, 1.0, 1.0),)))
    steps = changes.pop("steps", curve[-1].steps)
    return RunRecord(config, curve, steps=steps, optimal_return=1.0, **changes)


# Outcomes ------------------------------------------------------------------------------------------------------------


def test_settings_with_all_seeds_come_before_those_that_are_not_done() -> None:
    """In a sweep in progress the seeds that are done first are those that solved early."""
    done = [record(seed, 60_000, options={"k": 1, "m": 20}) for seed in range(3)]
    begun = [record(seed, 20_000, options={"k": 1, "m": 10}) for seed in range(2)]
    found = outcomes(done + begun)[FREEWAY, "sqirl"]
    assert (found.setting, found.complexity, len(found.records), found.num_settings) == ("k=1 m=20", 60_000, 3, 2)
    found = outcomes([*done, *begun, record(2, None, options={"k": 1, "m": 10})])[FREEWAY, "sqirl"]
    assert (found.setting, found.complexity) == ("k=1 m=10", 20_000)


def test_the_same_seed_with_another_rule_to_stop_counts_once() -> None:
    short, long = record(0, 20_000, stop="mean"), record(0, 20_000, stop="never", steps=90_000)
    other = record(1, 40_000, stop="mean")
    for order in ([short, long, other], [other, long, short]):
        found = outcomes(order)[FREEWAY, "sqirl"]
        assert found.records == (long, other) and found.complexity == 30_000 and found.num_settings == 1


def test_failed_runs_count_for_nothing() -> None:
    assert outcomes([record(0, 20_000, error="no memory")]) == {}
    found = outcomes([record(0, 20_000, error="no memory"), record(1, None, best=0.25)])[FREEWAY, "sqirl"]
    assert found.complexity is None and found.best_return == 0.25 and found.exact_complexity is None


def test_without_a_solution_the_best_return_wins() -> None:
    found = outcomes([
        *(record(seed, None, best=0.3, options={"k": 1, "m": 10}) for seed in range(3)),
        *(record(seed, None, best=0.6 if seed else 0.0, options={"k": 2, "m": 10}) for seed in range(3)),
    ])[FREEWAY, "sqirl"]  # fmt: skip
    assert found.setting == "k=2 m=10" and found.best_return == 0.6


@given(
    groups=st.lists(
        st.lists(st.none() | st.sampled_from([20_000, 40_000, 90_000]), min_size=3, max_size=3), min_size=1, max_size=5
    )
)
def test_the_best_setting_is_the_first_by_median(groups: list[list[int | None]]) -> None:
    settings = [
        [record(seed, at, options={"k": 1, "m": m + 1}) for seed, at in enumerate(group)]
        for m, group in enumerate(groups)
    ]
    found = outcomes([run for setting in settings for run in setting])[FREEWAY, "sqirl"]
    medians = [sorted(math.inf if at is None else at for at in group)[1] for group in groups]
    assert (math.inf if found.complexity is None else found.complexity) == min(medians)
    assert found.setting == f"k=1 m={medians.index(min(medians)) + 1}"
    assert min(settings, key=rank)[0].config.setting == found.setting


def test_tables_of_ours_and_of_the_paper() -> None:
    found = outcomes(
        [record(0, 20_000), record(0, None, env=MAZE, name="ppo"), record(0, 20_000, env="CartPole-v1", name="ppo")]
    )
    tables = our_tables(found)
    assert tables == {"sqirl": {FREEWAY: 20_000}, "gorp": {}, "ppo": {MAZE: None}, "dqn": {}}
    assert found["CartPole-v1", "ppo"].suite.label == "own env" and found[MAZE, "ppo"].suite.label == "Procgen"
    paper = paper_tables()
    assert paper.keys() == tables.keys() and all(len(table) == 155 for table in paper.values())
    assert all(steps is None or steps <= 5_000_000 for table in paper.values() for steps in table.values())


# Statistics ----------------------------------------------------------------------------------------------------------


@given(values=st.lists(STEPS))
def test_the_median_with_censored_runs(values: list[float | None]) -> None:
    expected = plain.median(math.inf if value is None else value for value in values) if values else math.inf
    assert censored_median(values) == (None if expected == math.inf else expected)


@given(table=TABLES, budget=st.sampled_from([5.0, 20.0, 50.0]))
def test_the_budget_censors(table: dict[str, float | None], budget: float) -> None:
    cut = within_budget(table, budget)
    assert cut.keys() == table.keys()
    assert num_solved(cut) == len([steps for steps in table.values() if steps is not None and steps <= budget])
    assert within_budget(cut, budget) == cut


@given(pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=30))
def test_rank_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, float).T
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(spearman(x, y))
    else:
        assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
        assert spearman(x, y) == pytest.approx(spearman(y, x)) == pytest.approx(spearman(np.exp(x), y**3))


@given(a=TABLES, b=TABLES)
def test_every_environment_is_counted_once(a: dict[str, float | None], b: dict[str, float | None]) -> None:
    found = compare("a", "b", {"a": a, "b": b}, resamples=20)
    cases = [(a[env] is not None, b[env] is not None) for env in a.keys() & b.keys()]
    expected = [cases.count(case) for case in ((True, True), (True, False), (False, True), (False, False))]
    assert [found.both, found.only_first, found.only_second, found.neither] == expected
    assert (found.correlation is None) == (found.median_ratio is None) == (found.both < 2)
    ratios = [a[env] / b[env] for env in a if a[env] is not None and b.get(env) is not None]
    if found.median_ratio is not None:
        assert found.median_ratio.value == pytest.approx(plain.median(ratios)) and found.median_ratio.count == len(
            ratios
        )
        assert found.median_ratio.low <= found.median_ratio.high


def test_the_interval_is_that_of_resampled_environments() -> None:
    rng = np.random.default_rng(0)
    x, y = np.exp(rng.normal(size=(2, 25)))
    tables = {"x": dict(zip(map(str, range(25)), x, strict=True)), "y": dict(zip(map(str, range(25)), y, strict=True))}
    first, second = (compare("x", "y", tables, resamples=400, seed=3) for _ in range(2))
    assert first == second != compare("x", "y", tables, resamples=400, seed=4)
    draws = np.random.default_rng(3).integers(25, size=(400, 25))
    ratios = [median_ratio(x[draw], y[draw]) for draw in draws]
    low, high = np.percentile(ratios, [2.5, 97.5])
    assert first.median_ratio == Estimate(median_ratio(x, y), low, high, 25)
    swapped = compare("y", "x", tables, resamples=400, seed=3)
    assert swapped.correlation.value == pytest.approx(first.correlation.value)


def test_a_constant_table_has_no_correlation() -> None:
    tables = {"a": dict.fromkeys("xyz", 5.0), "b": {"x": 1.0, "y": 2.0, "z": 3.0}}
    found = compare("a", "b", tables, resamples=10).correlation
    assert math.isnan(found.value) and math.isnan(found.low) and found.count == 3


@given(ours=TABLES, paper=TABLES, factor=st.sampled_from([1.0, 2.0, 3.0]))
def test_environments_within_a_factor_of_the_paper(ours, paper, factor: float) -> None:
    expected = [
        env for env in ours if ours[env] is not None and paper.get(env) is not None and ours[env] <= factor * paper[env]
    ]
    assert num_within(ours, paper, factor) == len(expected)


def test_the_share_of_environments_with_a_property() -> None:
    table = {"a1": 10.0, "a2": None, "a3": 5.0, "b1": None}
    assert share_solved_where(table, lambda env: env.startswith("a")) == pytest.approx(2 / 3)
    assert share_solved_where(table, lambda env: env == "b1") == 0
    assert math.isnan(share_solved_where(table, lambda env: False))


# Known runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", algorithm_names())
def test_a_run_answers_for_another_budget_only_if_it_does_not_depend_on_it(name: str) -> None:
    stopped = record(0, 30_000, name=name, timesteps=100_000)  # over before its budget was spent
    spent = record(1, None, name=name, timesteps=100_000, steps=100_000)
    known = KnownRuns([stopped, spent, record(2, 30_000, name=name, error="no memory")])
    assert known.answer(stopped.config) is stopped and known.answer(spent.config) is spent
    assert known.answer(replace(stopped.config, seed=2)) is None  # it failed
    longer, shorter = (replace(stopped.config, timesteps=steps) for steps in (900_000, 20_000))
    if algorithm(name).depends_on_budget:
        assert known.answer(longer) is None is known.answer(shorter)
        return
    assert known.answer(longer) == replace(stopped, config=longer)
    assert known.answer(shorter) == replace(stopped, config=shorter, curve=stopped.curve[:1], steps=20_000)
    assert known.answer(replace(spent.config, timesteps=900_000)) is None  # nobody knows how it would go on


@given(steps=st.lists(st.integers(1, 90), min_size=1, max_size=8, unique=True), budget=st.integers(1, 12))
def test_a_cut_record_has_the_evaluations_that_were_due(steps: list[int], budget: int) -> None:
    config = RunConfig("gorp", FREEWAY, options={"k": 1, "m": 1}, timesteps=1000, eval_every=10)
    whole = RunRecord(config, tuple(Point(at, 0.0) for at in sorted(steps)), steps=max(steps), optimal_return=1.0)
    cut = KnownRuns([whole]).answer(replace(config, timesteps=10 * budget))
    if whole.steps <= 10 * budget:
        assert cut.curve == whole.curve and cut.steps == whole.steps
    else:
        assert cut.steps == 10 * budget and set(cut.curve) <= set(whole.curve)
        assert all(point.steps < 10 * (budget + 1) for point in cut.curve)
        assert {point for point in whole.curve if point.steps <= 10 * (budget - 1)} <= set(cut.curve)
