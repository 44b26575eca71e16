"""The second half of a backward step: rows of X are reduced over the actions, and become V. Compiled with numba.

`backup.py` says what X, V and the margins are, and why comparisons are exact.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import TILE, Flags, Floats, Prints, Row, States, Step, Tile, fill_tile, new_tile, store
from sqirl.analysis.columns import BASE, OPTIMAL, Columns, Layer, Slots
from sqirl.analysis.dynamics import Dynamics, Weights
from sqirl.analysis.fingerprint import plus, times
from sqirl.analysis.prefetch import AHEAD
from sqirl.analysis.values import Values, Weight, as_float, mark_column, mix, new_values, shrink, take_mean
from sqirl.mdp.tabular import TabularMDP

Marks: TypeAlias = NDArray[np.uint8]  # (n, bytes) the optimal actions of n states, one bit for each action


def bytes_of_marks(num_actions: int) -> int:
    """The bytes of one state."""
    return (num_actions + 7) // 8


def new_marks(mdp: TabularMDP) -> Marks:
    """Of all states; none is marked."""
    return np.zeros((mdp.num_states, bytes_of_marks(mdp.num_actions)), np.uint8)


class Kept(NamedTuple):
    """Which Q^k have their gaps, margins and returns kept, as compiled code takes it."""

    num_k: int
    first_k: int
    num_returns: int  # columns of G
    with_worst: bool  # is the last of them the worst policy's?


@numba.njit(nogil=True)
def mark(states: States, is_optimal: Flags, marks: Marks) -> None:
    """marks[s] ← one bit for each action that is optimal in the states, the first action in the lowest bit of the first byte."""
    for i in range(len(states)):
        marks[states[i]] = 0
        for a in range(len(is_optimal)):
            marks[states[i], a >> 3] |= np.uint8(is_optimal[a, i]) << np.uint8(a & 7)


@numba.njit(nogil=True)
def keep(
    states: States, G: Floats, D: Floats, kept: int, num_returns: int, num_kept: int, scale: float, first_witness: float,
    is_optimal: Flags, is_greedy: Flags, lead: Floats, WG: Floats, WD: Floats, gap: Row,
) -> float:  # fmt: skip
    """The least margin and the return of the worst policy of one Q^k in each of the states; its least gap among them."""
    m, least_gap = len(states), np.inf
    for i in range(m):
        WD[kept, i], gap[i] = np.inf, np.inf
    for a in range(len(lead)):
        row = a * num_kept + kept
        for i in range(m):
            above = scale * lead[a, i]
            of_greedy = D[row, i] if is_optimal[a, i] else first_witness - states[i]
            of_other = np.inf if is_optimal[a, i] else above
            margin = of_greedy if is_greedy[a, i] else of_other
            WD[kept, i] = margin if margin < WD[kept, i] else WD[kept, i]
            distance = np.inf if is_greedy[a, i] else above
            gap[i] = distance if distance < gap[i] else gap[i]
    for i in range(m):
        least_gap = min(least_gap, gap[i])
    if num_returns:
        for i in range(m):
            WG[kept, i] = np.inf
        for a in range(len(lead)):
            row = a * num_returns + kept
            for i in range(m):
                value = G[row, i] if is_greedy[a, i] else np.inf
                WG[kept, i] = value if value < WG[kept, i] else WG[kept, i]
    return least_gap


@numba.njit(nogil=True)
def take_base(
    V: Values, F: Prints, m: int, A: int, width: int, share: Weight, W: Values, WF: Prints, scratch: Prints
) -> None:
    """The mean over the actions of Q^1."""
    take_mean(W, V, BASE, width, A, m, share, scratch)
    for i in range(m):
        total = np.uint64(0)
        for a in range(A):
            total = plus(total, F[a * width + BASE, i])
        WF[i] = times(share.fingerprint, total)


@numba.njit(nogil=True)
def mix_values(
    m: int, num_slots: int, V: Values, F: Prints, is_sticky: bool, choose: Weight, repeat: Weight,
    W: Values, WF: Prints, scratch: Prints,
) -> None:  # fmt: skip
    """X in the tile becomes V(s, p) = (1 - ρ) W(s) + ρ X[s, p] for every slot."""
    width = len(W) - 1
    for j in range(
        width - 1, -1, -1
    ):  # downwards, because column j is made from column j - 1 of X, which it must not overwrite
        source_j = j - 1 if j > BASE else j
        if is_sticky:
            shrink(W[j], m, choose, scratch)
            for i in range(m):
                WF[j, i] = times(choose.fingerprint, WF[j, i])
        for p in range(num_slots):
            row, source = p * width + j, p * width + source_j
            if is_sticky:
                mix(V, row, W[j], repeat, source, m, scratch)
                for i in range(m):
                    F[row, i] = plus(WF[j, i], times(repeat.fingerprint, F[source, i]))
            else:
                for i in range(m):
                    V[row, i], F[row, i] = W[j, i], WF[j, i]


@numba.njit(nogil=True)
def mix_returns(
    m: int, num_slots: int, G: Floats, D: Floats, is_sticky: bool, choose: float, repeat: float, WG: Floats, WD: Floats
) -> None:
    """The same for returns; a margin is the least of what is chosen and what is repeated."""
    for p in range(num_slots):
        for j in range(len(WG)):
            row = p * len(WG) + j
            for i in range(m):
                mixed = choose * WG[j, i] + repeat * G[row, i]
                G[row, i] = mixed if is_sticky else WG[j, i]
        for j in range(len(WD)):
            row = p * len(WD) + j
            for i in range(m):
                repeated = D[row, i] if is_sticky else np.inf
                D[row, i] = repeated if repeated < WD[j, i] else WD[j, i]


@numba.njit(nogil=True)
def reduce_tile(
    states: States, tile: Tile, num_slots: int, kept: Kept, weights: Weights, step: Step,
    marks: Marks, gaps: Row,
) -> int:  # fmt: skip
    """From X to V in the tile; lowers the gaps. The number of comparisons that are open."""
    # Arrays are taken out of their tuples here, because numba counts references whenever one is taken out
    V, F, G, D = tile
    choose, repeat, precision, is_sticky = weights.choose, weights.repeat, step.precision, step.is_sticky
    num_k, first_k, num_returns, with_worst = kept
    width, num_kept, m = num_k + 1, num_k - first_k + 1, len(states)
    A = len(V) // width
    W, WF = new_values(V, width + 1, TILE), np.empty((width + 1, TILE), np.uint64)
    WG, WD, gap = np.empty((num_returns, TILE)), np.empty((num_kept, TILE)), np.empty(TILE)
    lead, is_optimal, is_greedy = np.empty((A, TILE)), np.empty((A, TILE), np.bool_), np.empty((A, TILE), np.bool_)
    scratch = np.empty((2, len(weights.one.words) - 1), np.uint64)
    scale = choose.value if is_sticky else 1.0  # Q-values of (s, p) differ by this share of what X differs by
    num_open = mark_column(V, F, OPTIMAL, width, m, precision, lead, is_optimal, W[OPTIMAL], WF[OPTIMAL])
    if len(marks):
        mark(states, is_optimal, marks)
    for k in range(1, num_k + 1):
        # Q-value iteration: the maximum of Q^k goes to the column of Q^{k+1}; that of the last k is not needed
        num_open += mark_column(V, F, k, width, m, precision, lead, is_greedy, W[k + 1], WF[k + 1])
        if k >= first_k:
            least = keep(
                states, G, D, k - first_k, num_returns, num_kept, scale, step.first_witness, is_optimal, is_greedy,
                lead, WG, WD, gap,
            )  # fmt: skip
            gaps[k - first_k] = min(gaps[k - first_k], least)
    take_base(V, F, m, A, width, weights.share, W[BASE], WF[BASE], scratch)
    if with_worst:
        for i in range(m):
            WG[num_returns - 1, i] = G[num_returns - 1, i]
        for a in range(1, A):
            for i in range(m):
                value = G[(a + 1) * num_returns - 1, i]
                WG[num_returns - 1, i] = value if value < WG[num_returns - 1, i] else WG[num_returns - 1, i]
    mix_values(m, num_slots, V, F, is_sticky, choose, repeat, W, WF, scratch)
    mix_returns(m, num_slots, G, D, is_sticky, choose.value, repeat.value, WG, WD)
    return num_open


@numba.njit(nogil=True, cache=True)
def reduce(
    states: States,
    dynamics: Dynamics,
    weights: Weights,
    columns: Columns,
    step: Step,
    layer: Layer,
    before: Slots,
    slots: Slots,
    marks: Marks,
) -> tuple[Row, int]:
    """The second half of a step: fills the slabs `slots` of the layer at `states` (n,).

    (num_kept,) the least gap of each Q^k, and the number of comparisons that are open. X lies in `slots` if `step.is_filled`;
    else it is computed from the slots `before`. marks[s] ← the optimal actions, if the array is not empty.
    """
    tile = new_tile(layer, dynamics.rewards.shape[1])
    num_returns, num_kept, num_slots = layer.G.shape[2], layer.D.shape[2], len(slots.values)
    kept = Kept(columns.num_k, columns.first_k, num_returns, num_returns > num_kept)
    gaps, num_open = np.full(num_kept, np.inf), 0
    for first in range(0, len(states), TILE):
        block = states[first : first + TILE]
        fill_tile(states[first : first + TILE + AHEAD], len(block), dynamics, weights, step, layer, before, slots, tile)
        num_open += reduce_tile(block, tile, num_slots, kept, weights, step, marks, gaps)
        store(block, tile.V, slots.values, layer.V)
        store(block, tile.F, slots.prints, layer.F)
        store(block, tile.G, slots.values, layer.G)
        store(block, tile.D, slots.prints, layer.D)
    return gaps, num_open


@numba.njit(cache=True)
def look_at_row(
    s: int, dynamics: Dynamics, weights: Weights, step: Step, layer: Layer, slots: Slots, q: int
) -> tuple[Row, Flags, int]:
    """(A,) the value of executing each action in s by column q, (A,) which of them are best, and how many are open."""
    A, width = dynamics.rewards.shape[1], layer.V.shape[2]
    tile = new_tile(layer, A)
    lead, is_greedy = np.empty((A, 1)), np.empty((A, 1), np.bool_)
    fill_tile(np.array([s], np.int32), 1, dynamics, weights, step, layer, slots, slots, tile)
    W, WF = new_values(tile.V, 1, 1), np.empty(1, np.uint64)
    num_open = mark_column(tile.V, tile.F, q, width, 1, step.precision, lead, is_greedy, W[0], WF)
    values = np.array([as_float(tile.V, a * width + q, 0, step.precision.unit) for a in range(A)])
    return values, is_greedy[:, 0].copy(), num_open


@numba.njit(cache=True)
def values_at(V: Values, states: States, unit: float) -> Floats:
    """(n, width) the values (S, width) of a slot at `states` (n,) as floats."""
    found = np.empty((len(states), V.shape[1]))
    for i in range(len(states)):
        for j in range(V.shape[1]):
            found[i, j] = as_float(V, states[i], j, unit)
    return found
