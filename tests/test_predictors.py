"""What explains the steps of deep RL: statistics worked out by hand, and the table of docs/bridge.md."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from scipy.optimize import minimize
from scipy.stats import norm

from sqirl.report.answer import answer_of
from sqirl.report.data import ReportData, report_data
from sqirl.report.environments import environment_rows
from sqirl.report.horizon_figure import horizon_figure
from sqirl.report.marks import LANES, horizon_marks
from sqirl.report.page import page_data
from sqirl.report.predictors import DRAWN, predictors, predictors_section, scaled_horizon
from sqirl.results.statistics import BUDGET, area_under_curve, explained
from sqirl.results.trend import fit_lines, trend


def test_the_area_under_the_curve_counts_pairs() -> None:
    x, y = np.array([1.0, 2.0, 2.0, 5.0]), np.array([10.0, 20.0, math.inf, math.inf])
    # Pairs of a solved and an unsolved row: (1, 2), (1, 5), (2, 2) counts half, (2, 5)
    assert float(area_under_curve(x, y)) == pytest.approx(3.5 / 4)
    assert math.isnan(float(area_under_curve(x, np.ones(4)))) and math.isnan(
        float(area_under_curve(x, np.full(4, math.inf)))
    )
    both = area_under_curve(np.stack([x, -x]), np.stack([y, y]))
    assert both.tolist() == pytest.approx([3.5 / 4, 0.5 / 4])


def test_rows_that_are_not_solved_need_the_most_steps() -> None:
    values = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "not run": 0.0}
    correlation, area = explained(values, {"a": 10, "b": 20, "c": None, "d": None})
    # Ranks 1, 2, 3, 4 against 1, 2, 3.5, 3.5: covariance 4.5, norms √5 and √4.5
    assert correlation.value == pytest.approx(4.5 / math.sqrt(5 * 4.5)) and correlation.count == 4
    assert area.value == 1.0 and correlation.low <= correlation.value <= correlation.high


def test_the_effective_horizon_explains_more_than_simpler_properties() -> None:
    found = {each.name: each for each in predictors(environment_rows())}
    tolerant, states, horizon = found["log A · H̄_ε, ε = 10 %"], found["states"], found["horizon"]
    assert tolerant.rows >= 60
    for label in ("PPO", "SQIRL"):
        correlation, area = tolerant.found[label]
        assert correlation.value > 0.75 and area.value > 0.85
        assert correlation.value > max(states.found[label][0].value, horizon.found[label][0].value)
    text = "\n".join(predictors_section(predictors(environment_rows())))
    assert "What explains the steps" in text and text.count("| log A · H̄") == 4
    assert predictors_section([]) == []


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data([])


def test_the_marks_of_the_figure_are_the_rows_and_their_steps(data: ReportData) -> None:
    rows = {row.env_id: row for row in data.rows}
    for predictor in data.predictors:
        if predictor.tolerance is None:
            continue
        for spec in DRAWN:
            marks = horizon_marks(data, predictor.tolerance, spec)
            assert {m.env_id: m.x for m in marks if m.env_id in predictor.values} == dict(predictor.values)
            assert all(m.y == rows[m.env_id].paper_solved[spec.name] and not m.ours for m in marks)
            rail = [m.lane for m in marks if m.y is None]
            assert rail == [place % LANES for place in range(len(rail))] and len(rail) > 10
    row = rows["BRIDGE/MiniGrid-FourRooms-Sticky-v0"]
    assert scaled_horizon(row.analysis, 0.1) == pytest.approx(math.log(6) * row.tolerant_horizon(0.1))
    assert scaled_horizon(row.analysis, 0.0) == pytest.approx(math.log(6) * row.effective_horizon)


def drawn_at(axes: Axes) -> list[tuple[float, float]]:
    """The places of all marks in a panel, sorted."""
    dots = [each for each in axes.collections if isinstance(each, PathCollection)]
    return sorted((x, y) for each in dots for x, y in each.get_offsets().tolist())


def test_the_figure_and_the_page_show_the_same_numbers(data: ReportData) -> None:
    plain, figure = page_data(data, pictures=False), horizon_figure(data)
    page, lanes = plain["horizon"], plain["steps_axis"]["lanes"]
    panels = page["panels"][page["shown"]]
    upper, lower = figure.subfigs
    for axes, spec in zip(upper.axes, DRAWN, strict=True):
        marks = panels["marks"][spec.name]
        expected = sorted((x, lanes[lane] if y is None else y) for _, x, y, _, lane in marks)
        assert np.array(drawn_at(axes)) == pytest.approx(np.array(expected), rel=1e-5)
        assert axes.get_xlim() == pytest.approx(panels["range"], rel=1e-5)
        assert axes.get_title() == spec.label
        (line,) = axes.lines
        assert line.get_xdata() == pytest.approx(panels["trend"][spec.name]["x"], rel=1e-5)
    for which, axes in enumerate(lower.axes):
        dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
        shown = [each["found"][name][which][0] for each in page["estimates"] for name in page["algorithms"]]
        assert dots == pytest.approx(shown, abs=1e-5) and len(dots) == 3 * len(data.predictors)
    assert upper.get_suptitle().replace("\n", " ") == plain["answer"]["sentence"]


def test_the_answer_has_the_numbers_of_the_table(data: ReportData) -> None:
    answer, leading = answer_of(data), data.leading_horizon
    area = leading.found["PPO"][1]
    assert answer is not None and answer.area == area and answer.games == leading.rows >= 60
    assert f"In {leading.rows} games" in answer.sentence and f"AUC {area.value:.2f}" in answer.sentence
    assert [label for label, _ in answer.simpler] == [p.label for p in data.predictors if p.tolerance is None]
    assert all(estimate.value < area.value for _, estimate in answer.simpler)
    assert answer_of(replace(data, rows=[])) is None


# The line through censored steps ------------------------------------------------------------------------------------------


def test_the_line_maximises_the_likelihood_of_censored_steps() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.8, 200)
    y = 1.0 + 4.0 * x + rng.normal(0, 0.5, 200)
    y = np.where(y > math.log10(BUDGET), math.inf, np.maximum(y, 4.0))  # not solved; solved at the first evaluation
    (found,) = fit_lines(x[None], y[None])

    def minus_log_likelihood(line: np.ndarray) -> float:
        mean, deviation = line[0] + line[1] * x, abs(line[2])
        likely = norm.logpdf(np.where(np.isinf(y), 0, y), mean, deviation)
        likely = np.where(y <= 4.0, norm.logcdf(4.0, mean, deviation), likely)
        return -np.where(np.isinf(y), norm.logsf(math.log10(BUDGET), mean, deviation), likely).sum()

    best = minimize(minus_log_likelihood, [2.0, 3.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9})
    assert found == pytest.approx(best.x, abs=1e-4)
    assert found == pytest.approx([1.0, 4.0, 0.5], abs=0.35) and np.isinf(y).sum() > 20 and (y <= 4).sum() > 20


def test_a_line_needs_several_different_environments() -> None:
    values = {str(i): float(2 + i) for i in range(12)}
    steps = {env: 1e4 * x**2 for env, x in values.items()}
    found = trend(values, steps)
    assert found is not None and found.count == 12
    assert found.steps == pytest.approx([1e4 * x**2 for x in found.x], rel=0.02)  # on a line: no censoring, no error
    assert all(a <= b * 1.001 for a, b in zip(found.low, found.high, strict=True))
    assert trend(dict(list(values.items())[:5]), steps) is None
    assert trend(dict.fromkeys(values, 3.0), steps) is None
    unsolved = trend(values, {env: None if x > 8 else steps[env] for env, x in values.items()})
    assert unsolved is not None and unsolved.steps[-1] > BUDGET / 4
