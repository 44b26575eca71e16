"""Figures and tables show the numbers of the results that they are made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from sqirl.algorithms.registry import DQN, SQIRL
from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.result import Analysis
from sqirl.cli.progress import duration
from sqirl.envs.actions import action_names
from sqirl.errors import SqirlError
from sqirl.experiments.sample_complexity import Share
from sqirl.experiments.theory import TheoryPoint
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.trace import live_game
from sqirl.report.analysis_figures import plot_greedy_returns, plot_witness, save_witness
from sqirl.report.contrast import contrast, loss, loss_share, wrong_action
from sqirl.report.curve_axes import return_range, step_range
from sqirl.report.curves import plot_curves, save_curves
from sqirl.report.data import ReportData, report_data
from sqirl.report.environments import as_printed, environment_rows
from sqirl.report.environments_page import as_text, markdown_page
from sqirl.report.figures import (
    bounds_figure,
    figure_2_min_k,
    figure_3_sample_complexities,
    figure_5_learning_curves,
    theory_figure,
    write_figures,
)
from sqirl.report.marks import bound_marks, num_neither, pair_marks, rail_height
from sqirl.report.picture_cache import cached_pictures, pictures_folder
from sqirl.report.pictures import witness_picture
from sqirl.report.predictors import DRAWN
from sqirl.report.style import save_figure
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import shipped_records
from strategies import random_tables

FREEWAY = "BRIDGE/freeway_10_fs30-Sticky-v0"


@pytest.fixture(scope="module")
def failing() -> Analysis:
    """An analysis in which small k fail."""
    found = (analyze(random_tables(seed, 30, 3, 8), max_k=2) for seed in range(50))
    return next(a for a in found if a.min_k > 2)


def test_the_plot_shows_every_k_and_both_lines(failing: Analysis) -> None:
    axes = plot_greedy_returns(failing).axes[0]
    (line,) = [line for line in axes.lines if len(line.get_xdata()) == len(failing.greedy_returns)]
    assert line.get_ydata().tolist() == list(failing.greedy_returns)
    labels = {text.get_text() for text in axes.get_legend().get_texts()}
    assert f"optimal {failing.optimal_return:.4g}" in labels and "some greedy policy is not optimal" in labels
    assert f"min k {failing.min_k}" in axes.get_title()
    unsettled = replace(failing, min_k=None, effective_horizon=None, effective_horizon_k=None, searched_k=2)
    assert "min k > 2" in plot_greedy_returns(unsettled).axes[0].get_title()


def test_the_witness_plot_marks_greedy_and_optimal_actions(failing: Analysis) -> None:
    figure = plot_witness(failing, np.zeros((4, 4, 3), np.uint8))
    _, middle, right = figure.axes
    for axes, values, chosen in (
        (middle, failing.witness.q, failing.witness.greedy_actions),
        (right, failing.witness.optimal_q, failing.witness.optimal_actions),
    ):
        assert [bar.get_height() for bar in axes.patches] == pytest.approx([max(values) - value for value in values])
        assert axes.collections[0].get_offsets()[:, 0].tolist() == list(chosen)


def test_the_witness_picture_shows_the_state_itself_and_the_names_of_actions(tmp_path: Path) -> None:
    """In FrozenLake the actions that lead to a state lead elsewhere when they are replayed with other slips."""
    mdp = build_mdp("FrozenLake-v1", horizon=50)
    analysis = analyze(mdp, search_k=5)
    assert np.array_equal(witness_picture(mdp, analysis.witness), mdp.render(analysis.witness.state))
    names = action_names(live_game(mdp))
    assert names == ("LEFT", "DOWN", "RIGHT", "UP")
    figure = plot_witness(analysis, None, action_names=names)
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == list(names)
    assert save_witness(mdp, replace(analysis, witness=None), tmp_path / "none.png") is not None
    assert not (tmp_path / "none.png").exists()


def test_figures_are_written_in_the_format_of_their_name(failing: Analysis, tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("b.svg", b"<?xml"), ("deep/c.pdf", b"%PDF")):
        save_figure(plot_greedy_returns(failing), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(SqirlError, match="figures are written as"):
        save_figure(plot_greedy_returns(failing), tmp_path / "d.jpeg")


def test_an_analysis_reads_well_and_survives_json(failing: Analysis) -> None:
    import json

    text = str(failing)
    assert f"min k {failing.min_k}" in text and f"Greedy on Q^{failing.witness.k} fails" in text
    assert Analysis.from_dict(json.loads(failing.to_json())) == failing
    unsettled = analyze(random_tables(3, 30, 3, 8), max_k=1, search_k=1)
    assert unsettled.searched_k == 1 and "\n\n" in str(unsettled)
    assert "the search ended at k = 1" in str(replace(unsettled, settled=False))


def test_every_row_of_the_page_is_a_row_of_the_catalogue() -> None:
    rows = environment_rows()
    page = markdown_page(rows)
    assert page.count("| `BRIDGE/") >= 155 == len(rows)
    known = [row for row in rows if row.optimal is not None]
    assert f"{len(known)} of them are enumerated" in page
    assert as_text(rows[:3]).count("\n") == 5
    assert all(archived_analyses()[row.env_id].min_k == row.min_k for row in known)


def test_rows_are_chosen_by_suite_and_by_text() -> None:
    assert {row.suite for row in environment_rows("minigrid")} == {"minigrid"} and len(
        environment_rows("minigrid")
    ) == 33
    assert [row.title for row in environment_rows(containing="FREEWAY_10_")] == ["freeway_10_fs30"]
    with pytest.raises(SqirlError, match="unknown suite 'nes'; there are atari, procgen, minigrid"):
        environment_rows("nes")


@pytest.fixture(scope="module")
def shipped() -> ReportData:
    return report_data(shipped_records())


def test_figure_2_has_a_bar_for_each_k_of_the_analyses(shipped: ReportData) -> None:
    axes = figure_2_min_k(shipped).axes[0]
    ks = [tick.get_text() for tick in axes.get_xticklabels()]
    solved, unsolved = ([bar.get_height() for bar in bars] for bars in axes.containers)
    analysed = [row for row in shipped.rows if row.analysis is not None]
    assert sum(solved) + sum(unsolved) == len(analysed) == shipped.num_built
    assert sum(solved) == sum(row.paper_solved["ppo"] is not None for row in analysed)
    assert solved[0] + unsolved[0] == sum(row.approx_min_k == 1 for row in analysed) and ks[:6] == [*"12345", "6–10"]


def places(axes: Axes) -> list[tuple[float, float]]:
    dots = [each for each in axes.collections if isinstance(each, PathCollection)]
    return sorted(tuple(at) for each in dots for at in each.get_offsets().tolist())


def test_figure_3_shows_what_both_algorithms_solve(shipped: ReportData) -> None:
    axes, marks = figure_3_sample_complexities(shipped, SQIRL, DQN).axes[0], pair_marks(shipped, SQIRL, DQN)
    paper = [mark for mark in marks if not mark.ours]
    assert sum(m.x is not None and m.y is not None for m in paper) == shipped.paper.pairs[1].both == 59
    assert num_neither(marks, ours=False) == shipped.paper.pairs[1].neither
    assert len(paper) == 155  # those that only one solves are on the rails
    mine = shipped.our_complexities
    assert {(m.env_id, m.x, m.y) for m in marks if m.ours} == {
        (env, mine["dqn"][env], steps) for env, steps in mine["sqirl"].items() if env in mine["dqn"]
    }
    shown = [m for m in marks if m.x is not None or m.y is not None]
    assert places(axes) == sorted(
        (rail_height(m.lane) if m.x is None else m.x, rail_height(m.lane) if m.y is None else m.y) for m in shown
    )


def test_the_theory_figure_shows_ours_and_the_papers(shipped: ReportData) -> None:
    shown = places(theory_figure(shipped).axes[0])
    row = next(row for row in shipped.rows if "breakout_20_" in row.env_id)
    assert (row.bound, 170_000) in shown and (row.bound, 400_000) in shown and row.paper_solved["sqirl"] == 400_000
    assert len(shown) == len(bound_marks(shipped)) and any(mark.y is None for mark in bound_marks(shipped))


def test_the_ranges_of_k_do_not_jump(shipped: ReportData) -> None:
    exact = shipped.least_k(lambda row: row.min_k)
    assert [group.label for group in exact] == ["1", "2", "3", "4", "5", "6–10", "11–20", "21–50", "51+", "more"]
    inside = {
        k for group in exact if group.label == "6–10" for k in (row.min_k for row in (*group.solved, *group.unsolved))
    }
    assert inside <= set(range(6, 11)) and 9 in inside


def test_two_games_are_one_game(shipped: ReportData) -> None:
    found = contrast(shipped.rows)
    assert found is not None
    easy, hard = found.easy, found.hard
    assert replace(easy.catalogue_row.env_id, horizon=1) == replace(hard.catalogue_row.env_id, horizon=1)
    assert easy.min_k == 1 and hard.horizon > easy.horizon
    assert all(easy.paper_solved[spec.name] and not hard.paper_solved[spec.name] for spec in DRAWN)
    witness = hard.analysis.witness
    wrong = wrong_action(witness)
    assert witness.q[wrong] == max(witness.q) and witness.optimal_q[wrong] < max(witness.optimal_q)
    assert loss(witness) == max(witness.optimal_q) - witness.optimal_q[wrong] > 0
    assert loss_share(hard) == max(loss_share(row) for row in shipped.rows if replace(row.catalogue_row.env_id, horizon=1)
                                   == replace(hard.catalogue_row.env_id, horizon=1))  # fmt: skip
    assert contrast([easy]) is None and contrast([]) is None


def test_pictures_are_drawn_once(own_store: Path) -> None:
    drawn = []

    def draw() -> list[dict[str, str]]:
        drawn.append(1)
        return [{"caption": "start", "url": "data:image/png;base64,AAAA"}]

    assert cached_pictures("a", draw) == cached_pictures("a", draw) == draw() and len(drawn) == 2
    (file,) = pictures_folder().iterdir()
    for damage in ("{", "[1]", '[{"caption": "x", "url": "javascript:alert(1)"}]', "null"):
        file.write_text(damage)
        assert cached_pictures("a", draw) == draw()
    assert cached_pictures("none", lambda: []) == [] and len(list(pictures_folder().iterdir())) == 1
    pictures_folder().rename(own_store / "old")
    (own_store / "pictures").write_text("a file, not a folder")
    assert cached_pictures("a", draw) == draw()


def test_a_single_evaluation_and_equal_returns_have_axes_around_them() -> None:
    config = RunConfig("sqirl", FREEWAY, seed=0)
    flat = RunRecord(config, (Point(10_000, 0.5),), optimal_return=0.5, random_return=0.5)
    data = report_data([flat])
    axes = figure_5_learning_curves(data.runs[FREEWAY]).axes[0]
    assert axes.get_xlim()[0] < 10_000 < axes.get_xlim()[1] and axes.get_ylim()[1] - axes.get_ylim()[0] > 0.4
    own = replace(
        flat, config=replace(config, env_id="m:Env"), curve=(Point(0, 0.0),), optimal_return=None, random_return=0.0
    )
    runs = report_data([own]).runs["m:Env"]
    assert return_range(runs) == (-1.0, 1.0) and step_range(runs, log=True) == (0.1, 10.0)


def test_the_bounds_figure_shows_every_point() -> None:
    points = [
        TheoryPoint("a", "gorp", 10, 1e4, Share(20, 20)),
        TheoryPoint("a", "sqirl", 100, 1e6, Share(19, 20)),
        TheoryPoint("b", "sqirl", 50, 1e5, Share(20, 20)),
    ]
    gorp, sqirl = bounds_figure(points).axes[0].collections
    assert gorp.get_offsets().tolist() == [[1e4, 10]] and sqirl.get_offsets().tolist() == [[1e6, 100], [1e5, 50]]


def test_all_figures_are_written(tmp_path: Path) -> None:
    records = [record for record in shipped_records() if record.config.env_id in ("PongNoFrameskip-v4", FREEWAY)]
    written = write_figures(report_data(records), tmp_path)
    names = [
        "sqirl-ppo",
        "sqirl-dqn",
        "min-k",
        "theory",
        "effective-horizon",
        "curve-freeway_10_fs30-Sticky-v0",
        "curve-PongNoFrameskip-v4",
    ]
    assert sorted(path.name for path in written) == sorted(name + end for name in names for end in (".pdf", ".svg"))
    assert all(path.stat().st_size > 1000 for path in written)


def test_the_curves_of_single_runs(tmp_path: Path) -> None:
    records = [r for r in shipped_records() if r.config.env_id == FREEWAY and r.config.algorithm == "sqirl"]
    records = [r for r in records if r.config.setting == records[0].config.setting]
    axes = plot_curves(records).axes[0]
    shown = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_ydata().tolist() for line in shown] == [[point.mean for point in r.curve] for r in records]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sum("mean of 100 episodes" in text for text in labels) == 1 and "true return of the policy" in labels
    assert save_curves(records, tmp_path).name == "sqirl-freeway_10_fs30-Sticky-v0.png"


@pytest.mark.parametrize(("value", "shown"), [(1.005, "1.00"), (-0.0001, "-0.00"), (-0.0, "0.00"), (158.126, "158.13")])
def test_returns_are_printed_as_the_paper_prints_them(value: float, shown: str) -> None:
    assert as_printed(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(4, "4 s"), (600, "10 min"), (9000, "2.5 h"), (864000, "10 days"), (1e12, "more than 100 years")],
)
def test_durations_are_as_exact_as_estimates_deserve(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_the_estimate_follows_the_growth() -> None:
    at = BuildProgress(
        depth=2, horizon=5, done=5, frontier=10, states=30, transitions=100, seconds=2.0, growth=2.0, num_actions=3
    )
    assert (
        at.speed == 50
        and at.transitions_to_come == 3 * (5 + 10 * (2 + 4))
        and at.seconds_left == pytest.approx(195 / 50)
    )
