"""The bounds against the paper's formulas, written out by hand."""

from __future__ import annotations

import math

import pytest

from sqirl.algorithms.literal import fit_gorp
from sqirl.analysis import bounds
from sqirl.analysis.analyze import analyze
from sqirl.analysis.guarantees import deterministic_horizon
from sqirl.experiments.sample_complexity import sample_complexity
from sqirl.mdp.tabular import TabularMDP
from strategies import random_tables


def test_gorp() -> None:
    # k T² A^(k + log_A(1/Δ²)) log(T A / δ) with k=2, T=10, A=3, Δ=0.1
    instance = bounds.Instance(2, 10, 3, 0.1)
    expected = 2 * 100 * 3 ** (2 + math.log(100, 3)) * math.log(30 / 0.05)
    assert bounds.gorp_bound(instance) == pytest.approx(expected)
    assert bounds.gorp_bound(instance, constant=7) == pytest.approx(7 * expected)


def test_sqirl_theorem() -> None:
    k, T, A, gap, eps, alpha, D = 2, 10, 3, 0.1, 0.2, 1.5, 40.0
    instance = bounds.Instance(k, T, A, gap)
    m = k * T * alpha ** (2 * (k - 1)) * A**k * D / (gap**2 * eps) * math.log(k * T * alpha * A * D / (gap * eps))
    assert bounds.sqirl_episodes(instance, complexity=D, blowup=alpha, epsilon=eps) == pytest.approx(m)
    hypotheses = bounds.VCType(5, 8.0)
    delta = 0.05 / (k * T)
    F = 5 * math.log(40) + math.log(1 / delta)
    G = 5 * math.log(A * 40) + math.log(1 / delta)
    assert bounds.least_squares_complexity(hypotheses, num_actions=A, delta=delta) == pytest.approx(F + G)
    m1 = bounds.sqirl_episodes(instance, complexity=F + G, epsilon=eps)
    assert bounds.sqirl_bound(instance, hypotheses=hypotheses, epsilon=eps) == pytest.approx(T * T * m1)


def test_a_class_that_is_not_closed_pays_for_its_slack() -> None:
    alpha = math.sqrt(5)
    hypotheses = bounds.VCType(5, 8.0)
    slack = alpha - 2
    expected = 5 * math.log(40) + math.log(100) + (5 * math.log(3 * 40 / slack) + math.log(100)) / slack**4
    got = bounds.least_squares_complexity(hypotheses, num_actions=3, delta=0.01, blowup=alpha, closed_under_qvi=False)
    assert got == pytest.approx(expected)
    with pytest.raises(ValueError, match="must exceed 2"):
        bounds.least_squares_complexity(hypotheses, num_actions=3, delta=0.01, blowup=2.0, closed_under_qvi=False)


def test_table_of_bounds() -> None:
    k, T, A, S, gap, eps = 2, 10, 3, 7, 0.1, 0.2
    H = k + math.log(1 / gap**2, A)
    tabular, linear, pseudo = bounds.table_of_bounds(
        bounds.Instance(k, T, A, gap), num_states=S, epsilon=eps, feature_dimension=4, pseudo_dimension=6
    )
    assert (tabular.strategic, tabular.sqirl) == pytest.approx((T * S * A / eps**2, k * T**3 * S * A ** (H + 1) / eps))
    assert (linear.strategic, linear.sqirl) == pytest.approx((T**2 * 16 / eps**2, k * T**3 * 4 * A**H / eps))
    assert pseudo.strategic is None and pseudo.sqirl == pytest.approx(k * 5**k * T**3 * 6 * A**H / eps)


def test_covering_numbers_of_appendix_a() -> None:
    assert bounds.finite_pseudo_dimension(3).log_covering_number(0.1) == pytest.approx(6 * math.log(4 * math.e / 0.1))
    lipschitz = bounds.lipschitz_parameters(3, radius=2, lipschitz=5)
    assert lipschitz.log_covering_number(0.1) == pytest.approx(3 * math.log(41 / 0.1))
    assert math.exp(bounds.log_cover_of_lipschitz(2, 0.5, radius=1, lipschitz=1)) == pytest.approx(81)
    assert math.exp(bounds.log_cover_of_pseudo_dimension(2, 0.5)) == pytest.approx(2 * (16 * math.e) ** 2 * 4)
    assert bounds.network_pseudo_dimension(1000, 3) == pytest.approx(3000 * math.log(1000))
    # The absorbed form is an upper bound of the exact one at every scale up to 1
    for epsilon in (1.0, 0.5, 0.01):
        exact = bounds.log_cover_of_lipschitz(3, epsilon, radius=2, lipschitz=5)
        assert exact <= lipschitz.log_covering_number(epsilon) + 1e-12


