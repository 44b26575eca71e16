"""Backward steps in floats alone, for quantities that no tie decides. Compiled with numba.

V[p, s] has the slots of `backup.py`: one for each previous action where actions are sticky. A parallel loop takes the arrays
that it fills as separate arguments: it loses writes to an array inside a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.dynamics import Dynamics

#: What `value_step` does with a row of Q: best action, mean over the actions, worst action.
MAXIMUM, MEAN, MINIMUM = 0, 1, 2
#: States that one thread takes at a time.
CHUNK = 512

Floats: TypeAlias = NDArray[np.float64]
States: TypeAlias = NDArray[np.int32]


class Outcome(NamedTuple):
    """One outcome of an action."""

    follows: bool  # False where the episode ends
    next_state: np.uint64  # unsigned, so that numba need not check for an index from the end
    place: int  # of its probability in the CSR arrays; -1 where it is certain
    reward: float


#: combine(outcome, weights, after, how, into, at) puts one outcome into into[at]; `after` holds the values one step later.
Combine: TypeAlias = Callable[[Outcome, Any, Any, Any, Any, Any], None]


@numba.njit(inline="always")
def backup(
    dynamics: Dynamics,
    weights: Any,
    s: int | np.uint64,
    a: int,
    is_last: bool,
    after: Any,
    how: Any,
    combine: Combine,
    into: Any,
    at: Any,
) -> None:
    """The Bellman backup: `combine` puts every outcome of action a in state s into into[at], which holds a value before."""
    if dynamics.form.ndim == 2:  # a deterministic table
        n = dynamics.transitions[s, a]
        combine(
            Outcome(n >= 0 and not is_last, np.uint64(n), -1, dynamics.rewards[s, a]), weights, after, how, into, at
        )
        return
    row = np.int64(s) * dynamics.rewards.shape[1] + a
    for i in range(dynamics.indptr[row], dynamics.indptr[row + 1]):
        n = dynamics.next_states[i]
        outcome = Outcome(n >= 0 and not is_last, np.uint64(n), i, dynamics.outcome_rewards[i])
        combine(outcome, weights, after, how, into, at)


@numba.njit(inline="always")
def probability_of(outcome: Outcome, dynamics: Dynamics) -> float:
    return 1.0 if outcome.place < 0 else dynamics.probabilities[outcome.place]


@numba.njit(inline="always")
def add_first(outcome: Outcome, dynamics: Dynamics, V_next: Floats, slot: int, x: Floats, a: int) -> None:
    """x[a] + γ p V(s'): the expected value of a single quantity. The expected reward is in x[a] already."""
    if outcome.follows:
        x[a] += dynamics.discount * probability_of(outcome, dynamics) * V_next[slot, outcome.next_state]


@numba.njit(inline="always")
def widen_range(outcome: Outcome, dynamics: Dynamics, after: Floats, slot: int, bounds: Floats, a: int) -> None:
    """The least and the greatest total reward over all outcomes, in columns 0 and 1 of `after` (S, 2) and of `bounds` (1, 2)."""
    n, follows = outcome.next_state, outcome.follows
    bounds[0, 0] = min(bounds[0, 0], outcome.reward + (dynamics.discount * after[n, 0] if follows else 0.0))
    bounds[0, 1] = max(bounds[0, 1], outcome.reward + (dynamics.discount * after[n, 1] if follows else 0.0))


@numba.njit(inline="always")
def fill_single(dynamics: Dynamics, s: int | np.uint64, A: int, is_last: bool, V_next: Floats, x: Floats) -> None:
    """x (A,) ← r(s, a) + γ E V_next[a, s']: the backup of a single quantity."""
    for a in range(A):
        x[a] = dynamics.rewards[s, a]
        if not is_last:
            backup(dynamics, dynamics, s, a, False, V_next, a if V_next.shape[0] > 1 else 0, add_first, x, a)


@numba.njit(parallel=True, cache=True)
def value_step(
    actions: tuple[int, ...],
    states: States,
    dynamics: Dynamics,
    rule: int,
    stickiness: float,
    is_last: bool,
    V_next: Floats,
    V: Floats,
) -> None:
    """One backward step of a single quantity: fills V (slots, S) at `states` (n,) by the rule MAXIMUM, MEAN or MINIMUM.

    `actions` is the tuple of all actions. The compiler knows its length and unrolls the loops, which is a third faster.
    """
    A = len(actions)
    slots = V.shape[0]
    num_chunks = (len(states) + CHUNK - 1) // CHUNK
    for chunk in numba.prange(num_chunks):
        x = np.empty(A)
        for index in range(chunk * CHUNK, min(len(states), (chunk + 1) * CHUNK)):
            s = np.uint64(states[index])  # unsigned: numba need not check for an index from the end
            fill_single(dynamics, s, A, is_last, V_next, x)
            value = np.inf if rule == MINIMUM else -np.inf if rule == MAXIMUM else 0.0
            for a in range(A):
                if rule == MAXIMUM:
                    value = x[a] if x[a] > value else value
                elif rule == MINIMUM:
                    value = x[a] if x[a] < value else value
                else:
                    value += x[a] / A
            if slots == 1:
                V[0, s] = value
            else:
                for p in range(A):
                    V[p, s] = (1.0 - stickiness) * value + stickiness * x[p]


@numba.njit(nogil=True, cache=True)
def range_step(states: States, dynamics: Dynamics, is_last: bool, after: Floats, bounds: Floats) -> None:
    """bounds[s] (2,) ← the least and the greatest total reward from s on, over all actions and random outcomes."""
    found = np.empty((1, 2))
    for s in states:
        found[0, 0], found[0, 1] = np.inf, -np.inf
        for a in range(dynamics.rewards.shape[1]):
            backup(dynamics, dynamics, s, a, is_last, after, 0, widen_range, found, a)
        bounds[s, 0], bounds[s, 1] = found[0, 0], found[0, 1]
