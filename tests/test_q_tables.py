"""The Q-functions themselves: against the analysis, against the values of every policy, and after a trip through JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sqirl
from sqirl.errors import InvalidMDP
from strategies import random_tables


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_q_tables_are_those_of_the_analysis(stickiness: float, discount: float) -> None:
    mdp = random_tables(3, 15, 3, 5).sticky(stickiness)
    a = sqirl.analyze(mdp, discount=discount)
    first = np.s_[mdp.start_states[0], -1] if stickiness else mdp.start_states[0]  # no previous action
    assert a.q(1, 0)[first].mean() == pytest.approx(a.random_return)
    assert a.q(5, 0)[first].max() == pytest.approx(a.optimal_return) == a.optimal_q(0)[first].max()  # Q^T = Q*
    assert np.allclose(a.q(2, 4), a.optimal_q(4)) and np.allclose(a.q(2, 3), a.optimal_q(3))  # k ≥ the steps left
    assert a.q(1, 2).shape == ((15, 4, 3) if stickiness else (15, 3))


def test_one_step_of_q_value_iteration_by_hand() -> None:
    """Q^2(s, a) = r(s, a) + max Q^1(s'), in a table of two steps and more."""
    mdp = random_tables(1, 6, 2, 4)
    tables = sqirl.q_tables(mdp, 2)
    outcomes = tables.outcomes
    for state in range(6):
        for action in range(2):
            row = slice(*outcomes.indptr[state * 2 + action : state * 2 + action + 2])
            ahead = [
                probability * (reward + (tables.q(1, 2)[after].max() if after >= 0 else 0.0))
                for probability, reward, after in zip(
                    outcomes.probabilities[row], outcomes.rewards[row], outcomes.next_states[row], strict=True
                )
            ]
            assert tables.q(2, 1)[state, action] == pytest.approx(sum(ahead))


def test_ties_by_rounding_are_ties() -> None:
    tables = sqirl.q_tables(random_tables(1, 6, 2, 4), 1)
    assert tables.greedy(np.array([[0.1 + 0.2, 0.3], [1.0, 0.0]])).tolist() == [[True, True], [True, False]]


def test_what_is_not_there_is_refused() -> None:
    mdp = random_tables(1, 6, 2, 4)
    a = sqirl.analyze(mdp)
    for k, t, message in (
        (0, 0, "k = 0 is outside"),
        (5, 0, "k = 5 is outside"),
        (1, 4, "t = 4 is outside"),
        (1, -1, "t = -1"),
    ):
        with pytest.raises(InvalidMDP, match=message):
            a.q(k, t)
    again = sqirl.Analysis.from_dict(json.loads(a.to_json()))
    assert again == a and "mdp" not in a.to_dict()
    with pytest.raises(InvalidMDP, match="without its MDP"):
        again.q(1, 0)
