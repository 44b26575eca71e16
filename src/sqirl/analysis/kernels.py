"""The one Bellman backup, and what the analysis does with a row of it. Compiled with numba; no torch.

Notation. `X[s, e]` is the value of *executing* action e in state s: r(s, e) + γ E[V'(s', e)]. In an MDP with sticky
actions of probability ρ the true state is (s, p) with p the action executed last, and choosing a gives

    Q((s, p), a) = (1 - ρ) X[s, a] + ρ X[s, p].

Differences between actions, hence greedy sets and gaps, do not depend on p, and with W(s) the value of X[s] under a policy

    V(s, p) = (1 - ρ) W(s) + ρ X[s, p],

so a sweep is O(S·A) although there are S·A true states. `U[s, p, j]` below holds V(s, p) of quantity j; it has one slot
(p = 0) where actions are not sticky and A slots where they are. Quantities differ only in how they reduce a row of X:

    column 0        V*            max
    column 1        worst return  min
    column 2        base          mean (the random policy, so that X is Q^1), or 0 (so that X is the reward alone)
    column k + 2    M_k           max of Q^k, for k = 1..K-1; column k + 1 of X is therefore Q^k
    after these     G_k           min over the actions greedy on Q^k: the worst greedy policy's return, for k = first..K
                                  (left out where only solvability is asked for)

`D[s, p, i]` carries, down every path that a policy greedy on Q^k can take, the least margin by which Q^k puts its greedy
actions above an action that is not optimal. Where a greedy action is itself not optimal, D is a negative number that
names the state (see `witness_code`), so that one minimum yields the margin, the verdict and the evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

OPTIMAL, WORST, BASE = 0, 1, 2
MAXIMUM, MEAN, MINIMUM = 0, 1, 2

#: States that one thread takes at a time; large enough to amortise scratch space, small enough to balance.
CHUNK = 512


class Dynamics(NamedTuple):
    """An MDP as the kernels take it: `transitions` if deterministic (then the CSR arrays are empty), else CSR."""

    deterministic: bool
    transitions: np.ndarray  # (S, A) int32
    rewards: np.ndarray  # (S, A) float64
    indptr: np.ndarray
    next_states: np.ndarray
    probabilities: np.ndarray
    discount: float


class Step(NamedTuple):
    """What one backward step is told."""

    num_k: int  # K
    first_k: int  # G, D and gaps are kept for first_k..K
    with_returns: bool  # is there room for G?
    random_base: bool
    stickiness: float
    is_last: bool  # no step follows
    roundoff: float  # relative rounding error of the values compared at this step
    remaining: int  # steps from here to the horizon


@numba.njit(inline="always")
def backup(dynamics, s, a, slot, is_last, U_next, x):
    """x[j] ← r(s, a) + γ E U_next[s', slot, j]"""
    reward = dynamics.rewards[s, a]
    for j in range(x.shape[0]):
        x[j] = reward
    if is_last:
        return
    if dynamics.deterministic:
        n = dynamics.transitions[s, a]
        if n >= 0:
            for j in range(x.shape[0]):
                x[j] += dynamics.discount * U_next[n, slot, j]
        return
    row = s * dynamics.rewards.shape[1] + a
    for i in range(dynamics.indptr[row], dynamics.indptr[row + 1]):
        n = dynamics.next_states[i]
        if n >= 0:
            weight = dynamics.discount * dynamics.probabilities[i]
            for j in range(x.shape[0]):
                x[j] += weight * U_next[n, slot, j]


@numba.njit(inline="always")
def backup_least(dynamics, s, a, slot, is_last, D_next, x):
    """x[i] ← the least D_next[s', slot, i] over the outcomes s'; inf where the episode ends"""
    for i in range(x.shape[0]):
        x[i] = np.inf
    if is_last:
        return
    if dynamics.deterministic:
        n = dynamics.transitions[s, a]
        if n >= 0:
            for i in range(x.shape[0]):
                x[i] = D_next[n, slot, i]
        return
    row = s * dynamics.rewards.shape[1] + a
    for entry in range(dynamics.indptr[row], dynamics.indptr[row + 1]):
        n = dynamics.next_states[entry]
        if n >= 0:
            for i in range(x.shape[0]):
                x[i] = min(x[i], D_next[n, slot, i])


@numba.njit(inline="always")
def greedy_set(X, magnitude, column, roundoff, is_greedy):
    """The largest X[:, column]; marks every action that rounding error alone may keep from being the largest."""
    best = X[0, column]
    best_magnitude = magnitude[0, column]
    for a in range(1, X.shape[0]):
        if X[a, column] > best:
            best = X[a, column]
            best_magnitude = magnitude[a, column]
    for a in range(X.shape[0]):
        is_greedy[a] = best - X[a, column] <= roundoff * (abs(magnitude[a, column]) + abs(best_magnitude))
    return best


@numba.njit(inline="always")
def witness_code(s, num_states, remaining):
    """A negative number that names (time, state); the earlier the time, the smaller, so a minimum finds the earliest."""
    return -(1.0 + remaining * float(num_states) + s)


@numba.njit(inline="always")
def reduce_policies(X, XB, step, W, WB, is_optimal):
    """W, WB ← the columns of V*, of the worst return and of the base; marks the optimal actions."""
    A = X.shape[0]
    W[OPTIMAL] = greedy_set(X, XB, OPTIMAL, step.roundoff, is_optimal)
    W[WORST] = X[0, WORST]
    W[BASE] = 0.0
    WB[:] = 0.0
    for a in range(A):
        W[WORST] = min(W[WORST], X[a, WORST])
        if is_optimal[a]:
            WB[OPTIMAL] = max(WB[OPTIMAL], XB[a, OPTIMAL])
        if step.random_base:
            W[BASE] += X[a, BASE] / A
            WB[BASE] += XB[a, BASE] / A


@numba.njit(inline="always")
def reduce_sequence(X, XB, XD, step, code, is_optimal, is_greedy, W, WB, WD, gaps):
    """W, WB, WD ← the columns of M_k, G_k and D_k; lowers `gaps` to the gaps of this row. `code` names the state."""
    K = step.num_k
    scale = 1.0 - step.stickiness  # Q-values of (s, p) differ by this much of what X differs by
    for k in range(1, K + 1):
        column = k + 1
        best = greedy_set(X, XB, column, step.roundoff, is_greedy)
        if k < K:
            W[column + 1] = best
            for a in range(X.shape[0]):
                if is_greedy[a]:
                    WB[column + 1] = max(WB[column + 1], XB[a, column])
        if k < step.first_k:
            continue
        i = k - step.first_k
        worst_return, margin = np.inf, np.inf
        for a in range(X.shape[0]):
            lead = scale * (best - X[a, column])
            if is_greedy[a]:
                margin = min(margin, XD[a, i] if is_optimal[a] else code)
                if step.with_returns:
                    worst_return = min(worst_return, X[a, K + 2 + i])
            else:
                gaps[i] = min(gaps[i], lead)
                if not is_optimal[a]:
                    margin = min(margin, lead)
        WD[i] = margin
        if step.with_returns:
            W[K + 2 + i] = worst_return


@numba.njit(inline="always")
def write_slots(s, X, XB, XD, step, W, WB, WD, U, B, D):
    """Store V(s, p) = (1 - ρ) W(s) + ρ X[s, p] of every quantity and slot."""
    rho, K, signed = step.stickiness, step.num_k, B.shape[0] > 0
    for p in range(U.shape[1]):
        for j in range(W.shape[0]):
            source = j - 1 if BASE < j < K + 2 else j  # M_k, in column k + 2, is of Q^k, in column k + 1
            U[s, p, j] = (1.0 - rho) * W[j] + rho * X[p, source]
            if signed and j < K + 2:
                B[s, p, j] = (1.0 - rho) * WB[j] + rho * XB[p, source]
        for i in range(WD.shape[0]):
            D[s, p, i] = min(WD[i], XD[p, i]) if rho > 0.0 else WD[i]
        if not step.random_base:
            U[s, p, BASE] = 0.0
            if signed:
                B[s, p, BASE] = 0.0


@numba.njit(parallel=True, cache=True)
def sweep_step(states, dynamics, magnitudes, step, U_next, B_next, D_next, U, B, D):
    """One backward step over `states`: fill U, B and D there and return (K - first + 1,) the least gap of each Q^k.

    B holds, for the columns of Q-values, the sum of absolute rewards behind each value: what its rounding error is
    relative to. With rewards of one sign that is the value itself, and B is empty.
    """
    A = dynamics.rewards.shape[1]
    S, slots, J = U.shape
    K, num_kept = step.num_k, D.shape[2]
    signed = B.shape[0] > 0
    num_chunks = (len(states) + CHUNK - 1) // CHUNK
    gaps = np.full((num_chunks, num_kept), np.inf)
    for chunk in numba.prange(num_chunks):
        X = np.empty((A, J))
        XB = np.empty((A, K + 2)) if signed else X
        XD = np.empty((A, num_kept))
        W, WB, WD = np.empty(J), np.empty(K + 2), np.empty(num_kept)
        is_optimal, is_greedy = np.empty(A, np.bool_), np.empty(A, np.bool_)
        for index in range(chunk * CHUNK, min(len(states), (chunk + 1) * CHUNK)):
            s = states[index]
            for a in range(A):
                slot = a if slots > 1 else 0
                backup(dynamics, s, a, slot, step.is_last, U_next, X[a])
                backup_least(dynamics, s, a, slot, step.is_last, D_next, XD[a])
                if signed:
                    backup(magnitudes, s, a, slot, step.is_last, B_next, XB[a])
            reduce_policies(X, XB, step, W, WB, is_optimal)
            code = witness_code(s, S, step.remaining)
            reduce_sequence(X, XB, XD, step, code, is_optimal, is_greedy, W, WB, WD, gaps[chunk])
            write_slots(s, X, XB, XD, step, W, WB, WD, U, B, D)
    least = np.full(num_kept, np.inf)
    for chunk in range(num_chunks):
        least = np.minimum(least, gaps[chunk])
    return least


@numba.njit(cache=True)
def q_rows(dynamics, s, is_last, U_next, num_slots):
    """(A, J) the row X[s] of every quantity."""
    X = np.empty((dynamics.rewards.shape[1], U_next.shape[2]))
    for a in range(X.shape[0]):
        backup(dynamics, s, a, a if num_slots > 1 else 0, is_last, U_next, X[a])
    return X


@numba.njit(inline="always")
def backup_one(dynamics, s, a, slot, is_last, V_next):
    """`backup` of a single quantity V_next[s', slot]."""
    reward = dynamics.rewards[s, a]
    if is_last:
        return reward
    if dynamics.deterministic:
        n = dynamics.transitions[s, a]
        return reward + dynamics.discount * V_next[np.uint64(n), slot] if n >= 0 else reward
    row = np.int64(s) * dynamics.rewards.shape[1] + a
    for i in range(dynamics.indptr[row], dynamics.indptr[row + 1]):
        n = dynamics.next_states[i]
        if n >= 0:
            reward += dynamics.discount * dynamics.probabilities[i] * V_next[n, slot]
    return reward


@numba.njit(parallel=True, cache=True)
def value_step(actions, states, dynamics, rule, stickiness, is_last, V_next, V):
    """One backward step of a single quantity, V (S, slots), whose rule is MAXIMUM, MEAN or MINIMUM.

    `actions` is the tuple of all actions: its length is known to the compiler, which unrolls the loops (a third faster).
    """
    A = len(actions)
    slots = V.shape[1]
    num_chunks = (len(states) + CHUNK - 1) // CHUNK
    for chunk in numba.prange(num_chunks):
        x = np.empty(A)
        for index in range(chunk * CHUNK, min(len(states), (chunk + 1) * CHUNK)):
            s = np.uint64(states[index])  # unsigned: no check for indices from the end
            value = np.inf if rule == MINIMUM else -np.inf if rule == MAXIMUM else 0.0
            for a in range(A):
                x[a] = backup_one(dynamics, s, a, a if slots > 1 else 0, is_last, V_next)
                if rule == MAXIMUM:
                    value = x[a] if x[a] > value else value
                elif rule == MINIMUM:
                    value = x[a] if x[a] < value else value
                else:
                    value += x[a] / A
            if slots == 1:
                V[s, 0] = value
            else:
                for p in range(A):
                    V[s, p] = (1.0 - stickiness) * value + stickiness * x[p]


@numba.njit(cache=True)
def extremes_step(states, num_actions, indptr, next_states, rewards, discount, is_last, low_next, high_next, low, high):
    """The least and the greatest total reward that any actions and any luck can bring from each state on."""
    for s in states:
        least, greatest = np.inf, -np.inf
        for i in range(indptr[s * num_actions], indptr[(s + 1) * num_actions]):
            n = next_states[i]
            goes_on = n >= 0 and not is_last
            least = min(least, rewards[i] + (discount * low_next[n] if goes_on else 0.0))
            greatest = max(greatest, rewards[i] + (discount * high_next[n] if goes_on else 0.0))
        low[s], high[s] = least, greatest
