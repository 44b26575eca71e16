"""Tiny gaps against exact arithmetic, near the worst and near the best return: they are told from ties, and from each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from oracle import ExactMDP
from sqirl.analysis.analyze import analyze
from sqirl.mdp.tabular import TabularMDP

QUARTER = Fraction(1, 4)


def corridor(length: int, horizon: int, *, pay: int = 1, fall: bool = False) -> tuple[ExactMDP, TabularMDP]:
    """Walk right to the last cell, which pays and ends; left goes back (or falls off for good), a third action waits."""
    table = {}
    for s in range(length):
        table[s, 0] = (max(s - 1, 0), 0) if not fall else (-1, 0)
        table[s, 1] = (s + 1, 0) if s + 1 < length else (-1, pay)
        table[s, 2] = (s, 0)
    exact = ExactMDP(
        {key: [(Fraction(1), Fraction(r), None if n < 0 else n)] for key, (n, r) in table.items()},
        [(Fraction(1), 0)],
        3,
        horizon,
    )
    transitions = np.array([[table[s, a][0] for a in range(3)] for s in range(length)])
    rewards = np.array([[float(table[s, a][1]) for a in range(3)] for s in range(length)])
    return exact.sticky(QUARTER), TabularMDP.deterministic(transitions, rewards, horizon=horizon).sticky(0.25)


@pytest.mark.parametrize(("length", "horizon", "pay", "fall"), [
    (3, 24, 1, False),  # success is all but certain
    (8, 20, 1, True),  # reward is far: the random policy's values are tiny
    (3, 24, -1, False),  # the same upside down: the corridor's end is to be avoided
    (4, 26, 7, False),
])  # fmt: skip
def test_tiny_gaps_are_exact(length: int, horizon: int, pay: int, fall: bool) -> None:
    exact, mdp = corridor(length, horizon, pay=pay, fall=fall)
    a = analyze(mdp, max_k=horizon)
    optimal = exact.optimal_return
    seen = []
    for k in (1, 2, 4, horizon // 2, horizon):
        q = exact.q(k)
        solvable = exact.greedy_return(q) == optimal
        assert a.solvable[k - 1] == solvable, k
        if solvable:
            gap = float(exact.gap(q))
            seen.append(gap)
            assert a.gaps[k - 1] == pytest.approx(gap, rel=1e-6), k
            assert a.decisive_gaps[k - 1] == pytest.approx(float(exact.decisive_gap(q)), rel=1e-6), k
    assert seen and min(seen) < 1e-5


def test_gaps_near_certain_success_are_far_below_a_rounding_of_the_values() -> None:
    a = analyze(corridor(3, 60)[1], max_k=60)
    assert a.optimal_return == 1.0 and min(gap for gap in a.gaps if gap is not None) < 1e-20


@pytest.mark.parametrize("discount", [0.99, 0.5])
def test_a_discount_keeps_true_ties(discount: float) -> None:
    """Two mirror images of one path: whatever the rounding, their first steps are tied."""
    transitions = [[1, 4], [2, 2], [3, 3], [-1, -1], [5, 5], [6, 6], [-1, -1]]
    rewards = np.array([[0.1, 0.1], [0.3, 0.3], [0.7, 0.7], [0.2, 0.2], [0.3, 0.3], [0.7, 0.7], [0.2, 0.2]])
    a = analyze(TabularMDP.deterministic(transitions, rewards, horizon=4), discount=discount)
    assert a.min_k == 1 and a.gaps == (1.0,) * 4
