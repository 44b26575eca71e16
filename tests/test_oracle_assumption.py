"""Assumption 3.5, measured: known answers for classes whose properties are known."""

from __future__ import annotations

import numpy as np
import pytest

from sqirl.algorithms.literal import fit_sqirl
from sqirl.algorithms.oracle_assumption import EXACT, linear_residual, measure_oracle
from sqirl.algorithms.oracles import linear_state_action, neural_network, tabular_average
from sqirl.analysis.analyze import analyze
from sqirl.analysis.q_tables import q_tables
from sqirl.errors import InvalidMDP, SqirlError
from sqirl.mdp.tabular import TabularMDP
from strategies import random_tables

CONSTANT = linear_state_action(lambda states, actions: np.ones((len(states), 1)))


def linear_mdp(seed: int, states: int = 12, actions: int = 3, d: int = 3) -> tuple[TabularMDP, np.ndarray]:
    """P(s' | s, a) = φ(s, a)·μ(s') and r(s, a) = φ(s, a)·θ."""
    rng = np.random.default_rng(seed)
    phi, mu = rng.dirichlet(np.full(d, 0.5), size=(states, actions)), rng.dirichlet(np.full(states, 0.5), size=d)
    matrices = np.moveaxis(phi @ mu, 1, 0)
    return TabularMDP.from_matrices(matrices, phi @ rng.uniform(size=d), start=mu[0], horizon=4), phi


def coin() -> TabularMDP:
    """One step, two actions: one pays 1 with probability 1/2, the other nothing."""
    heads = [(0.5, 0, 1.0, True), (0.5, 0, 0.0, True)]
    return TabularMDP.from_dynamics({0: {0: heads, 1: [(1.0, 0, 0.0, True)]}}, horizon=1)


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_the_tables_agree_with_the_analysis(stickiness: float) -> None:
    mdp = random_tables(3, 15, 3, 5).sticky(stickiness)
    tables, a = q_tables(mdp, 5), analyze(mdp)
    start = tables.mdp.start_states[0]
    assert tables.Q[0, 0, start].mean() == pytest.approx(a.random_return)
    assert tables.Q[4, 0, start].max() == pytest.approx(a.optimal_return)  # Q^T = Q*
    assert tables.return_range == pytest.approx(a.return_range)
    assert tables.visits.sum(axis=1)[0] == 1 and (tables.visits.sum(axis=1) <= 1 + 1e-12).all()
    assert (tables.visits[4] > 0).sum() <= a.num_states


def test_q_tables_refuse_what_is_too_large() -> None:
    with pytest.raises(InvalidMDP, match="k = 6 is outside"):
        q_tables(random_tables(3, 15, 3, 5), 6)
    with pytest.raises(InvalidMDP, match="more than 20,000,000"):
        q_tables(random_tables(0, 2000, 6, 50).sticky(0.25), 50)


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_the_tabular_class_has_every_property(stickiness: float) -> None:
    """It contains every function, and by Jensen's inequality its α is at most 1."""
    found = measure_oracle(
        random_tables(3, 10, 2, 4).sticky(stickiness), tabular_average, samples=(50, 2000), repeats=5
    )
    assert found.realizable.is_exact and found.closed.is_exact
    assert found.alpha == pytest.approx(1.0) and 0 < found.measured_alpha <= 1 + 1e-9
    small, large = found.errors
    assert large.regression < small.regression / 5 and large.F < 10 * small.F
    assert "2-realizable (F contains Q^1..Q^2): yes" in str(found) and "no counterexample among" in str(found)


def test_the_linear_class_of_a_linear_mdp_has_every_property() -> None:
    mdp, phi = linear_mdp(0)
    linear = linear_state_action(lambda states, actions: phi[states, actions])
    found = measure_oracle(mdp, linear, k=3, samples=(50, 2000), repeats=5)
    assert found.realizable.is_exact and found.closed.is_exact and found.measured_alpha <= 1 + 1e-6
    tabular = measure_oracle(mdp, tabular_average, k=3, samples=(50, 2000), repeats=5)
    assert found.errors[0].regression < tabular.errors[0].regression / 2  # three weights instead of 36 values
    assert linear_residual(mdp, phi) < 1e-12 < 0.05 < linear_residual(mdp, phi[..., :2])
    with pytest.raises(SqirlError, match="features of 2"):
        linear_residual(mdp, np.ones((1, 2, 1)))


