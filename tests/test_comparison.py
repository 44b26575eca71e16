"""Variants, censored medians, cross-validation, agreement with the paper and costs: answers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sqirl.envs.suites import OURS, PAPER
from sqirl.report.data import report_data
from sqirl.report.figures import figure_5_learning_curves, full_length_figure
from sqirl.report.markdown import step_range
from sqirl.report.page import page_data
from sqirl.report.tables import agreement_table, complexity_table, run_table, variant_table
from sqirl.report.training_page import training_page
from sqirl.results import agreement as agreement_module
from sqirl.results.agreement import agreement, answer
from sqirl.results.censoring import StepRange, median_range, steps_to_optimal, steps_to_solve
from sqirl.results.costs import cost_of_rows, device_times
from sqirl.results.cross_validation import cross_validated
from sqirl.results.growth import next_value
from sqirl.results.outcomes import outcomes, outcomes_by_variant, variant_gains
from sqirl.results.random_play import RandomPlay, is_above, random_play_of
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord

FREEWAY, MAZE = "BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0"
FULL = 5_000_000
inf = math.inf


def ppo(
    seed: int, at: int | None, *, budget: int = FULL, rollout: int = 128, env: str = FREEWAY, **changes
) -> RunRecord:
    """A run of PPO that solves at so many steps, or not within its budget."""
    config = RunConfig("ppo", env, seed=seed, timesteps=budget, options={"rollout": rollout}, stop="mean")
    config = replace(config, **{key: changes.pop(key) for key in ("variant", "stop") if key in changes})
    return _record(config, at, **changes)


def sqirl(seed: int, at: int | None, *, budget: int = FULL, k: int = 1, m: int = 10, **changes) -> RunRecord:
    """A run of SQIRL that solves at so many steps, or spends its budget."""
    config = RunConfig("sqirl", FREEWAY, seed=seed, timesteps=budget, options={"k": k, "m": m}, stop="mean")
    return _record(config, at, **changes)


def _record(config: RunConfig, at: int | None, **changes) -> RunRecord:
    last = config.timesteps if at is None else at
    curve = (Point(last, 0.5 if at is None else 1.0, 0.5),)
    return RunRecord(config, changes.pop("curve", curve), changes.pop("steps", last), optimal_return=1.0, **changes)


# What a run says -----------------------------------------------------------------------------------------------------


def test_what_a_run_says_about_its_steps() -> None:
    assert steps_to_solve(ppo(0, 30_000)) == StepRange(30_000, 30_000)
    assert steps_to_solve(ppo(0, None, budget=50_000)) == StepRange(50_000, inf)
    assert steps_to_solve(sqirl(0, None, budget=50_000)) == StepRange(50_000, inf)
    assert steps_to_solve(sqirl(0, None, steps=4_000, curve=(Point(4_000, 0.5),))) == StepRange(inf, inf)  # it was over
    assert steps_to_solve(ppo(0, None, steps=4_000, curve=(Point(4_000, 0.5),))) == StepRange(4_000, inf)


def test_steps_to_a_truly_optimal_policy_have_no_floor() -> None:
    assert steps_to_optimal(sqirl(0, 10_000, optimal_at=1_600)) == StepRange(1_600, 1_600)
    assert steps_to_optimal(sqirl(0, 10_000)) == StepRange(10_000, inf)  # it stopped, by luck
    assert steps_to_optimal(sqirl(0, 10_000, curve=(Point(10_000, 1.0),))) == StepRange(
        0, inf
    )  # no true return is known
    runs = [sqirl(seed, 10_000, optimal_at=at) for seed, at in enumerate((400, 1_600, 9_000))]
    found = outcomes(runs)[FREEWAY, "sqirl"]
    assert found.steps_to_optimal == StepRange(1_600, 1_600) and found.complexity == 10_000


@pytest.mark.parametrize(
    ("runs", "seeds", "median", "text"),
    [
        ([(10, 10), (20, 20), (90, 90)], 0, (20, 20), "20"),
        ([(10, 10), (20, 20), (50, inf)], 0, (20, 20), "20"),
        ([(10, 10), (50, inf), (50, inf)], 0, (50, inf), "> 50"),
        ([(20, 20), (30, inf), (50, 50)], 0, (30, 50), "≤ 50"),  # the second may be below or above the third
        ([(FULL, inf)] * 3, 5, (FULL, inf), "–"),  # three of five decide
        ([(FULL, inf)] * 2, 5, (0, inf), ""),
        ([(10, 10), (20, 20), (30, 30)], 5, (10, 30), "≤ 30"),
        ([(inf, inf)], 0, (inf, inf), "–"),
        ([], 0, (0, inf), ""),
    ],
)
def test_the_range_of_a_median(runs, seeds: int, median: tuple[float, float], text: str) -> None:
    found = median_range([StepRange(*run) for run in runs], seeds=seeds)
    assert found == StepRange(*median) and step_range(found) == text


# Cross-validation ----------------------------------------------------------------------------------------------------


def two_settings(first: tuple[int | None, ...], second: tuple[int | None, ...], budget: int = FULL) -> list[RunRecord]:
    """PPO with rollouts of 128 and 1280; the budget is that of the first."""
    return [
        *(ppo(seed, at, budget=budget) for seed, at in enumerate(first)),
        *(ppo(seed, at, rollout=1280) for seed, at in enumerate(second)),
    ]


def test_the_setting_is_chosen_by_the_other_seeds() -> None:
    """By the paper's way the first setting: its median is 20,000. Without seed 0 the medians are 55,000 and 30,000, without
    seed 1 50,000 and 35,000, without seed 2 15,000 and 35,000: the seeds count with 40,000, 30,000 and 90,000.
    """
    found = outcomes(two_settings((10_000, 20_000, 90_000), (40_000, 30_000, 30_000)))[FREEWAY, "ppo"]
    assert found.complexity == 20_000 and found.setting == "rollout=128"
    validated = cross_validated(found)
    assert validated.chosen == ("rollout=1280", "rollout=1280", "rollout=128")
    assert validated.steps == StepRange(40_000, 40_000)


def test_a_censored_seed_counts_as_more_than_its_budget() -> None:
    """Seed 2 is reported with the first setting, of which it is known only that it needs more than 50,000 steps."""
    found = outcomes(two_settings((10_000, 20_000, None), (40_000, 30_000, 30_000), budget=50_000))
    assert cross_validated(found[FREEWAY, "ppo"]).steps == StepRange(40_000, 40_000)  # of 40,000, 30,000 and > 50,000
    found = outcomes([ppo(seed, at, budget=50_000) for seed, at in enumerate((10_000, None, None))])
    assert cross_validated(found[FREEWAY, "ppo"]).steps == StepRange(50_000, inf)
    assert cross_validated(outcomes([ppo(0, 10_000)])[FREEWAY, "ppo"]) is None


def test_half_of_the_other_seeds_are_better_than_none() -> None:
    """Three of five solve: without one of these, two of four remain, and the other setting never solves."""
    found = outcomes(two_settings((10_000, 20_000, 30_000, None, None), (None,) * 5))[FREEWAY, "ppo"]
    validated = cross_validated(found)
    assert set(validated.chosen) == {"rollout=128"} and validated.steps == StepRange(30_000, 30_000)


# Agreement with the paper --------------------------------------------------------------------------------------------


def answered(records: list[RunRecord]) -> tuple[bool | None, tuple[str, ...]]:
    (outcome,) = outcomes(records).values()
    found = answer(outcome)
    return found.solved, found.missing


def test_which_rows_answer_the_question() -> None:
    both = [ppo(seed, None, rollout=rollout) for rollout in (128, 1280) for seed in range(5)]
    assert answered(both) == (False, ())
    assert answered([run for run in both if run.config.seed < 3]) == (False, ())  # given up when three had failed
    assert answered([run for run in both if run.config.seed < 2]) == (None, ("2 of 5 seeds",))
    assert answered(both[:5]) == (None, ("rollout=1280 not tried",))
    short = [ppo(seed, None, budget=500_000, rollout=rollout) for rollout in (128, 1280) for seed in range(5)]
    assert answered(short) == (None, ("run to 500,000 steps",))
    assert answered([*short, *both]) == (False, ())
    assert answered([ppo(0, 20_000)])[0] is None  # one seed decides nothing
    assert answered([ppo(seed, 20_000) for seed in range(3)]) == (True, ("rollout=1280 not tried",))
    different = [ppo(seed, 20_000 + 10_000 * seed) for seed in range(3)]  # the median of five is one of these
    assert answered(different) == (True, ("3 of 5 seeds", "rollout=1280 not tried"))
    assert answered([ppo(seed, 10_000) for seed in range(5)]) == (True, ())  # no setting can be better


def test_a_smaller_budget_answers_where_another_setting_solved() -> None:
    solved = [ppo(seed, 60_000) for seed in range(5)]
    assert answered([*solved, *(ppo(seed, None, budget=50_000, rollout=1280) for seed in range(5))]) == (True, ())
    assert answered([*solved, *(ppo(seed, None, budget=40_000, rollout=1280) for seed in range(5))]) == (
        True, ("run to 40,000 steps",),
    )  # fmt: skip


def test_a_search_is_finished_when_an_iteration_exceeds_the_budget() -> None:
    """Freeway_10 has episodes of 10 steps: four times 125,000 of them are 5,000,000 steps."""
    runs = [sqirl(seed, None, k=k, m=125_000) for k in range(1, 6) for seed in range(5)]
    assert answered(runs) == (False, ())
    fewer = [sqirl(seed, None, k=1, m=120_000) for seed in range(5)] + [
        run for run in runs if run.config.chosen["k"] > 1
    ]
    assert answered(fewer) == (None, ("search with k=1 not finished",))
    assert answered([run for run in runs if run.config.chosen["k"] < 5]) == (None, ("k=5 not tried",))


def test_the_values_of_a_search_until_one_solves() -> None:
    assert next_value({16: False}) == 64 and next_value({16: False, 64: False}) == 256
    assert next_value({16: False, 64: True}) == 32  # its runs may be short enough
    assert next_value({16: False, 32: False, 64: True}) == next_value({16: False, 32: True, 64: True}) == 256
    assert next_value({16: True}) == 64 and next_value({1: True}) == 4  # nothing smaller was tried


def test_agreement_counts_only_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = [
        f"BRIDGE/{stem}-Sticky-v0" for stem in ("pong_20_fs30", "freeway_10_fs30", "freeway_20_fs30", "qbert_10_fs30")
    ]
    solved, fails, short, slow = envs
    monkeypatch.setattr(agreement_module, "CAUSES", {(fails, "ppo"): "another clock"})
    records = [
        *(ppo(seed, 20_000, env=solved) for seed in range(5)),
        *(ppo(seed, None, env=fails, rollout=rollout) for rollout in (128, 1280) for seed in range(3)),
        *(ppo(seed, None, env=short, budget=500_000) for seed in range(5)),
        *(ppo(seed, 80_000, env=slow) for seed in range(5)),
    ]
    paper = {solved: 10_000.0, fails: 40_000.0, short: 30_000.0, slow: 20_000.0, "not run": None}
    found = agreement("ppo", outcomes(records), paper)
    assert (found.answered, found.agreeing, found.within) == (3, 2, 1)
    assert found.comparison.both == 2 and found.comparison.only_second == 1
    assert found.comparison.log_correlation.value == pytest.approx(1.0) and found.comparison.median_ratio.value == 3.0
    (only,), (far,), (left,) = found.solved_by_one, found.far_apart, found.open
    assert (only.env_id, only.ours, only.paper, only.cause) == (fails, None, 40_000, "another clock")
    assert (far.env_id, far.ours, far.paper, far.cause) == (slow, 80_000, 20_000, "")
    assert left.env_id == short and left.missing == ("run to 500,000 steps",)
    spread = [ppo(seed, steps, env=slow) for seed, steps in enumerate((10_000, 80_000, 90_000, 80_000, None))]
    (far,) = agreement("ppo", outcomes(spread), paper).far_apart
    assert far.ours == 80_000 and far.cause == "seeds differ as much: 10,000, 80,000, 80,000, 90,000, –"
    data = report_data(records)
    kinds = [(row[0], row[2]) for row in agreement_table(data).rows]
    assert (short, "open") in kinds
    markdown = training_page(data, [])
    assert f"| `{short}` | PPO | run to 500,000 steps |" in markdown and "0.83 and 1.38" in markdown
    entry = next(e for e in page_data(data, pictures=False)["agreement"] if e["algorithm"] == "ppo")
    assert entry["answered"] == 3 and [row["id"] for row in entry["open"]] == [short]


# Variants ------------------------------------------------------------------------------------------------------------


def test_variants_are_kept_apart() -> None:
    records = [
        *(ppo(seed, 10_000) for seed in range(3)),
        *(ppo(seed, 40_000, variant=PAPER) for seed in range(3)),
        *(ppo(seed, 30_000, env=MAZE) for seed in range(3)),
        *(ppo(seed, 20_000, env=MAZE, variant="table") for seed in range(3)),
    ]
    by_variant, found = outcomes_by_variant(records), outcomes(records)
    assert by_variant.keys() == {OURS, PAPER, "table"}
    assert (found[FREEWAY, "ppo"].variant, found[FREEWAY, "ppo"].complexity) == (PAPER, 40_000)
    assert (found[MAZE, "ppo"].variant, found[MAZE, "ppo"].complexity) == (OURS, 30_000)
    (gain,) = variant_gains(by_variant)
    assert gain.ratio == 0.25
    data = report_data(records)
    assert data.our_complexities["ppo"] == {FREEWAY: 40_000, MAZE: 30_000} and data.median_gain == 0.25
    assert variant_table(data).rows == [[FREEWAY, "ppo", 10_000, 40_000, 0.25]]
    table = complexity_table(data)
    assert {row[0]: row[table.header.index("ppo_variant")] for row in table.rows if row[0] in (FREEWAY, MAZE)} == {
        FREEWAY: PAPER, MAZE: OURS,
    }  # fmt: skip
    markdown = training_page(data, [])
    assert "40,000 (3, 1, paper)" in markdown and "30,000 (3, 1)" in markdown
    assert f"| `{FREEWAY}` | PPO | 10,000 | 40,000 | 0.25 |" in markdown
    row = next(row for row in page_data(data, pictures=False)["rows"] if row["id"] == FREEWAY)
    assert row["runs"]["ppo"]["variant"] == PAPER and row["runs"]["ppo"]["validated"] == [40_000, 40_000]


def test_budgets_that_change_nothing_are_not_settings_of_their_own() -> None:
    runs = [sqirl(0, None, budget=50_000), sqirl(0, None, budget=90_000), sqirl(1, 60_000, budget=90_000)]
    found = outcomes(runs)[FREEWAY, "sqirl"]
    assert found.num_settings == len(found.settings) == 1 and found.records == (runs[1], runs[2])
    both = outcomes([ppo(0, None, budget=50_000), ppo(0, 60_000)])[FREEWAY, "ppo"]
    assert both.num_settings == 1 and both.complexity == 60_000


# Curves, full-length games, costs ------------------------------------------------------------------------------------


def test_a_run_that_goes_on_is_drawn_to_its_end() -> None:
    curve = tuple(Point(at, mean, mean) for at, mean in ((10_000, 0.2), (20_000, 1.0), (30_000, 0.4), (40_000, 1.0)))
    data = report_data([ppo(0, None, curve=curve, steps=40_000, stop="never", budget=40_000)])
    assert data.outcomes[FREEWAY, "ppo"].complexity == 20_000
    lines = {line.get_label(): line for line in figure_5_learning_curves(data.runs[FREEWAY]).axes[0].lines}
    assert lines["PPO"].get_xdata().tolist() == [10_000, 20_000, 30_000, 40_000]
    assert lines["PPO"].get_ydata().tolist() == [0.2, 1.0, 0.4, 1.0]
    row = run_table(data).rows[0]
    assert row[6] == 20_000 and row[8:10] == [20_000, 20_000]


def test_above_random_play_three_times_in_a_row() -> None:
    random = RandomPlay(100, math.sqrt(20) * 10)
    assert random.clearly_above == pytest.approx(120)
    assert is_above([0, 121, 122, 123], random) is True
    assert is_above([121, 119, 123], random) is False
    assert is_above([121, 122], random) is None is is_above([1, 2, 3], None)
    assert random_play_of("PongNoFrameskip-v4").mean < -20 and random_play_of(FREEWAY) is None


def test_full_length_games_in_the_docs_and_in_the_figure() -> None:
    means = (-21.0, -20.0, -15.0, -10.0, -5.0)
    curve = tuple(Point(100_000 * place, mean) for place, mean in enumerate(means))
    config = RunConfig("ppo", "PongNoFrameskip-v4", eval_every=100_000, eval_episodes=20, options={"rollout": 128})
    data = report_data([RunRecord(config, curve, 400_000)])
    (run,) = data.full_length_runs
    assert run.before == -21 and run.last == (-15, -10, -5) and run.best == -5 and run.above_random is True
    expected = "| Pong | PPO | ours | rollout=128 | 1 | 400,000 | -20.38 | -21 | -15, -10, -5 | -5 | yes |"
    assert expected in training_page(data, [])
    (axes,) = full_length_figure(data).axes
    assert "random -20.38" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert page_data(data, pictures=False)["full_length_runs"][0]["above"] is True


def test_costs_are_those_of_rows_with_the_same_result() -> None:
    paper = {FREEWAY: 10_000.0, MAZE: None, "c": 20_000.0, "d": None, "e": None}
    records = [
        ppo(0, 10_000, seconds=3.0, device="cuda", trainer="population"),
        ppo(1, 10_000, seconds=5.0, device="cuda", trainer="population"),
        ppo(0, None, env=MAZE, seconds=100.0, device="cuda"),
        ppo(2, 10_000, seconds=7.0, device="cpu", variant="table"),  # not the variant that is compared
        ppo(3, 10_000, seconds=900.0, device="cpu"),  # fewer steps than on the GPU
    ]
    found = cost_of_rows("ppo", records, outcomes(records), paper)
    assert (found.device, found.rows, found.seconds) == ("cuda", 2, 108)
    assert (found.rows_left, found.seconds_left) == (3, 8 + 100 + 100)
    assert cost_of_rows("dqn", records, outcomes(records), paper) is None
    only = cost_of_rows("ppo", records[:2], outcomes(records[:2]), paper)
    assert only.seconds_left == 4 * 8  # no unsolved row was run: the mean of all
    times = {(t.device, t.trainer): (t.runs, t.seconds) for t in device_times(records)}
    assert times == {("cuda", "population"): (2, 8.0), ("cuda", "single"): (1, 100.0), ("cpu", "single"): (2, 907.0)}
