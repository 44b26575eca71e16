"""What explains the steps of deep RL: statistics worked out by hand, and the table of docs/bridge.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sqirl.report.environments import environment_rows
from sqirl.report.predictors import predictors, predictors_section
from sqirl.results.statistics import area_under_curve, explained


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
    text = "\n".join(predictors_section(environment_rows()))
    assert "What explains the steps" in text and text.count("| log A · H̄") == 4
    assert predictors_section([]) == []
