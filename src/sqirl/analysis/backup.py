"""The Bellman backup, and what the analysis does with a row of Q-values. Compiled with numba.

**One backup.** `backup` is the only loop over the outcomes of an action. Its argument `combine` says how outcomes are put
together: expected value, least and greatest total reward, or least margin. After it, a row is reduced over the actions: best
action, mean, worst action, or worst action that is (nearly) greedy.

**Sticky actions.** X[s, e] is the value of *executing* action e in state s: r(s, e) + γ E[V'(s', e)]. With sticky actions of
probability ρ the true state is (s, p), where p is the action that was executed last. Choosing a in (s, p) gives

    Q((s, p), a) = (1 - ρ) X[s, a] + ρ X[s, p].

The second term is the same for all a, so greedy actions and gaps do not depend on p. Let W(s) be the value of the row X[s]
under a policy. Then

    V(s, p) = (1 - ρ) W(s) + ρ X[s, p],

and a step costs O(S·A) although there are S·A true states. U[s, p, j] holds V(s, p) of quantity j (`columns.py`). Its
second axis has one slot for each p where actions are sticky, and a single slot where they are not.

**Height and shortfall.** Let lo(s) and hi(s) be the least and the greatest total reward from s on, over all actions and all
random outcomes. A value is stored twice: as its height X - lo(s) and as its shortfall hi(s) - X. Both are sums of terms that
are never negative, so there is no cancellation. The height is precise where a value is near the worst (the reward is far
away). The shortfall is precise where a value is near the best (success is almost certain). Two actions are compared in the
more precise of the two. They count as equal if rounding alone can explain their difference (`rounding.py`).

**Margins.** D[s, p, i] is the least margin by which Q^k puts its greedy actions above an action that is not optimal, over all
states that a policy greedy on Q^k can visit from here on. Where a greedy action is not optimal, D is the negative number that
names this state (`witness.py`). One minimum therefore finds the margin, the verdict and the evidence.

**Rules of numba for this file.** All compiled code is here: the cache on disk does not notice changes of other files. A
parallel loop takes the arrays that it fills as separate arguments: it loses writes to an array inside a tuple. Functions inside
such a loop are inlined: calls would be twice as slow, and functions as arguments would prevent the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.columns import HEIGHT, HIGH, LOW, REWARD, SHORTFALL, UNBOUNDED, Columns, Layer
from sqirl.analysis.dynamics import Dynamics

#: What `value_step` does with a row of Q: best action, mean over the actions, worst action.
MAXIMUM, MEAN, MINIMUM = 0, 1, 2
#: States that one thread takes at a time.
CHUNK = 512

Row: TypeAlias = NDArray[np.float64]  # one number for each column, or for each action
Rows: TypeAlias = NDArray[np.float64]  # (A, columns)
Flags: TypeAlias = NDArray[np.bool_]  # (A,)
Pair: TypeAlias = tuple[float, float]  # lo(s) and hi(s)
Values: TypeAlias = NDArray[np.float64]  # (S, slots, columns)


class Outcome(NamedTuple):
    """One outcome of an action."""

    follows: bool  # False where the episode ends
    next_state: np.uint64  # unsigned, so that numba need not check for an index from the end
    probability: float
    reward: float
    discount: float


#: combine(outcome, V_next, slot, bounds, X, a) puts one outcome into X[a]; V_next[next_state, slot] are the values after it.
Combine: TypeAlias = Callable[[Outcome, Values, int, Pair, Rows, int], None]


class Step(NamedTuple):
    """What one backward step needs to know."""

    stickiness: float  # ρ; 0 at the first time step, where there is no previous action
    is_last: bool  # does the episode end after this step?
    roundoff: float  # relative rounding error of the values that are compared at this step
    height_error: float  # absolute errors of heights and of shortfalls; 0 where lo and hi are exact
    shortfall_error: float
    slacks: Rows  # (num_kept, n) G_k takes actions that are no more than this below the best of Q^k; 0: greedy ones


# The backup -----------------------------------------------------------------------------------------------------------


@numba.njit(inline="always")
def backup(
    dynamics: Dynamics,
    s: int | np.uint64,
    a: int,
    is_last: bool,
    V_next: Values,
    combine: Combine,
    bounds: Pair,
    X: Rows,
) -> None:
    """The Bellman backup: `combine` puts every outcome of action a in state s into X[a].

    X[a] holds the value to begin with. `bounds` are lo(s) and hi(s), which only `add_gain` needs.
    """
    slot = a if V_next.shape[1] > 1 else 0
    if dynamics.form.ndim == 2:  # a deterministic table
        n = dynamics.transitions[s, a]
        follows = n >= 0 and not is_last
        outcome = Outcome(follows, np.uint64(n), 1.0, dynamics.rewards[s, a], dynamics.discount)
        combine(outcome, V_next, slot, bounds, X, a)
        return
    row = np.int64(s) * dynamics.rewards.shape[1] + a
    for i in range(dynamics.indptr[row], dynamics.indptr[row + 1]):
        n = dynamics.next_states[i]
        follows = n >= 0 and not is_last
        probability, reward = dynamics.probabilities[i], dynamics.outcome_rewards[i]
        combine(Outcome(follows, np.uint64(n), probability, reward, dynamics.discount), V_next, slot, bounds, X, a)


@numba.njit(inline="always")
def add_expected(outcome: Outcome, V_next: Values, slot: int, bounds: Pair, X: Rows, a: int) -> None:
    """X[a] + γ p V(s'): the expected value. The expected reward is in X[a] already."""
    if outcome.follows:
        weight = outcome.discount * outcome.probability
        for j in range(X.shape[1]):
            X[a, j] += weight * V_next[outcome.next_state, slot, j]


@numba.njit(inline="always")
def add_first(outcome: Outcome, V_next: Values, slot: int, bounds: Pair, X: Rows, a: int) -> None:
    """`add_expected` for a single column."""
    if outcome.follows:
        X[a, 0] += outcome.discount * outcome.probability * V_next[outcome.next_state, slot, 0]


@numba.njit(inline="always")
def take_least(outcome: Outcome, V_next: Values, slot: int, bounds: Pair, X: Rows, a: int) -> None:
    """The least margin over the outcomes."""
    if outcome.follows:
        for i in range(X.shape[1]):
            X[a, i] = min(X[a, i], V_next[outcome.next_state, slot, i])


@numba.njit(inline="always")
def total_of(outcome: Outcome, bounds_next: Values, slot: int, column: int) -> float:
    """r + γ lo(s') or r + γ hi(s'), by the column."""
    rest = outcome.discount * bounds_next[outcome.next_state, slot, column] if outcome.follows else 0.0
    return outcome.reward + rest


@numba.njit(inline="always")
def widen_range(outcome: Outcome, bounds_next: Values, slot: int, bounds: Pair, X: Rows, a: int) -> None:
    """The least total r + γ lo(s') and the greatest total r + γ hi(s') over the outcomes."""
    X[a, LOW] = min(X[a, LOW], total_of(outcome, bounds_next, slot, LOW))
    X[a, HIGH] = max(X[a, HIGH], total_of(outcome, bounds_next, slot, HIGH))


@numba.njit(inline="always")
def add_gain(outcome: Outcome, bounds_next: Values, slot: int, bounds: Pair, X: Rows, a: int) -> None:
    """The reward as a height, E[r + γ lo(s')] - lo(s), and as a shortfall, hi(s) - E[r + γ hi(s')]. Neither is negative."""
    X[a, HEIGHT] += outcome.probability * (total_of(outcome, bounds_next, slot, LOW) - bounds[LOW])
    X[a, SHORTFALL] += outcome.probability * (bounds[HIGH] - total_of(outcome, bounds_next, slot, HIGH))


# A row of the backward pass -------------------------------------------------------------------------------------------


@numba.njit(inline="always")
def fill_gains(dynamics: Dynamics, s: int, is_last: bool, bounds_next: Values, gains: Rows) -> Pair:
    """(lo(s), hi(s)); gains (A, 4) ← the reward of each action in each of the four measures of `columns.py`."""
    bounds = (np.inf, -np.inf)
    for a in range(gains.shape[0]):
        gains[a, LOW], gains[a, HIGH] = np.inf, -np.inf
        backup(dynamics, s, a, is_last, bounds_next, widen_range, bounds, gains)
        bounds = (min(bounds[LOW], gains[a, LOW]), max(bounds[HIGH], gains[a, HIGH]))
    for a in range(gains.shape[0]):
        gains[a, HEIGHT], gains[a, SHORTFALL] = 0.0, 0.0
        backup(dynamics, s, a, is_last, bounds_next, add_gain, bounds, gains)
        gains[a, REWARD], gains[a, UNBOUNDED] = dynamics.rewards[s, a], np.inf
    return bounds


@numba.njit(inline="always")
def fill_row(
    dynamics: Dynamics,
    s: int,
    is_last: bool,
    measure: NDArray[np.int64],
    U_next: Values,
    D_next: Values,
    gains: Rows,
    X: Rows,
    XD: Rows,
) -> None:
    """X[a] ← every quantity of executing a in s; XD[a] ← the least margins after it."""
    for a in range(X.shape[0]):
        for j in range(X.shape[1]):
            X[a, j] = gains[a, measure[j]]
        for i in range(XD.shape[1]):
            XD[a, i] = np.inf
        if not is_last:  # nothing is added after the last step
            backup(dynamics, s, a, False, U_next, add_expected, (0.0, 0.0), X)
            backup(dynamics, s, a, False, D_next, take_least, (0.0, 0.0), XD)


@numba.njit(inline="always")
def mark_greedy(X: Rows, q: int, columns: Columns, step: Step, lead: Row, is_greedy: Flags) -> None:
    """lead[a] ← how far the best action of column q is above a; is_greedy[a] ← can rounding alone explain this difference?"""
    A, shortfall = X.shape[0], columns.shortfall
    highest, nearest = X[0, q], X[0, q + shortfall]
    for a in range(1, A):
        highest = max(highest, X[a, q])
        nearest = min(nearest, X[a, q + shortfall])
    # Rewards alone have no shortfall. Then optimal actions must be judged with the same precision as theirs
    sharper = step.roundoff * nearest + step.shortfall_error < step.roundoff * abs(highest) + step.height_error
    by_shortfall = columns.random_base and sharper
    error = step.shortfall_error if by_shortfall else step.height_error
    for a in range(A):
        mine = X[a, q + shortfall] if by_shortfall else X[a, q]
        best = nearest if by_shortfall else highest
        lead[a] = mine - best if by_shortfall else best - mine
        is_greedy[a] = lead[a] <= step.roundoff * (abs(mine) + abs(best)) + error


@numba.njit(inline="always")
def take_best(X: Rows, q: int, shortfall: int, target: int, W: Row) -> None:
    """W[target] ← the value of the best action of column q, as height and as shortfall."""
    W[target], W[target + shortfall] = X[0, q], X[0, q + shortfall]
    for a in range(1, X.shape[0]):
        W[target] = max(W[target], X[a, q])
        W[target + shortfall] = min(W[target + shortfall], X[a, q + shortfall])


@numba.njit(inline="always")
def reduce_row(
    X: Rows,
    XD: Rows,
    columns: Columns,
    step: Step,
    witness: float,
    is_optimal: Flags,
    is_greedy: Flags,
    lead: Row,
    W: Row,
    WD: Row,
    gaps: Row,
) -> None:
    """W, WD ← every quantity of the state; lowers gaps[i] to the gap of this row. `witness` is the number of this state."""
    A, shortfall, base, worst = X.shape[0], columns.shortfall, columns.base, columns.worst
    mark_greedy(X, columns.optimal, columns, step, lead, is_optimal)
    take_best(X, columns.optimal, shortfall, columns.optimal, W)
    W[base], W[base + shortfall], W[worst] = 0.0, 0.0, np.inf
    for a in range(A):
        W[worst] = min(W[worst], X[a, worst])
        W[base] += X[a, base] / A
        W[base + shortfall] += X[a, base + shortfall] / A
    for k in range(1, columns.num_k):  # Q-value iteration: the maximum of Q^k goes to the column of Q^{k+1}
        take_best(X, columns.q[k], shortfall, columns.q[k + 1], W)
    scale = 1.0 - step.stickiness  # Q-values of (s, p) differ by this share of what X differs by
    for i in range(WD.shape[0]):
        mark_greedy(X, columns.q[columns.first_k + i], columns, step, lead, is_greedy)
        WD[i] = np.inf
        for a in range(A):
            if is_greedy[a]:
                WD[i] = min(WD[i], XD[a, i] if is_optimal[a] else witness)
            else:
                gaps[i] = min(gaps[i], scale * lead[a])
                if not is_optimal[a]:
                    WD[i] = min(WD[i], scale * lead[a])
        for n in range(columns.greedy.shape[1]):
            take_worst_near_greedy(X, columns.greedy[i, n], is_greedy, lead, step.slacks[i, n] / scale, W)


@numba.njit(inline="always")
def take_worst_near_greedy(X: Rows, column: int, is_greedy: Flags, lead: Row, slack: float, W: Row) -> None:
    """W[column] ← the least value among the actions that are greedy or at most `slack` below the best."""
    W[column] = np.inf
    for a in range(X.shape[0]):
        if is_greedy[a] or lead[a] <= slack:
            W[column] = min(W[column], X[a, column])


@numba.njit(inline="always")
def write_slots(s: int, X: Rows, XD: Rows, columns: Columns, rho: float, W: Row, WD: Row, U: Values, D: Values) -> None:
    """Store V(s, p) = (1 - ρ) W(s) + ρ X[s, p] of every quantity and slot."""
    for p in range(U.shape[1]):
        for j in range(W.shape[0]):
            U[s, p, j] = W[j] if rho == 0.0 else (1.0 - rho) * W[j] + rho * X[p, columns.source[j]]
        for i in range(WD.shape[0]):
            D[s, p, i] = min(WD[i], XD[p, i]) if rho > 0.0 else WD[i]
        if not columns.random_base:
            U[s, p, columns.base] = 0.0


# Steps over many states -----------------------------------------------------------------------------------------------


@numba.njit(parallel=True, cache=True)
def backward_step(
    states: NDArray[np.int32],
    witnesses: NDArray[np.float64],
    dynamics: Dynamics,
    columns: Columns,
    step: Step,
    bounds_next: Values,
    U_next: Values,
    D_next: Values,
    bounds: Values,
    U: Values,
    D: Values,
) -> Row:
    """One backward step: fills bounds, U and D at `states` (n,) from those one step later; (num_kept,) the least gap of each Q^k.

    `witnesses` (n,) are the numbers of the states (`encode_witness`). See `Layer` for the shapes of the arrays.
    """
    A, J, num_kept = dynamics.rewards.shape[1], U.shape[2], D.shape[2]
    num_chunks = (len(states) + CHUNK - 1) // CHUNK
    gaps = np.full((num_chunks, num_kept), np.inf)
    for chunk in numba.prange(num_chunks):
        X, XD, gains = np.empty((A, J)), np.empty((A, num_kept)), np.empty((A, 4))
        W, WD, lead = np.empty(J), np.empty(num_kept), np.empty(A)
        is_optimal, is_greedy = np.empty(A, np.bool_), np.empty(A, np.bool_)
        for index in range(chunk * CHUNK, min(len(states), (chunk + 1) * CHUNK)):
            s = states[index]
            low, high = fill_gains(dynamics, s, step.is_last, bounds_next, gains)
            bounds[s, 0, LOW], bounds[s, 0, HIGH] = low, high
            fill_row(dynamics, s, step.is_last, columns.measure, U_next, D_next, gains, X, XD)
            reduce_row(X, XD, columns, step, witnesses[index], is_optimal, is_greedy, lead, W, WD, gaps[chunk])
            write_slots(s, X, XD, columns, step.stickiness, W, WD, U, D)
    least = np.full(num_kept, np.inf)
    for chunk in range(num_chunks):
        least = np.minimum(least, gaps[chunk])
    return least


@numba.njit(cache=True)
def look_at_row(dynamics: Dynamics, s: int, columns: Columns, step: Step, after: Layer, q: int) -> tuple[Row, Flags]:
    """(A,) the value of executing each action in s by column q, and (A,) bool which of them are best there."""
    A = dynamics.rewards.shape[1]
    X, XD, gains = np.empty((A, after.U.shape[2])), np.empty((A, after.D.shape[2])), np.empty((A, 4))
    lead, is_greedy = np.empty(A), np.empty(A, np.bool_)
    low, _ = fill_gains(dynamics, s, step.is_last, after.bounds, gains)
    fill_row(dynamics, s, step.is_last, columns.measure, after.U, after.D, gains, X, XD)
    mark_greedy(X, q, columns, step, lead, is_greedy)
    return low + X[:, q], is_greedy


@numba.njit(inline="always")
def fill_single(dynamics: Dynamics, s: int | np.uint64, A: int, is_last: bool, V_next: Values, x: Rows) -> None:
    """x (A, 1) ← r(s, a) + γ E V_next[s', a]: the backup of a single quantity in the units of the rewards."""
    for a in range(A):
        x[a, 0] = dynamics.rewards[s, a]
        if not is_last:
            backup(dynamics, s, a, False, V_next, add_first, (0.0, 0.0), x)


@numba.njit(parallel=True, cache=True)
def value_step(
    actions: tuple[int, ...],
    states: NDArray[np.int32],
    dynamics: Dynamics,
    rule: int,
    stickiness: float,
    is_last: bool,
    V_next: Values,
    V: Values,
) -> None:
    """One backward step of a single quantity: fills V (S, slots, 1) at `states` (n,) by the rule MAXIMUM, MEAN or MINIMUM.

    `actions` is the tuple of all actions. The compiler knows its length and unrolls the loops, which is a third faster.
    """
    A = len(actions)
    slots = V.shape[1]
    num_chunks = (len(states) + CHUNK - 1) // CHUNK
    for chunk in numba.prange(num_chunks):
        x = np.empty((A, 1))
        for index in range(chunk * CHUNK, min(len(states), (chunk + 1) * CHUNK)):
            s = np.uint64(states[index])  # unsigned: numba need not check for an index from the end
            fill_single(dynamics, s, A, is_last, V_next, x)
            value = np.inf if rule == MINIMUM else -np.inf if rule == MAXIMUM else 0.0
            for a in range(A):
                if rule == MAXIMUM:
                    value = x[a, 0] if x[a, 0] > value else value
                elif rule == MINIMUM:
                    value = x[a, 0] if x[a, 0] < value else value
                else:
                    value += x[a, 0] / A
            if slots == 1:
                V[s, 0, 0] = value
            else:
                for p in range(A):
                    V[s, p, 0] = (1.0 - stickiness) * value + stickiness * x[p, 0]


@numba.njit(cache=True)
def best_actions(
    states: NDArray[np.int32], dynamics: Dynamics, is_last: bool, V_next: Values, best: NDArray[np.int8]
) -> None:
    """best[s] ← the first action of greatest value in each of the `states` (n,); `best` is (S,)."""
    x = np.empty((dynamics.rewards.shape[1], 1))
    for s in states:
        fill_single(dynamics, s, len(x), is_last, V_next, x)
        best[s] = np.argmax(x[:, 0])
