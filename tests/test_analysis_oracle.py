"""The analysis against brute force in exact arithmetic, on random small MDPs of every kind."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given

from sqirl.analysis.analyze import APPROXIMATE_SHARE, analyze, planning_window, witness
from strategies import Example, deterministic, stochastic

QUARTER = Fraction(1, 4)


def assert_equals_oracle(example: Example) -> None:
    exact, mdp = example.exact, example.mdp
    discount = float(exact.discount)
    horizon = exact.horizon
    optimal, worst = exact.optimal_return, exact.worst_return
    greedy_returns = [exact.greedy_return(exact.q(k)) for k in range(1, horizon + 1)]
    a = analyze(mdp, max_k=horizon, discount=discount, tolerances=())

    assert a.exact
    assert a.optimal_return == pytest.approx(float(optimal), rel=1e-12, abs=1e-12)
    assert a.worst_return == pytest.approx(float(worst), rel=1e-12, abs=1e-12)
    assert a.random_return == pytest.approx(float(exact.random_return), rel=1e-12, abs=1e-12)
    assert a.return_range == pytest.approx([float(x) for x in exact.return_range], rel=1e-12, abs=1e-12)
    assert a.greedy_returns == pytest.approx([float(x) for x in greedy_returns], rel=1e-12, abs=1e-12)
    assert a.num_states == exact.num_states()

    solvable = [g == optimal for g in greedy_returns]
    assert list(a.solvable) == solvable
    assert a.min_k == solvable.index(True) + 1
    enough = [
        g - worst >= Fraction(APPROXIMATE_SHARE).limit_denominator(100) * (optimal - worst) for g in greedy_returns
    ]
    assert a.approx_min_k == enough.index(True) + 1
    windows = [exact.solvable(exact.q_rewards(k)) for k in range(1, horizon + 1)]
    assert a.effective_planning_window == windows.index(True) + 1 == planning_window(mdp, discount=discount)
    assert_gaps_equal(example, solvable, a)


def assert_gaps_equal(example: Example, solvable: list[bool], a) -> None:
    exact = example.exact
    for k, is_solvable in enumerate(solvable, start=1):
        if not is_solvable:
            assert a.gaps[k - 1] is a.decisive_gaps[k - 1] is a.effective_horizons[k - 1] is None
            assert_is_witness(example, k)
            continue
        q = exact.q(k)
        gap = float(exact.gap(q))
        assert a.gaps[k - 1] == pytest.approx(gap, rel=1e-9)
        assert a.decisive_gaps[k - 1] == pytest.approx(float(exact.decisive_gap(q)), rel=1e-9)
        assert a.effective_horizons[k - 1] == pytest.approx(k + math.log(1 / gap**2, exact.num_actions), rel=1e-9)
    finite = [h for h in a.effective_horizons if h is not None]
    assert a.effective_horizon == min(finite) == a.effective_horizons[a.effective_horizon_k - 1]


def assert_is_witness(example: Example, k: int) -> None:
    """The witness is a node that a greedy policy visits, where a greedy action is not optimal, with the right Q-values."""
    exact, mdp = example.exact, example.mdp
    found = witness(mdp, k, discount=float(exact.discount))
    assert found is not None
    state = (found.state, found.previous_action) if mdp.stickiness else found.state
    q, q_star = exact.q(k), exact.q_star
    node = (found.t, state)
    assert found.q == pytest.approx([float(x) for x in q[node]], rel=1e-12, abs=1e-12)
    assert found.optimal_q == pytest.approx([float(x) for x in q_star[node]], rel=1e-12, abs=1e-12)
    greedy, optimal = exact.greedy(q), exact.greedy(q_star)
    assert list(found.greedy_actions) == greedy[node] and list(found.optimal_actions) == optimal[node]
    assert not set(found.greedy_actions) <= set(found.optimal_actions)
    assert len(found.path) == found.t
    visited = exact.visited(greedy)
    assert any(t == found.t and (s[0] if mdp.stickiness else s) == found.state for t, s in visited)
    assert found.t == min(t for t, s in visited if not set(greedy[t, s]) <= set(optimal[t, s]))


@given(deterministic())
def test_deterministic(example: Example) -> None:
    assert_equals_oracle(example)


@given(deterministic(stickiness=QUARTER))
def test_sticky(example: Example) -> None:
    assert_equals_oracle(example)


@given(stochastic())
def test_stochastic(example: Example) -> None:
    assert_equals_oracle(example)


@given(stochastic(max_horizon=3))
def test_stochastic_and_sticky(example: Example) -> None:
    assert_equals_oracle(Example(example.exact.sticky(QUARTER), example.mdp.sticky(0.25)))


@given(deterministic())
def test_discounted(example: Example) -> None:
    assert_equals_oracle(Example(replace(example.exact, discount=Fraction(1, 2)), example.mdp))


@pytest.mark.parametrize("kind", [deterministic(), deterministic(stickiness=QUARTER), stochastic()])
def test_the_examples_are_worth_the_trouble(kind) -> None:
    """Among the examples there are many in which small k fail, and several in which min k is above 2."""
    min_ks: list[int] = []

    @given(kind)
    def collect(example: Example) -> None:
        min_ks.append(analyze(example.mdp, max_k=1).min_k)

    collect()
    assert sum(k > 1 for k in min_ks) >= 5 and len(min_ks) >= 50
