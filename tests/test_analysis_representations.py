"""One MDP in several forms has one analysis."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sqirl.analysis.analyze import analyze
from sqirl.analysis.backward import value
from sqirl.analysis.sweeps import MAXIMUM, MEAN, MINIMUM
from sqirl.mdp.convert import expand_sticky, to_stochastic
from sqirl.mdp.tabular import TabularMDP
from strategies import random_tables

SIZES = [
    (seed, states, actions, horizon, signed)
    for seed, (states, actions, horizon, signed) in enumerate(
        [(5, 2, 8, False), (40, 3, 10, True), (200, 6, 12, False), (700, 4, 15, True), (50, 18, 6, False)]
    )
]


def assert_same(a, b, *, same_states: bool = True) -> None:
    for field in ("optimal_return", "random_return", "worst_return", "return_range", "greedy_returns"):
        assert getattr(a, field) == pytest.approx(getattr(b, field), rel=1e-11, abs=1e-12), field
    for field in ("solvable", "min_k", "approx_min_k", "effective_planning_window", "effective_horizon_k"):
        assert getattr(a, field) == getattr(b, field), field
    for field in ("gaps", "decisive_gaps", "effective_horizons"):
        ours, theirs = getattr(a, field), getattr(b, field)
        assert [x is None for x in ours] == [x is None for x in theirs], field
        assert [x for x in ours if x is not None] == pytest.approx([x for x in theirs if x is not None], rel=1e-8), (
            field
        )
    assert not same_states or a.num_states == b.num_states


@pytest.mark.parametrize("size", SIZES)
def test_deterministic_equals_csr_and_its_sticky_view_at_zero(size: tuple) -> None:
    mdp = random_tables(*size[:4], signed=size[4])
    expected = analyze(mdp)
    assert_same(analyze(to_stochastic(mdp)), expected)
    assert_same(analyze(mdp.sticky(0.0)), expected)
    tiny = analyze(mdp.sticky(1e-13))
    assert tiny.optimal_return == pytest.approx(expected.optimal_return, abs=1e-9)
    assert tiny.random_return == pytest.approx(expected.random_return, abs=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("probability", [0.25, 0.6])
def test_sticky_view_equals_the_explicit_product(size: tuple, probability: float) -> None:
    mdp = random_tables(*size[:4], signed=size[4]).sticky(probability)
    assert_same(analyze(mdp), analyze(expand_sticky(mdp)))


@pytest.mark.parametrize("size", SIZES)
def test_merging_changes_no_value(size: tuple) -> None:
    mdp = random_tables(*size[:4], signed=size[4])
    doubled = TabularMDP.deterministic(  # every state twice, with the copies mixed up
        _mixed_copy(mdp.transitions), np.vstack([mdp.rewards, mdp.rewards]), horizon=mdp.horizon
    )
    merged = doubled.merge(by="reward")
    assert merged.num_states <= mdp.num_states
    assert_same(analyze(merged.sticky()), analyze(mdp.sticky()), same_states=False)


def _mixed_copy(transitions: np.ndarray) -> np.ndarray:
    num_states = len(transitions)
    shift = np.random.default_rng(0).integers(0, 2, (2 * num_states, transitions.shape[1])) * num_states
    doubled = np.vstack([transitions, transitions])
    return np.where(doubled < 0, -1, doubled + shift)


@pytest.mark.parametrize("size", SIZES)
def test_single_values_equal_the_backward_pass(size: tuple) -> None:
    mdp = random_tables(*size[:4], signed=size[4]).sticky(0.25)
    a = analyze(mdp)
    assert value(mdp, size[3], MAXIMUM) == pytest.approx(a.optimal_return, rel=1e-13)
    assert value(mdp, size[3], MEAN) == pytest.approx(a.random_return, rel=1e-13, abs=1e-13)
    assert value(mdp, size[3], MINIMUM) == pytest.approx(a.worst_return, rel=1e-13, abs=1e-13)


def test_ties_are_ties_however_the_sums_round() -> None:
    """Two routes to 0.1 + 0.2 + 0.3 in different orders: equal in mathematics, different in the last bit."""
    #           left: 0.1 then 0.2 then 0.3           right: 0.3 then 0.2 then 0.1
    transitions = [[1, 3], [2, 2], [-1, -1], [4, 4], [-1, -1]]
    rewards = [[0.1, 0.3], [0.2, 0.2], [0.3, 0.3], [0.2, 0.2], [0.1, 0.1]]
    assert 0.1 + (0.2 + 0.3) != 0.3 + (0.2 + 0.1)
    a = analyze(TabularMDP.deterministic(transitions, rewards, horizon=3))
    assert a.min_k == 1 and a.gaps[0] == 1.0


def test_real_gaps_far_below_any_absolute_epsilon_are_seen() -> None:
    a = analyze(TabularMDP.deterministic([[1, 1], [-1, -1]], [[0.0, 1e-20], [0.0, 3e-20]], horizon=2))
    assert a.gap == pytest.approx(0.25) and a.optimal_return == pytest.approx(4e-20)


def test_solvability_is_not_monotone_in_k_is_allowed_for() -> None:
    """Exact min k is the first solvable k, and later ones may fail again."""
    found = [analyze(random_tables(seed, 12, 3, 6), max_k=6).solvable for seed in range(60)]
    assert any(any(a and not b for a, b in itertools.pairwise(s)) for s in found)
