"""Figures and tables are functions of results; what they say is what the results say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.result import Analysis
from sqirl.cli.progress import duration
from sqirl.errors import SqirlError
from sqirl.mdp.build import BuildProgress
from sqirl.report.bridge import as_printed, as_text, bridge_rows, markdown_page
from sqirl.report.plots import plot_greedy_returns, plot_witness, save_figure
from strategies import random_tables


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
        assert [bar.get_height() for bar in axes.patches] == pytest.approx([value - max(values) for value in values])
        assert axes.collections[0].get_offsets()[:, 0].tolist() == list(chosen)


def test_figures_are_written_in_the_format_of_their_name(failing: Analysis, tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("b.svg", b"<?xml"), ("deep/c.pdf", b"%PDF")):
        save_figure(plot_greedy_returns(failing), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(SqirlError, match="figures are written as"):
        save_figure(plot_greedy_returns(failing), tmp_path / "d.jpeg")


def test_an_analysis_reads_well_and_survives_json(failing: Analysis) -> None:
    import json

    text = str(failing)
    assert f"min k {failing.min_k}" in text and f"Greedy on Q^{failing.witness.k} fails" in text and "GORP" in text
    assert Analysis.from_dict(json.loads(failing.to_json())) == failing
    unsettled = analyze(random_tables(3, 30, 3, 8), max_k=1, search_k=1)
    assert unsettled.searched_k == 1 and "\n\n" in str(unsettled)
    assert "the search ended at k = 1" in str(replace(unsettled, settled=False))


def test_every_row_of_the_page_is_a_row_of_the_catalogue() -> None:
    rows = bridge_rows()
    page = markdown_page(rows)
    assert page.count("| `BRIDGE/") >= 155 == len(rows)
    known = [row for row in rows if row.optimal is not None]
    assert f"{len(known)} of them are enumerated" in page
    assert as_text(rows[:3]).count("\n") == 5
    assert all(archived_analyses()[row.env_id].min_k == row.min_k for row in known)


@pytest.mark.parametrize(("value", "shown"), [(1.005, "1.00"), (-0.0001, "-0.00"), (-0.0, "0.00"), (158.126, "158.13")])
def test_returns_are_printed_as_the_paper_prints_them(value: float, shown: str) -> None:
    assert as_printed(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(4, "4 s"), (600, "10 min"), (9000, "2.5 h"), (864000, "10 days"), (1e12, "centuries")]
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
