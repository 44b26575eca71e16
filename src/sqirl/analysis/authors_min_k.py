"""`min_k` as the paper's authors store it with the BRIDGE dataset: with ties of floats and an absolute tolerance.

Their program differs from Definition 3.1 in two ways. Two actions are tied only if their float64 values are equal, so rounding
decides exact ties. And a greedy action counts as optimal if it loses less than 1e-4 in the units of the rewards, whatever
the returns are. `Analysis.min_k` has neither.

To reproduce their ties, this pass does the same operations in the same order and precision: rewards and probabilities in float32,
values in float64. Sums over 16 or more actions may be added in another order there, which is their compiler's choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP
from sqirl.mdp.reach import ReachableSets, check_horizon, reachable_sets
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.memory import available_memory

#: The authors' REWARD_PRECISION, in the units of the rewards.
PRECISION = 1e-4
#: The first pass looks at so many k; later ones at twice as many as the one before.
FIRST_PASS = 5
#: The share of free memory that a pass may take.
MEMORY_SHARE = 0.7


@dataclass(frozen=True)
class AuthorsMinK:
    """What the authors' program finds; the returns are as it rounds them."""

    min_k: int | None  # None: no k up to the horizon works
    precision: float
    optimal_return: float
    random_return: float
    worst_return: float

    def __str__(self) -> str:
        return (
            f"min k as the paper's authors compute it: {self.min_k or 'none'} "
            f"(only equal floats are tied; a loss below {self.precision:g} in rewards counts as none)"
        )


def authors_min_k(mdp: TabularMDP, *, horizon: int | None = None) -> AuthorsMinK:
    """The authors' `min_k` of a deterministic game, with or without sticky actions. Other MDPs are refused: they have none."""
    T = check_horizon(mdp, horizon)
    if mdp.transitions is None or len(mdp.start_states) > 1:
        raise InvalidMDP("the authors' min k is for deterministic games with one start, with or without sticky actions")
    sets, K = reachable_sets(mdp, T), min(FIRST_PASS, T)
    while True:
        values, is_bad = _pass(mdp, T, K, sets)
        works = np.flatnonzero(~is_bad)
        if len(works) or K == T:
            found = int(works[0]) + 1 if len(works) else None
            return AuthorsMinK(found, PRECISION, *values)
        K = min(2 * K, T)


def _pass(mdp: TabularMDP, T: int, K: int, sets: ReachableSets) -> tuple[tuple[float, float, float], NDArray[np.bool_]]:
    """((optimal, random, worst return), (K,) can a greedy policy on Q^k come to a wrong action?)."""
    slots = mdp.num_actions if mdp.stickiness else 1
    need, free = 2 * mdp.num_states * slots * (3 * 8 + 9 * K), available_memory()
    if free is not None and need > MEMORY_SHARE * free:
        raise InvalidMDP(f"the authors' min k needs {need / 1e9:.1f} GB, of which {free / 1e9:.1f} GB are free")
    shape = mdp.num_states, slots
    layers = [(np.zeros((*shape, 3)), np.zeros((*shape, K)), np.zeros((*shape, K), np.bool_)) for _ in range(2)]
    rewards = mdp.rewards.astype(np.float32)
    for t in reversed(range(T)):
        ahead, now = layers[(t + 1) % 2], layers[t % 2]
        stickiness = np.float32(mdp.stickiness if t else 0.0)
        _step(sets.states(t), mdp.transitions, rewards, stickiness, t == T - 1, *ahead, *now)
    values, _, is_bad = (layer[mdp.start_states[0], 0] for layer in layers[0])
    optimal, random, worst = values.tolist()
    return (optimal, random, worst), is_bad


@numba.njit(cache=True)
def _step(states, transitions, rewards, stickiness, is_last, V_next, M_next, bad_next, V, M, bad):
    """One backward step. V: optimal, random and worst value; M: max_a Q^k; bad: can greedy on Q^k go wrong from here?

    The slot of a pair is the previous action, or 0 where actions are not sticky.
    """
    A, K, slots = rewards.shape[1], M.shape[2], V.shape[1]
    Q = np.empty((3, A))  # optimal, random (that is Q^1), worst
    Qk = np.empty(A)
    for s in states:
        for p in range(slots):
            _evaluate(s, p, transitions, rewards, stickiness, is_last, V_next, Q)
            optimal, worst, total = Q[0, 0], Q[2, 0], Q[1, 0]
            for a in range(1, A):
                optimal, worst, total = max(optimal, Q[0, a]), min(worst, Q[2, a]), total + Q[1, a]
            V[s, p, 0], V[s, p, 1], V[s, p, 2] = optimal, max(worst, min(optimal, total / A)), worst
            for k in range(K):
                if k == 0 or is_last:
                    Qk[:] = Q[1]
                else:
                    _look_ahead(s, p, transitions, rewards, stickiness, M_next, k - 1, Qk)
                M[s, p, k] = Qk.max()
                bad[s, p, k] = False
                for a in range(A):
                    if Qk[a] >= M[s, p, k]:
                        wrong = Q[0, a] < optimal - PRECISION
                        bad[s, p, k] |= wrong or _leads_to_bad(s, p, a, transitions, stickiness, is_last, bad_next, k)


@numba.njit(cache=True)
def _evaluate(s, p, transitions, rewards, stickiness, is_last, V_next, Q):
    """Q (3, A) of the optimal, the random and the worst policy: reward and value are added one after the other."""
    for a in range(rewards.shape[1]):
        Q[:, a] = 0.0
        for part in range(2 if stickiness > 0 else 1):
            e, weight = (a, np.float32(1) - stickiness) if part == 0 else (p, stickiness)
            n = transitions[s, e]
            for column in range(3):
                Q[column, a] += weight * rewards[s, e]  # float32
                if not is_last and n >= 0:
                    Q[column, a] += weight * V_next[n, min(e, V_next.shape[1] - 1), column]


@numba.njit(cache=True)
def _look_ahead(s, p, transitions, rewards, stickiness, M_next, k, Q):
    """Q (A,) of one step of value iteration: the sum of reward and value is weighted."""
    for a in range(rewards.shape[1]):
        Q[a] = 0.0
        for part in range(2 if stickiness > 0 else 1):
            e, weight = (a, np.float32(1) - stickiness) if part == 0 else (p, stickiness)
            n = transitions[s, e]
            ahead = M_next[n, min(e, M_next.shape[1] - 1), k] if n >= 0 else 0.0
            Q[a] += weight * (rewards[s, e] + ahead)


@numba.njit(cache=True)
def _leads_to_bad(s, p, a, transitions, stickiness, is_last, bad_next, k):
    if is_last:
        return False
    for part in range(2 if stickiness > 0 else 1):
        e = a if part == 0 else p
        n = transitions[s, e]
        if n >= 0 and bad_next[n, min(e, bad_next.shape[1] - 1), k]:
            return True
    return False