def test_a_class_that_lacks_the_q_functions_says_by_how_much() -> None:
    """Constants on rewards 0 and 1: the best fit is 1/2, which is wrong by 1/2 everywhere, however many samples there are."""
    mdp = TabularMDP.deterministic([[-1, -1]], [[0.0, 1.0]], horizon=1)
    found = measure_oracle(mdp, CONSTANT, k=1, samples=(100, 10_000), repeats=5)
    assert found.realizable.largest == pytest.approx(0.5, abs=1e-4) == found.realizable.rms
    assert found.realizable.what == "Q^1 at step 0" and not found.realizable.is_exact
    assert [e.regression for e in found.errors] == pytest.approx([0.25, 0.25], abs=0.05)
    assert found.errors[1].F > 20 * found.errors[0].F  # it grows with n: an error remains
    assert "not met" in str(found) and found.probes == 0


def test_the_error_of_an_average_is_that_of_the_binomial() -> None:
    """E_D[(Q̂ - Q)²] = 1/2 · (K/N - 1/2)² with N samples of the coin: its mean is 1/2 · 1/4 / (n/2) = 1/(4 n)."""
    found = measure_oracle(coin(), tabular_average, k=1, samples=(4000,), repeats=400, delta=0.5)
    # The median of a squared normal variable is 0.4549 of its mean
    assert found.errors[0].regression == pytest.approx(0.4549 / (4 * 4000), rel=0.25)
    assert pytest.approx(found.errors[0].regression * 4000 / np.log(4000)) == found.errors[0].F


def test_closure_fails_where_the_maximum_leaves_the_class() -> None:
    """Q linear in x(s), the same for both actions up to sign: the maximum is |w·x|, which is not linear."""
    x = np.array([-1.0, 0.0, 1.0])
    transitions, rewards = np.array([[0, 0], [1, 1], [2, 2]]), np.stack([x, -x], axis=1)
    mdp = TabularMDP.deterministic(
        transitions,
        rewards,
        horizon=2,
        start_states=np.arange(3, dtype=np.int32),
        start_probabilities=np.full(3, 1 / 3),
    )
    signed = linear_state_action(lambda states, actions: (x[states] * np.where(actions == 0, 1, -1))[:, None])
    found = measure_oracle(mdp, signed, k=2, samples=(100,), repeats=2)
    # QVI(Q)(s, a) = ±x + |w x|: the linear fit leaves the whole of |w x|
    assert not found.closed.is_exact and found.closed.largest > 0.01
    assert not found.realizable.is_exact and found.realizable.what.startswith("Q^2")
    assert found.realizable.largest == pytest.approx(1 / 4, abs=1e-4)  # |x| = 1, and returns are between -2 and 2


def test_a_trained_network_is_measured_too() -> None:
    mdp = random_tables(3, 8, 2, 3)
    found = measure_oracle(
        mdp, neural_network(hidden=(32,), epochs=5), samples=(60,), repeats=1, probes=1, population=300
    )
    assert found.realizable.largest > EXACT and 0 < found.errors[0].regression < 1 and "α" in str(found)


def test_sqirl_with_features_of_states_and_actions() -> None:
    mdp, phi = linear_mdp(1)
    a = analyze(mdp)
    linear = linear_state_action(lambda states, actions: phi[states, actions])
    loss = a.optimal_return - fit_sqirl(mdp, k=1, m=300, regress=linear).true_return(mdp)
    assert loss <= a.optimal_return - a.greedy_returns[0] + 0.1 * (a.optimal_return - a.random_return)
    q = linear(np.array([3, 5]), np.array([0, 1]), np.array([0.2, 0.4]), num_actions=3, bounds=(0.0, 0.3))
    assert q(np.array([3, 5])).shape == (2, 3) and q(np.array([3, 5])).max() <= 0.3


@pytest.mark.parametrize("wrong", [{"samples": ()}, {"samples": (1,)}, {"repeats": 0}, {"probes": 0}, {"delta": 1.0}])
def test_senseless_calls_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SqirlError, match="at least 2, 1, 1 and in"):
        measure_oracle(coin(), tabular_average, k=1, **wrong)
