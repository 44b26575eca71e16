"""The Bellman backup, and what the analysis does with a row of Q-values. Compiled with numba.

**One backup.** `backup` is the only loop over the outcomes of an action. Its argument `combine` says how outcomes are put
together. After it, a row is reduced over the actions: best action, mean, worst action, or worst action that is greedy.

**Sticky actions.** X[s, e] is the value of *executing* action e in state s: r(s, e) + γ E[V'(s', e)]. With sticky actions of
probability ρ the true state is (s, p), where p is the action that was executed last. Choosing a in (s, p) gives

    Q((s, p), a) = (1 - ρ) X[s, a] + ρ X[s, p].

The second term is the same for all a, so greedy actions and gaps do not depend on p. Let W(s) be the value of the row X[s]
under a policy. Then

    V(s, p) = (1 - ρ) W(s) + ρ X[s, p],

and a step costs O(S·A) although there are S·A true states. There is a *slot* for each p where actions are sticky, and a single
one where they are not (`columns.py`).

**Two halves of a step.** `fill` computes X for one action after the other. X of action a needs slot a of the step after alone, so
where actions are sticky, X of action a + 1 may be written over slot a. `reduce` then turns X into V where it lies. Where
actions are not sticky, `reduce` computes X for a few states at a time. Both work on *tiles* of states, which stay in the cache.
In memory all numbers of a state lie side by side (`columns.py`). In a tile one number of all its states does, so that one
instruction of the processor works on several states.

**Exact comparisons.** A value is carried twice: as a number with a known error (`values.py`), and as a fingerprint in a prime
field (`fingerprint.py`). Two actions are tied if their fingerprints are equal. If not, the numbers say which one is better. If
the numbers are too close to say it, the comparison is counted as *open*, and the pass is repeated with more digits.

**Margins.** D is the least margin by which Q^k puts its greedy actions above an action that is not optimal, over all states that
a policy greedy on Q^k can visit from here on. Where a greedy action is not optimal, D is the negative number that names this
state (`witness.py`). One minimum therefore finds the margin, the verdict and the evidence.

**Rules of numba for this file.** `fill` and `reduce` hold no lock of Python, so that threads can work on blocks of the states at
the same time. Loops take arrays, not tuples of arrays: numba counts references whenever it takes an array out of a tuple. The
cache on disk does not notice changes of other files: after a change of `values.py`, `fixed_point.py`, `fingerprint.py` or
`prefetch.py`, change this file as well, and after a change of this file also `reduction.py` and
`near_greedy_steps.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from sqirl.analysis.columns import Layer, Moved, Slots
from sqirl.analysis.dynamics import Dynamics, Weights
from sqirl.analysis.fingerprint import ONE, fingerprint_of_float, plus, times
from sqirl.analysis.fixed_point import add_scaled, set_float
from sqirl.analysis.prefetch import AHEAD, LINE, prefetch
from sqirl.analysis.values import Precision, Values, by_state, new_values

#: States that are worked on together. Not a multiple of a power of two, so that rows of a tile do not compete for the same lines
#: of the cache.
TILE = 104

Row: TypeAlias = NDArray[np.float64]  # one number for each column, or for each action
Prints: TypeAlias = NDArray[np.uint64]  # fingerprints
Flags: TypeAlias = NDArray[np.bool_]  # (A,)
Floats: TypeAlias = NDArray[np.float64]
States: TypeAlias = NDArray[np.int32]


class Step(NamedTuple):
    """What one backward step needs to know."""

    is_sticky: bool  # False at the first time step, where there is no previous action
    is_last: bool  # does the episode end after this step?
    is_filled: bool  # is X of all states computed already (`fill`)?
    precision: Precision
    first_witness: float  # the number of state 0 as a wrong decision at this time (`witness.py`)


class Actions(NamedTuple):
    """From `first` to before `last`."""

    first: int
    last: int


class Tile(NamedTuple):
    """X of a few states: row a · (number of columns) + j holds column j of action a."""

    V: Values  # (A · width, TILE)
    F: Prints  # (A · width, TILE)
    G: Floats  # (A · num_returns, TILE)
    D: Floats  # (A · num_kept, TILE)


# The backup -----------------------------------------------------------------------------------------------------------


class Factors(NamedTuple):
    """What a kind of numbers is multiplied by."""

    discount: Any  # γ: a float, a fingerprint or words
    probabilities: Any  # (nnz,), or (nnz, L + 1) words
    is_discounted: bool
    places: int  # bits after the point of fixed-point numbers
    scratch: Prints  # (2, L)


#: combine(into, at, after, n, follows, reward, place, *factors) puts one outcome into all columns of into[at]. `n` is the next
#: state, `follows` is False where the episode ends, `place` is that of the probability, and -1 where the outcome is certain.
Combine: TypeAlias = Callable[..., None]


def backup_of(combine: Combine) -> Callable[..., None]:
    """The Bellman backup: into[s] ← r(s, a) + γ E[after[s']] at all the states, in the numbers of `combine`.

    back_up(states, num_states, a, compact, hint, dynamics, factors, is_last, before, after, into): `before` is what a sum or a
    minimum over the outcomes starts from. The values of states[i] go to index i of `into` if `compact`, else to index states[i].
    `after` and `into` are (states, columns). With `hint`, all numbers of the next states, from `after` on, are brought into the
    cache early. Only the first `num_states` of the states are worked on; those after them are the next to come, for the hint.
    """

    @numba.njit(nogil=True)
    def back_up(states, num_states, a, compact, hint, dynamics, factors, is_last, before, after, into):
        transitions, rewards, indptr = dynamics.transitions, dynamics.rewards, dynamics.indptr
        next_states, outcome_rewards, A = dynamics.next_states, dynamics.outcome_rewards, dynamics.rewards.shape[1]
        discount, probabilities, is_discounted, places, scratch = factors
        start, stride = after.ctypes.data, after.strides[0]
        for i in range(num_states):
            s = np.uint64(states[i])
            at = np.uint64(i) if compact else s
            if dynamics.form.ndim == 2:  # a deterministic table
                if hint:
                    later = transitions[np.uint64(states[min(i + AHEAD, len(states) - 1)]), a]
                    for byte in range(0, stride, LINE):
                        prefetch(np.uint64(start + later * stride + byte))  # type: ignore[call-arg]
                    prefetch(np.uint64(start + later * stride + stride - 1))  # type: ignore[call-arg]
                n = transitions[s, a]
                combine(
                    into, at, after, np.uint64(n), n >= 0 and not is_last, rewards[s, a], -1, discount, probabilities,
                    is_discounted, places, scratch,
                )  # fmt: skip
            else:
                into[at] = before
                row = np.int64(s) * A + a
                for entry in range(indptr[row], indptr[row + 1]):
                    n = next_states[entry]
                    combine(
                        into, at, after, np.uint64(n), n >= 0 and not is_last, outcome_rewards[entry], entry, discount,
                        probabilities, is_discounted, places, scratch,
                    )  # fmt: skip

    return back_up


@numba.njit(inline="always")
def add_floats(into, at, after, n, follows, reward, place, discount, probabilities, is_discounted, places, scratch):
    for j in range(into.shape[1]):
        total = reward + discount * after[n, j] if follows else reward
        into[at, j] = total if place < 0 else into[at, j] + probabilities[place] * total


@numba.njit(inline="always")
def add_prints(into, at, after, n, follows, reward, place, discount, probabilities, is_discounted, places, scratch):
    of_reward = fingerprint_of_float(reward)
    for j in range(into.shape[1]):
        ahead = after[n, j] if follows else np.uint64(0)
        ahead = times(discount, ahead) if is_discounted else ahead
        total = plus(ahead, of_reward)
        into[at, j] = total if place < 0 else plus(into[at, j], times(probabilities[place], total))


@numba.njit(inline="always")
def add_words(into, at, after, n, follows, reward, place, discount, probabilities, is_discounted, places, scratch):
    for j in range(into.shape[1]):
        total = into[at, j] if place < 0 else scratch[1]
        set_float(total, reward, places)
        if follows:
            add_scaled(total, discount, after[n, j])
        if place >= 0:
            add_scaled(into[at, j], probabilities[place], total)


@numba.njit(inline="always")
def lower_margins(into, at, after, n, follows, reward, place, discount, probabilities, is_discounted, places, scratch):
    for j in range(into.shape[1]):
        least = after[n, j] if follows else np.inf
        into[at, j] = least if place < 0 else min(into[at, j], least)


back_up_floats, back_up_prints = backup_of(add_floats), backup_of(add_prints)
back_up_words, back_up_margins = backup_of(add_words), backup_of(lower_margins)


def back_up_values(
    states: States, num_states: int, a: int, compact: bool, hint: bool, dynamics: Dynamics, weights: Weights,
    is_last: bool, places: int, scratch: Prints, V: Values, X: Values,
) -> None:  # fmt: skip
    """The backup of values, in the kind of numbers that they are."""


@overload(back_up_values)
def _back_up_values(states, num_states, a, compact, hint, dynamics, weights, is_last, places, scratch, V, X):
    def floats(states, num_states, a, compact, hint, dynamics, weights, is_last, places, scratch, V, X):
        factors = Factors(weights.discount.value, weights.probabilities, True, 0, scratch)
        back_up_floats(states, num_states, a, compact, hint, dynamics, factors, is_last, 0.0, V, X)

    def words(states, num_states, a, compact, hint, dynamics, weights, is_last, places, scratch, V, X):
        factors = Factors(weights.discount.words, weights.words, True, places, scratch)
        back_up_words(states, num_states, a, compact, hint, dynamics, factors, is_last, 0, V, X)

    return words if V.dtype == numba.uint64 else floats


# The first half of a step: X ------------------------------------------------------------------------------------------


@numba.njit(nogil=True, cache=True)
def fill(
    states: States, actions: Actions, moved: Moved, dynamics: Dynamics, weights: Weights, is_last: bool, places: int,
    layer: Layer, source: Slots, target: Slots,
) -> None:  # fmt: skip
    """X of some actions in all the states, from the slabs `source` of the layer to its slabs `target`."""
    gamma = weights.discount
    scratch = np.empty((2, len(weights.one.words) - 1), np.uint64)
    floats = Factors(gamma.value, weights.probabilities, True, 0, scratch)
    prints = Factors(gamma.fingerprint, weights.fingerprints, gamma.fingerprint != ONE, 0, scratch)
    V, F, G, D = layer
    for a in range(actions.first, actions.last):
        for first in range(0, len(states), TILE):
            tile, num_states = states[first : first + TILE + AHEAD], min(TILE, len(states) - first)
            if moved.values:
                here, there = source.values[a], target.values[a]
                back_up_values(
                    tile, num_states, a, False, True, dynamics, weights, is_last, places, scratch, V[here], V[there]
                )
                back_up_floats(tile, num_states, a, False, False, dynamics, floats, is_last, 0.0, G[here], G[there])
            if moved.prints:
                here, there = source.prints[a], target.prints[a]
                back_up_prints(
                    tile,
                    num_states,
                    a,
                    False,
                    not moved.values,
                    dynamics,
                    prints,
                    is_last,
                    np.uint64(0),
                    F[here],
                    F[there],
                )
                back_up_margins(tile, num_states, a, False, False, dynamics, floats, is_last, np.inf, D[here], D[there])


@numba.njit(inline="always")
def new_tile(layer: Layer, A: int) -> Tile:
    """A tile that is not filled yet."""
    return Tile(
        new_values(layer.V, A * layer.V.shape[2], TILE),
        np.empty((A * layer.F.shape[2], TILE), np.uint64),
        np.empty((A * layer.G.shape[2], TILE)),
        np.empty((A * layer.D.shape[2], TILE)),
    )


@numba.njit(nogil=True)
def load(states: States, array: Any, slabs: NDArray[np.int64], tile: Any) -> None:
    """Copy the columns of all slots at the states into the tile."""
    width = array.shape[2]
    for p in range(len(slabs)):
        source, target = array[slabs[p]], by_state(tile, p, width)
        for i in range(len(states)):
            s = np.uint64(states[i])
            for j in range(width):
                target[i, j] = source[s, j]


@numba.njit(nogil=True)
def store(states: States, tile: Any, slabs: NDArray[np.int64], array: Any) -> None:
    """Copy the columns of all slots from the tile to where they lie."""
    width = array.shape[2]
    for p in range(len(slabs)):
        source, target = by_state(tile, p, width), array[slabs[p]]
        for i in range(len(states)):
            s = np.uint64(states[i])
            for j in range(width):
                target[s, j] = source[i, j]


@numba.njit(nogil=True)
def fill_tile(
    states: States, num_states: int, dynamics: Dynamics, weights: Weights, step: Step, layer: Layer, before: Slots, slots: Slots,
    tile: Tile,
) -> None:  # fmt: skip
    """X of the first states into the tile: from `slots` if it is there already, else it is computed from the slots `before`."""
    V, F, G, D = layer
    if step.is_filled:
        load(states[:num_states], V, slots.values, tile.V)
        load(states[:num_states], F, slots.prints, tile.F)
        load(states[:num_states], G, slots.values, tile.G)
        load(states[:num_states], D, slots.prints, tile.D)
        return
    gamma, is_last = weights.discount, step.is_last
    scratch = np.empty((2, len(weights.one.words) - 1), np.uint64)
    floats = Factors(gamma.value, weights.probabilities, True, 0, scratch)
    prints = Factors(gamma.fingerprint, weights.fingerprints, gamma.fingerprint != ONE, 0, scratch)
    XV, XF, XG, XD = tile
    for a in range(dynamics.rewards.shape[1]):
        slot = a if len(before.values) > 1 else 0
        ours, theirs = before.values[slot], before.prints[slot]
        back_up_values(
            states, num_states, a, True, True, dynamics, weights, is_last, step.precision.places, scratch, V[ours],
            by_state(XV, a, V.shape[2]),
        )  # fmt: skip
        back_up_floats(
            states, num_states, a, True, False, dynamics, floats, is_last, 0.0, G[ours], by_state(XG, a, G.shape[2])
        )
        back_up_prints(
            states,
            num_states,
            a,
            True,
            False,
            dynamics,
            prints,
            is_last,
            np.uint64(0),
            F[theirs],
            by_state(XF, a, F.shape[2]),
        )
        back_up_margins(
            states,
            num_states,
            a,
            True,
            False,
            dynamics,
            floats,
            is_last,
            np.inf,
            D[theirs],
            by_state(XD, a, D.shape[2]),
        )
