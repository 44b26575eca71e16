"""The authors' min_k: the values in their dataset, and a second implementation that follows their program step by step."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sqirl.analysis.analyze import analyze
from sqirl.analysis.authors_min_k import PRECISION, authors_min_k
from sqirl.errors import InvalidMDP
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from strategies import random_tables

F32 = np.float32
KEY_CORRIDOR = "BRIDGE/MiniGrid-KeyCorridorS3R1-Sticky-v0"
#: What the authors' repository holds of three sticky games: min_k, optimal and random return, to the last digit.
STORED = {
    KEY_CORRIDOR: (1, 0.999999999999998, 0.0010068890119441542),
    "BRIDGE/freeway_10_fs30-Sticky-v0": (1, 1.0, 0.031809488932291664),
    "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0": (1, 10.0, 5.5408607728269175),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_results_are_reproduced_to_the_last_digit(name: str) -> None:
    found = authors_min_k(stored_mdp(name))
    assert (found.min_k, found.optimal_return, found.random_return) == STORED[name] and found.worst_return == 0.0


class StepByStep:
    """All Q-tables at once, then k = 1, 2, … with a forward search of the states that greedy policies visit."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp, self.T, self.A, self.S = mdp, mdp.horizon, mdp.num_actions, mdp.num_states
        self.rewards, self.sticky = mdp.rewards.astype(F32), F32(mdp.stickiness)
        shape = (self.T + 1, self.S + 1, self.A)  # values; state S = -1 is the end
        self.optimal, self.random, self.worst = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.Q, self.optimal_Q = (np.zeros((self.T, self.S, self.A, self.A)) for _ in range(2))
        for t in reversed(range(self.T)):
            for s, p in np.ndindex(self.S, self.A):
                self.evaluate(t, s, p)

    def outcomes(self, t: int, s: int, p: int, a: int) -> list[tuple[F32, int, int, F32]]:
        parts = [(F32(1), a)] if t == 0 or not self.sticky else [(F32(1) - self.sticky, a), (self.sticky, p)]
        return [(weight, int(self.mdp.transitions[s, e]), e, self.rewards[s, e]) for weight, e in parts]

    def evaluate(self, t: int, s: int, p: int) -> None:
        best, random, worst = self.optimal_Q[t, s, p], self.Q[t, s, p], np.zeros(self.A)
        for a in range(self.A):
            for weight, n, e, r in self.outcomes(t, s, p, a):
                for Q, V in ((random, self.random), (best, self.optimal), (worst, self.worst)):
                    Q[a] = Q[a] + float(weight * r)
                    Q[a] = Q[a] + float(weight) * V[t + 1, n, e]
        self.optimal[t, s, p], self.worst[t, s, p] = best.max(), worst.min()
        self.random[t, s, p] = max(worst.min(), min(best.max(), sum(random.tolist()) / self.A))

    def works(self) -> bool:
        """Is every policy greedy on the current Q good enough?"""
        visited = {(int(self.mdp.start_states[0]), 0)}
        for t in range(self.T):
            following = set()
            for s, p in visited:
                for a in np.flatnonzero(self.Q[t, s, p] >= self.Q[t, s, p].max()).tolist():
                    if self.optimal_Q[t, s, p, a] < self.optimal[t, s, p] - PRECISION:
                        return False
                    following |= {(n, e) for _, n, e, _ in self.outcomes(t, s, p, a) if n >= 0}
            visited = following
        return True

    def back_up(self) -> None:
        for t in range(self.T - 1):
            ahead = np.concatenate([self.Q[t + 1].max(axis=-1), np.zeros((1, self.A))])
            for s, p, a in np.ndindex(self.S, self.A, self.A):
                parts = [float(weight) * (float(r) + ahead[n, e]) for weight, n, e, r in self.outcomes(t, s, p, a)]
                self.Q[t, s, p, a] = sum(parts)

    def result(self) -> tuple[int, float, float]:
        start = 0, self.mdp.start_states[0], 0
        for k in range(1, self.T + 1):
            if self.works():
                return k, self.optimal[start], self.random[start]
            self.back_up()
        raise AssertionError("no k works")


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
@pytest.mark.parametrize("seed", range(6))
def test_random_games_agree_with_the_program_step_by_step(seed: int, stickiness: float) -> None:
    mdp = random_tables(seed, 8, 3, 5).sticky(stickiness)
    found = authors_min_k(mdp)
    assert (found.min_k, found.optimal_return, found.random_return) == StepByStep(mdp).result()


def test_a_loss_below_their_precision_counts_as_none() -> None:
    """Random play misleads by 5e-5: by the letter min k is 2, by theirs 1. With rewards a thousand times as large both are 2."""
    small = 5e-5
    transitions, rewards = np.array([[1, 2], [-1, -1], [-1, -1]]), np.array([[0, 0], [3, 3], [4, 0]]) * small
    mdp = TabularMDP.deterministic(transitions, rewards, horizon=2)
    assert analyze(mdp).min_k == 2 and authors_min_k(mdp).min_k == 1
    large = TabularMDP.deterministic(transitions, 1000 * rewards, horizon=2)
    assert analyze(large).min_k == 2 == authors_min_k(large).min_k


def test_what_their_program_does_not_take_is_refused() -> None:
    coin = TabularMDP.from_dynamics(
        {0: {0: [(0.5, 0, 1.0, True), (0.5, 0, 0.0, True)], 1: [(1.0, 0, 0.0, True)]}}, horizon=1
    )
    two_starts = TabularMDP.deterministic(
        [[0, 1], [1, 0]], [[0, 1], [1, 0]], horizon=2, start_states=np.arange(2, dtype=np.int32),
        start_probabilities=np.full(2, 0.5),
    )  # fmt: skip
    for mdp in (coin, two_starts):
        with pytest.raises(InvalidMDP, match="deterministic games with one start"):
            authors_min_k(mdp)


def test_the_option_of_the_command(sqirl) -> None:
    code, out, _ = sqirl("analyze", KEY_CORRIDOR, "--authors-min-k", "--json")
    found = json.loads(out)
    assert code == 0 and found["authors_min_k"]["min_k"] == 1 and found["authors_min_k"]["precision"] == 1e-4
    code, out, _ = sqirl("analyze", KEY_CORRIDOR, "--authors-min-k")
    assert code == 0 and "min k as the paper's authors compute it: 1 (only equal floats are tied" in out
    assert "authors_min_k" not in json.loads(sqirl("analyze", KEY_CORRIDOR, "--json")[1])
    code, _, err = sqirl("analyze", "FrozenLake-v1", "--horizon", "5", "--authors-min-k")
    assert code == 2 and err.count("\n") == 1 and "deterministic games" in err
