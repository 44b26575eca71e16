"""The steps of the passes in `near_greedy.py`. Compiled with numba.

A tile holds what belongs to one state side by side, unlike those of `reduction.py`: a loop over the columns of a state is one
instruction of the processor for several of them. The cache on disk does not notice changes of `backup.py` (see there).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import Factors, Floats, States, back_up_floats
from sqirl.analysis.dynamics import Dynamics
from sqirl.analysis.prefetch import AHEAD

#: A code is made of the exponent and the first bits of the fraction of a float64: it is one more for each 2^-10 of the value.
FRACTION_BITS = 10
_SHIFT = 52 - FRACTION_BITS
#: Leads below this are not told apart from 0: their code is 0.
LEAST_LEAD = 2.0**-50
_BEFORE_LEAST = (int(np.array(LEAST_LEAD).view(np.int64)) >> _SHIFT) - 1
#: The code of a lead of 1, the whole range of returns. No lead is larger.
LAST_CODE = (int(np.array(1.0).view(np.int64)) >> _SHIFT) - _BEFORE_LEAST

#: States that are worked on together.
SMALL_TILE = 64

Codes = NDArray[np.uint16]  # (n, A, kept) of the leads over each action in n states, for some Q^k
Slabs = NDArray[np.int64]  # (slots,) the slab of each slot (`columns.py`)


class RowStep(NamedTuple):
    """What a step of both passes needs to know."""

    is_last: bool  # does the episode end after this step?
    is_filled: bool  # is the value of executing each action computed already (`backup.fill`)?
    choose: float  # 1 - ρ; 1 where there is no previous action
    repeat: float  # ρ
    factors: Factors


class LeadStep(NamedTuple):
    """What a step of the pass over Q^1..Q^width needs to know besides."""

    width: int
    first_kept: int  # codes are kept of Q^k from this one on, counted from 0
    relative: float  # errors, as in `Precision`
    absolute: float
    scale: float  # from leads in the units of X to shares of the range of returns


def lead_of(code: int) -> float:
    """The least lead with this code, which must not be 0."""
    return float(np.array((code + _BEFORE_LEAST) << _SHIFT, np.int64).view(np.float64))


def code_of(lead: float) -> int:
    """The code of a lead from 0 to 1."""
    return max((int(np.array(lead).view(np.int64)) >> _SHIFT) - _BEFORE_LEAST, 0)


@numba.njit(nogil=True)
def take_rows(
    states: States, n: int, dynamics: Dynamics, step: RowStep, V: Any, before: Slabs, slots: Slabs, X: Any
) -> None:
    """X (A, n, width) ← the values of executing each action in the first n states, from the slabs `before` of V.

    V is (slabs, S, columns). They lie in the slabs `slots` already if `step.is_filled`.
    """
    for a in range(len(X)):
        if step.is_filled:
            source, target = V[slots[a]], X[a]
            for i in range(n):
                s = np.uint64(states[i])
                for j in range(X.shape[2]):
                    target[i, j] = source[s, j]
        else:
            source = V[before[a if len(before) > 1 else 0]]
            back_up_floats(states, n, a, True, True, dynamics, step.factors, step.is_last, 0.0, source, X[a])


@numba.njit(nogil=True)
def mix_rows(tile: States, step: RowStep, W: Floats, X: Any, slots: Slabs, column: int, Y: Floats, V: Any) -> None:
    """V(s, p) = (1 - ρ) W(s) + ρ X[s, p] for every slot, from (columns of n states,) W and (A, columns of n states) X.

    They go to the columns of V (slabs, S, columns) from `column` on. Y is (n, columns) of space.
    """
    choose, repeat, num_columns, mixed = step.choose, step.repeat, min(Y.shape[1], V.shape[2] - column), Y.ravel()
    for p in range(len(slots)):
        repeated, target = X[p], V[slots[p]]
        for q in range(len(mixed)):
            mixed[q] = choose * W[q] + repeat * repeated[q]
        for i in range(len(tile)):
            s = np.uint64(tile[i])
            for j in range(num_columns):
                target[s, column + j] = Y[i, j]


@numba.njit(nogil=True, cache=True)
def lead_step(
    first: int, last: int, states: States, dynamics: Dynamics, step: RowStep, kept: LeadStep, V: Any, before: Slabs,
    slots: Slabs, codes: Codes,
) -> None:  # fmt: skip
    """One step back of Q^1..Q^width at the states from the place `first` to before `last`, and the codes of their leads.

    Column k - 1 of V holds the maximum of Q^{k-1} (k = 1: the random policy's value). codes[i, a, k] ← that of the distance by
    which Q^k puts the best action of the i-th state above action a, less the rounding error of this distance.
    """
    A, width, num_codes, first_kept = dynamics.rewards.shape[1], kept.width, codes.shape[2], kept.first_kept
    relative, absolute, scale = kept.relative, kept.absolute, kept.scale
    X, Y = np.empty((A, SMALL_TILE, width)), np.empty((SMALL_TILE, width))
    rows, best, lead = X.reshape(A, -1), np.empty(SMALL_TILE * width), np.empty(SMALL_TILE * width)
    found = np.empty((SMALL_TILE, width), np.uint16)
    code, bits = found.ravel(), lead.view(np.int64)
    for start in range(first, last, SMALL_TILE):
        tile = states[start : min(start + SMALL_TILE, last)]
        take_rows(states[start : start + SMALL_TILE + AHEAD], len(tile), dynamics, step, V, before, slots, X)
        best[:] = rows[0]
        for a in range(1, A):
            row = rows[a]
            for q in range(len(best)):
                best[q] = row[q] if row[q] > best[q] else best[q]
        for a in range(A):
            row = rows[a]
            for q in range(len(best)):
                lead[q] = scale * (best[q] - row[q] - (relative * (abs(best[q]) + abs(row[q])) + absolute))
            for q in range(len(best)):
                code[q] = min(max((bits[q] >> _SHIFT) - _BEFORE_LEAST, 0), LAST_CODE)
            for i in range(len(tile)):
                for j in range(num_codes):
                    codes[start + i, a, j] = found[i, first_kept + j]
        mix_rows(tile, step, best, rows, slots, 1, Y, V)
        store_means(tile, step, X, slots, V)


@numba.njit(nogil=True)
def store_means(tile: States, step: RowStep, X: Any, slots: Slabs, V: Any) -> None:
    """The value of the random policy, which is the mean of Q^1 over the actions, goes to column 0 of V."""
    for i in range(len(tile)):
        s, mean = np.uint64(tile[i]), 0.0
        for a in range(len(X)):
            mean += X[a, i, 0] / len(X)
        for p in range(len(slots)):
            V[slots[p], s, 0] = step.choose * mean + step.repeat * X[p, i, 0]


@numba.njit(nogil=True, cache=True)
def worst_step(
    first: int, last: int, states: States, dynamics: Dynamics, step: RowStep, V: Any, before: Slabs, slots: Slabs,
    places: NDArray[np.int64], limits: NDArray[np.int32], codes: Codes,
) -> None:  # fmt: skip
    """One step back of the returns of the worst policies at the states from the place `first` to before `last`.

    Column j of V is that of policies which take actions a with codes[i, a, places[j]] ≤ limits[j].
    """
    A, width = dynamics.rewards.shape[1], len(limits)
    X, Y, worst = np.empty((A, SMALL_TILE, width)), np.empty((SMALL_TILE, width)), np.empty(SMALL_TILE * width)
    rows, code = X.reshape(A, -1), np.empty((SMALL_TILE, width), np.int32)
    flat_code, flat_limits = code.ravel(), np.empty(SMALL_TILE * width, np.int32)
    for q in range(len(worst)):
        flat_limits[q] = limits[q % width]
    for start in range(first, last, SMALL_TILE):
        tile = states[start : min(start + SMALL_TILE, last)]
        take_rows(states[start : start + SMALL_TILE + AHEAD], len(tile), dynamics, step, V, before, slots, X)
        worst[:] = np.inf
        for a in range(A):
            row = rows[a]
            for i in range(len(tile)):
                for j in range(width):
                    code[i, j] = codes[start + i, a, places[j]]
            for q in range(len(worst)):
                value = row[q] if flat_code[q] <= flat_limits[q] else np.inf
                worst[q] = value if value < worst[q] else worst[q]
        mix_rows(tile, step, worst, rows, slots, 0, Y, V)
