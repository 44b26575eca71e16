"""The one Bellman backup, and what the analysis does with a row of it. Compiled with numba; no torch.

**Sticky actions.** `X[s, e]` is the value of *executing* action e in state s: r(s, e) + γ E[V'(s', e)]. With sticky actions of
probability ρ the true state is (s, p), p the action executed last, and choosing a gives

    Q((s, p), a) = (1 - ρ) X[s, a] + ρ X[s, p].

Differences between actions, hence greedy sets and gaps, do not depend on p, and with W(s) the value of X[s] under a policy

    V(s, p) = (1 - ρ) W(s) + ρ X[s, p],

so a sweep is O(S·A) although there are S·A true states. `U[s, p, j]` holds V(s, p) of quantity j; it has one slot (p = 0)
where actions are not sticky and A slots where they are.

**Two views of a value.** Let lo(s) and hi(s) be the least and the greatest total reward that any actions and any luck can bring
from s on. A value is carried as its *height* X - lo(s) and as its *shortfall* hi(s) - X. Both are sums of terms that are never
negative, so neither loses digits to cancellation: the height is sharp where a value is near the worst (rewards far away), the
shortfall where it is near the best (success all but certain). Two actions are compared in the sharper view, and tied if rounding
alone may explain their difference (`rounding.py`).

**Columns.** Quantities differ only in how they reduce a row of X. Decision columns q, in both views:

    0        V*      best action
    1        base    mean of the row (the random policy, so that X is Q^1), or 0 (so that X is the reward alone)
    k + 1    M_k     best action of Q^k, for k = 1..K-1; column k of X is therefore Q^k

and after these two blocks of K + 1, in the units of the rewards: the worst return (min), and for k = first..K G_k, the least over
the actions greedy on Q^k: the return of the worst greedy policy.

`D[s, p, i]` carries, down every path that a policy greedy on Q^k can take, the least margin by which Q^k puts its greedy actions
above an action that is not optimal. Where a greedy action is itself not optimal, D is a negative number that names the state
(`witness_code`), so that one minimum yields the margin, the verdict and the evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

OPTIMAL, BASE = 0, 1
MAXIMUM, MEAN, MINIMUM = 0, 1, 2

#: States that one thread takes at a time; large enough to amortise scratch space, small enough to balance.
CHUNK = 512


class Dynamics(NamedTuple):
    """An MDP as the kernels take it: `transitions` if deterministic (then the CSR arrays are empty), else CSR."""

    deterministic: bool
    transitions: np.ndarray  # (S, A) int32
    rewards: np.ndarray  # (S, A) float64, expected
    indptr: np.ndarray
    next_states: np.ndarray
    probabilities: np.ndarray
    outcome_rewards: np.ndarray
    discount: float


class Step(NamedTuple):
    """What one backward step is told."""

    num_k: int  # K
    first_k: int  # G, D and gaps are kept for first_k..K
    with_returns: bool  # is there room for G?
    random_base: bool
    stickiness: float
    is_last: bool  # no step follows
    remaining: int  # steps from here to the horizon
    roundoff: float  # relative rounding error of the values compared at this step
    height_error: float  # absolute error of heights and of shortfalls: 0 where lo and hi are exact
    shortfall_error: float


@numba.njit(inline="always")
def bounds_of_row(dynamics, s, is_last, low_next, high_next, to_low, to_high):
    """(lo(s), hi(s)); to_low[a] ← E[r + γ lo(s')] - lo(s) and to_high[a] ← hi(s) - E[r + γ hi(s')], both ≥ 0."""
    A = dynamics.rewards.shape[1]
    low, high = np.inf, -np.inf
    for a in range(A):
        row = s * A + a
        first = row if dynamics.deterministic else dynamics.indptr[row]
        last = row + 1 if dynamics.deterministic else dynamics.indptr[row + 1]
        for i in range(first, last):
            n = dynamics.transitions[s, a] if dynamics.deterministic else dynamics.next_states[i]
            reward = dynamics.rewards[s, a] if dynamics.deterministic else dynamics.outcome_rewards[i]
            goes_on = n >= 0 and not is_last
            low = min(low, reward + (dynamics.discount * low_next[n] if goes_on else 0.0))
            high = max(high, reward + (dynamics.discount * high_next[n] if goes_on else 0.0))
    for a in range(A):
        row = s * A + a
        first = row if dynamics.deterministic else dynamics.indptr[row]
        last = row + 1 if dynamics.deterministic else dynamics.indptr[row + 1]
        to_low[a] = 0.0
        to_high[a] = 0.0
        for i in range(first, last):
            n = dynamics.transitions[s, a] if dynamics.deterministic else dynamics.next_states[i]
            reward = dynamics.rewards[s, a] if dynamics.deterministic else dynamics.outcome_rewards[i]
            weight = 1.0 if dynamics.deterministic else dynamics.probabilities[i]
            goes_on = n >= 0 and not is_last
            to_low[a] += weight * (reward + (dynamics.discount * low_next[n] if goes_on else 0.0) - low)
            to_high[a] += weight * (high - (reward + (dynamics.discount * high_next[n] if goes_on else 0.0)))
    return low, high


@numba.njit(inline="always")
def backup(dynamics, s, a, slot, is_last, U_next, x):
    """x[j] += γ E U_next[s', slot, j]"""
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
def fill_row(dynamics, s, step, U_next, D_next, to_low, to_high, X, XD):
    """X[a] ← every quantity of executing a in s, XD[a] likewise for D."""
    is_last, ND = step.is_last, step.num_k + 1
    sticky = U_next.shape[1] > 1
    for a in range(X.shape[0]):
        reward = dynamics.rewards[s, a]
        X[a, OPTIMAL] = to_low[a]
        X[a, ND + OPTIMAL] = to_high[a]
        for q in range(BASE, ND):
            X[a, q] = to_low[a] if step.random_base else reward
            X[a, ND + q] = to_high[a] if step.random_base else np.inf  # rewards alone have no bound to fall short of
        for j in range(2 * ND, X.shape[1]):
            X[a, j] = reward
        slot = a if sticky else 0
        backup(dynamics, s, a, slot, is_last, U_next, X[a])
        backup_least(dynamics, s, a, slot, is_last, D_next, XD[a])


@numba.njit(inline="always")
def greedy_set(X, q, ND, step, lead, is_greedy):
    """lead[a] ← by how much the best action of column q beats a; marks the actions that only rounding may keep from the best."""
    A = X.shape[0]
    highest, nearest = X[0, q], X[0, ND + q]
    for a in range(1, A):
        highest = max(highest, X[a, q])
        nearest = min(nearest, X[a, ND + q])
    # Rewards alone know no shortfall, and optimality must then be judged as coarsely as they are
    sharper = step.roundoff * nearest + step.shortfall_error < step.roundoff * abs(highest) + step.height_error
    by_shortfall = step.random_base and sharper
    error = step.shortfall_error if by_shortfall else step.height_error
    for a in range(A):
        mine = X[a, ND + q] if by_shortfall else X[a, q]
        best = nearest if by_shortfall else highest
        lead[a] = mine - best if by_shortfall else best - mine
        is_greedy[a] = lead[a] <= step.roundoff * (abs(mine) + abs(best)) + error


@numba.njit(inline="always")
def witness_code(s, num_states, remaining):
    """A negative number that names (time, state); the earlier the time, the smaller, so a minimum finds the earliest."""
    return -(1.0 + remaining * float(num_states) + s)


@numba.njit(inline="always")
def best_of_row(X, q, ND, target, W):
    """W[target] ← the value of the best action of column q, in both views."""
    W[target], W[ND + target] = X[0, q], X[0, ND + q]
    for a in range(1, X.shape[0]):
        W[target] = max(W[target], X[a, q])
        W[ND + target] = min(W[ND + target], X[a, ND + q])


@numba.njit(inline="always")
def reduce_row(X, XD, step, code, is_optimal, is_greedy, lead, W, WD, gaps):
    """W, WD ← every quantity of the state; lowers `gaps` to the gaps of this row. `code` names the state."""
    A, K, ND = X.shape[0], step.num_k, step.num_k + 1
    worst = 2 * ND
    greedy_set(X, OPTIMAL, ND, step, lead, is_optimal)
    best_of_row(X, OPTIMAL, ND, OPTIMAL, W)
    W[BASE], W[ND + BASE], W[worst] = 0.0, 0.0, np.inf
    for a in range(A):
        W[worst] = min(W[worst], X[a, worst])
        W[BASE] += X[a, BASE] / A
        W[ND + BASE] += X[a, ND + BASE] / A
    scale = 1.0 - step.stickiness  # Q-values of (s, p) differ by this much of what X differs by
    for k in range(1, K + 1):
        if k < K:
            best_of_row(X, k, ND, k + 1, W)
        if k < step.first_k:
            continue
        greedy_set(X, k, ND, step, lead, is_greedy)
        i = k - step.first_k
        worst_return, margin = np.inf, np.inf
        for a in range(A):
            if is_greedy[a]:
                margin = min(margin, XD[a, i] if is_optimal[a] else code)
                if step.with_returns:
                    worst_return = min(worst_return, X[a, worst + 1 + i])
            else:
                gaps[i] = min(gaps[i], scale * lead[a])
                if not is_optimal[a]:
                    margin = min(margin, scale * lead[a])
        WD[i] = margin
        if step.with_returns:
            W[worst + 1 + i] = worst_return


@numba.njit(inline="always")
def write_slots(s, X, XD, step, W, WD, U, D):
    """Store V(s, p) = (1 - ρ) W(s) + ρ X[s, p] of every quantity and slot."""
    rho, ND = step.stickiness, step.num_k + 1
    for p in range(U.shape[1]):
        for j in range(W.shape[0]):
            # M_k, in column k + 1, is of Q^k, in column k of X
            source = j - 1 if BASE < j < ND or ND + BASE < j < 2 * ND else j
            U[s, p, j] = W[j] if rho == 0.0 else (1.0 - rho) * W[j] + rho * X[p, source]
        for i in range(WD.shape[0]):
            D[s, p, i] = min(WD[i], XD[p, i]) if rho > 0.0 else WD[i]
        if not step.random_base:
            U[s, p, BASE] = 0.0


@numba.njit(parallel=True, cache=True)
def sweep_step(states, dynamics, step, low_next, high_next, U_next, D_next, low, high, U, D):
    """One backward step over `states`: fill lo, hi, U and D there and return (n,) the least gap of each Q^k kept."""
    A = dynamics.rewards.shape[1]
    S, _, J = U.shape
    num_kept = D.shape[2]
    num_chunks = (len(states) + CHUNK - 1) // CHUNK
    gaps = np.full((num_chunks, num_kept), np.inf)
    for chunk in numba.prange(num_chunks):
        X, XD = np.empty((A, J)), np.empty((A, num_kept))
        W, WD = np.empty(J), np.empty(num_kept)
        to_low, to_high, lead = np.empty(A), np.empty(A), np.empty(A)
        is_optimal, is_greedy = np.empty(A, np.bool_), np.empty(A, np.bool_)
        for index in range(chunk * CHUNK, min(len(states), (chunk + 1) * CHUNK)):
            s = states[index]
            low[s], high[s] = bounds_of_row(dynamics, s, step.is_last, low_next, high_next, to_low, to_high)
            fill_row(dynamics, s, step, U_next, D_next, to_low, to_high, X, XD)
            code = witness_code(s, S, step.remaining)
            reduce_row(X, XD, step, code, is_optimal, is_greedy, lead, W, WD, gaps[chunk])
            write_slots(s, X, XD, step, W, WD, U, D)
    least = np.full(num_kept, np.inf)
    for chunk in range(num_chunks):
        least = np.minimum(least, gaps[chunk])
    return least


@numba.njit(cache=True)
def look_at_row(dynamics, s, step, low_next, high_next, U_next, D_next, q):
    """(A,) values of executing each action by column q, and (A,) bool which of them are best there."""
    A = dynamics.rewards.shape[1]
    X, XD = np.empty((A, U_next.shape[2])), np.empty((A, D_next.shape[2]))
    to_low, to_high, lead, is_greedy = np.empty(A), np.empty(A), np.empty(A), np.empty(A, np.bool_)
    low, _ = bounds_of_row(dynamics, s, step.is_last, low_next, high_next, to_low, to_high)
    fill_row(dynamics, s, step, U_next, D_next, to_low, to_high, X, XD)
    greedy_set(X, q, step.num_k + 1, step, lead, is_greedy)
    return low + X[:, q], is_greedy


@numba.njit(inline="always")
def backup_one(dynamics, s, a, slot, is_last, V_next):
    """r(s, a) + γ E V_next[s', slot]: the backup of a single quantity."""
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
