"""H̄_ε against its definition in exact arithmetic, and on examples that can be worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings

from sqirl.analysis.analyze import analyze
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import PRECISION
from sqirl.mdp.build import build_mdp
from sqirl.mdp.tabular import TabularMDP
from strategies import Example, deterministic, stochastic

EPSILONS = (Fraction(1, 10), Fraction(1, 3), Fraction(0))


def assert_equals_oracle(example: Example) -> None:
    exact = example.exact
    tolerances = tuple(map(float, EPSILONS))
    found = analyze(example.mdp, discount=float(exact.discount), tolerances=tolerances).tolerant
    for epsilon, mine in zip(EPSILONS, found, strict=True):
        gaps = {k: exact.tolerant_gap(k, epsilon) for k in range(1, exact.horizon + 1)}
        horizons = {
            k: k - 2 * math.log(gap) / math.log(exact.num_actions) for k, gap in gaps.items() if gap is not None
        }
        assert mine.horizon == pytest.approx(min(horizons.values()), abs=0.01)  # k = T is optimal, so there is one
        expected = gaps[mine.k]
        assert expected is not None and mine.gap <= float(expected) * (1 + 1e-9)
        assert mine.gap >= float(expected) / (1 + 2 * PRECISION)
        assert mine.greedy_return == pytest.approx(float(exact.greedy_return(exact.q(mine.k))), rel=1e-12, abs=1e-12)


@settings(max_examples=20)
@given(deterministic())
def test_deterministic(example: Example) -> None:
    assert_equals_oracle(example)


@settings(max_examples=20)
@given(deterministic(stickiness=Fraction(1, 4)))
def test_sticky(example: Example) -> None:
    assert_equals_oracle(example)


@settings(max_examples=20)
@given(stochastic(max_horizon=3))
def test_stochastic(example: Example) -> None:
    assert_equals_oracle(example)


def test_a_choice_that_costs_little_does_not_count() -> None:
    """One step: action 0 earns 1, action 1 earns 0.95, action 2 earns 0. Random play earns 0.65."""
    mdp = TabularMDP.deterministic(np.full((1, 3), -1), np.array([[1.0, 0.95, 0.0]]), horizon=1)
    a = analyze(mdp, tolerances=(0.0, 0.1, 0.2, 0.999))
    exact, tenth, fifth, all_of_it = a.tolerant
    assert exact.gap == pytest.approx(0.05, rel=2 * PRECISION) == a.gap  # the letter's gap
    assert tenth.gap == pytest.approx(0.05, rel=2 * PRECISION)  # a tenth of 0.35 is less than 0.05
    assert fifth.gap == pytest.approx(1.0, rel=2 * PRECISION)  # a fifth of it is more: only action 2 must be told apart
    assert all_of_it.gap == pytest.approx(1.0, rel=2 * PRECISION) and fifth.k == 1
    assert fifth.horizon == pytest.approx(1.0, abs=0.003)


def test_where_nothing_matters_every_policy_will_do() -> None:
    mdp = TabularMDP.deterministic(np.zeros((1, 2), int), np.ones((1, 2)), horizon=4)
    [found] = analyze(mdp).tolerant
    assert (found.horizon, found.k, found.gap, found.greedy_return) == (1.0, 1, 1.0, 4.0)


def test_frozen_lake_is_not_as_hard_as_its_crumbs() -> None:
    a = analyze(build_mdp(gym.make("FrozenLake-v1"), horizon=50))
    [found] = a.tolerant
    assert a.min_k == 37 and a.effective_horizon > 50
    assert found.k == 1 and found.horizon < 15 and found.greedy_return == pytest.approx(0.54582, abs=1e-5)
    text = str(a).splitlines()[3]
    assert text.startswith("  effective horizon within 10 %:") and "greedy earns 0.545819" in text


def test_it_survives_json_and_older_files_have_none() -> None:
    mdp = TabularMDP.deterministic(np.full((1, 3), -1), np.array([[1.0, 0.95, 0.0]]), horizon=1)
    a = analyze(mdp, tolerances=(0.1, 0.2))
    again = Analysis.from_dict(a.to_dict())
    assert again.tolerant == a.tolerant and again.tolerant_horizon(0.2) == a.tolerant[1]
    old = {key: value for key, value in a.to_dict().items() if key != "tolerant"}
    assert Analysis.from_dict(old).tolerant == () and Analysis.from_dict(old).tolerant_horizon(0.1) is None


def test_a_search_that_is_cut_says_so() -> None:
    """The reward of three steps is not seen by random play, which prefers the small reward at once until k = 3."""
    transitions = np.array([[1, -1], [2, -1], [-1, -1]])
    rewards = np.array([[0.0, 0.6], [0.0, 0.0], [1.0, 0.0]])
    mdp = TabularMDP.deterministic(transitions, rewards, horizon=3)
    [cut] = analyze(mdp, max_k=1, search_k=1).tolerant
    [whole] = analyze(mdp).tolerant
    assert (cut.horizon, cut.k, cut.searched_k) == (None, None, 1) and whole.k == 3
    assert "none with k up to 1" in str(analyze(mdp, max_k=1, search_k=1))


def test_a_gap_that_rounding_hides_is_passed_over() -> None:
    """Greedy on Q^1 is right by 1e-17 of the range of returns only: k = 1 is no answer, k = 2 sees the difference."""
    transitions = np.array([[1, 2], [3, 3], [4, 4], [-1, -1], [-1, -1]])
    rewards = np.array([[1e-17, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    [found] = analyze(TabularMDP.deterministic(transitions, rewards, horizon=3), tolerances=(0.01,)).tolerant
    assert found.k is not None and found.k >= 2 and found.horizon < 10