def test_bounds_beyond_floats_are_infinite_not_errors() -> None:
    assert bounds.gorp_bound(bounds.Instance(2, 10, 3, 1e-200)) == math.inf
    assert bounds.gorp_bound(bounds.Instance(900, 1000, 18, 0.5)) == math.inf


def test_an_analysis_carries_the_bounds_of_the_k_that_attains_its_effective_horizon() -> None:
    a = analyze(TabularMDP.deterministic([[0, 1], [1, -1]], [[0.0, 0.0], [0.0, 1.0]], horizon=4))
    k = a.effective_horizon_k
    assert a.bounds.k == k
    assert a.bounds.gorp == pytest.approx(k * 16 * 2**a.effective_horizon * math.log(8 / 0.05))
    assert a.bounds.table[0].sqirl == pytest.approx(k * 64 * a.num_states * 2 ** (a.effective_horizon + 1) / 0.05)


def test_the_lemma_bounds_the_deterministic_effective_horizon() -> None:
    """H_k ≤ H̄_k + log_A(2·log(2·T·A^k)), with m rounded up to a whole number."""
    k, T, A, gap = 2, 10, 3, 0.1
    instance = bounds.Instance(k, T, A, gap)
    m = math.ceil(2 * math.log(2 * T * A**k) / gap**2)
    assert bounds.gorp_episodes(instance) == m
    assert bounds.gorp_episodes(instance, failure=0.01) == math.ceil(2 * math.log(100 * T * A**k) / gap**2)
    found = bounds.deterministic_horizon_bound(instance)
    stochastic = k + math.log(1 / gap**2, A)
    assert found == pytest.approx(k + math.log(m, A))
    assert found == pytest.approx(stochastic + math.log(2 * math.log(2 * T * A**k), A), abs=1e-3)
    assert bounds.deterministic_horizon_bound(bounds.Instance(2, 10, 3, 1e-200)) == math.inf


def test_one_choice_needs_one_episode_for_each_action() -> None:
    """One step, two actions with rewards 0 and 1: H = 1 + log_2(1) = 1, and the lemma says 1 + log_2⌈2·log 4⌉."""
    mdp = TabularMDP.deterministic([[-1, -1]], [[0.0, 1.0]], horizon=1)
    assert fit_gorp(mdp, k=1, m=1).true_return(mdp) == 1.0
    assert deterministic_horizon(analyze(mdp)) == (1 + math.log2(3), 1)
    assert deterministic_horizon(analyze(mdp.sticky(0.25))) is None


@pytest.mark.parametrize("seed", range(6))
def test_the_measured_horizon_of_random_mdps_is_below_the_lemma(seed: int) -> None:
    """m_k, the least m with which GORP is optimal in half of the seeds, against the lemma's bound for the same k."""
    mdp = random_tables(seed, 12, 2, 4)
    a = analyze(mdp)
    low, high = a.return_range
    checked = 0
    for k, gap in enumerate(a.gaps, start=1):
        if gap is None or gap < 0.05:
            continue
        instance = bounds.Instance(k, a.horizon, a.num_actions, gap)
        found = sample_complexity(
            lambda m, s, k=k: fit_gorp(mdp, k=k, m=m, seed=s),
            lambda run: run.true_return(mdp) >= a.optimal_return - 1e-9 * (high - low), delta=0.5, seeds=10,
        )  # fmt: skip
        assert found is not None and k + math.log(found.m, 2) <= bounds.deterministic_horizon_bound(instance)
        most = math.ceil(bounds.gorp_episodes(instance))
        sure = [fit_gorp(mdp, k=k, m=most, seed=s).true_return(mdp) for s in range(3)]
        assert sum(value >= a.optimal_return - 1e-9 * (high - low) for value in sure) >= 2
        checked += 1
    assert checked >= 1
    assert deterministic_horizon(a)[0] == min(
        bounds.deterministic_horizon_bound(bounds.Instance(k, a.horizon, 2, gap))
        for k, gap in enumerate(a.gaps, start=1)
        if gap is not None
    )
