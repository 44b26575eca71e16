"""Values in two kinds of numbers: float64, and fixed-point numbers for what floats cannot decide.

The kind of a value array is in its last axes: (rows, n) of float64, or (rows, n, L) of uint64 words (`fixed_point.py`). A row
of a tile holds one quantity of n states. Each function here has one implementation for each kind, and the compiler picks it by
the type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from sqirl.analysis.fixed_point import Words, add, add_scaled, copy, distance, is_less, to_float

Values = NDArray[Any]  # (rows, n) float64 or (rows, n, L) uint64
Prints = NDArray[np.uint64]  # fingerprints
Scratch = NDArray[np.uint64]  # (2, L)


class Weight(NamedTuple):
    """A rational number from 0 to 1 in all forms."""

    value: float
    fingerprint: np.uint64
    words: Words  # (L + 1,); of no meaning where values are floats


class Precision(NamedTuple):
    """How far a computed value can be from the exact one."""

    relative: float  # as a share of the value
    absolute: float  # in the units of the rewards
    sharpness: float  # a difference must be this many times its error, or the pass is repeated with more digits
    places: int  # bits after the point of fixed-point numbers
    unit: float  # 2 to the power of minus that


def _is_float(array: Any) -> bool:
    return bool(array.dtype == types.float64)


def mark_column(
    V: Values, F: Prints, q: int, width: int, m: int, precision: Precision, lead: NDArray[np.float64],
    is_greedy: NDArray[np.bool_], W: Values, WF: Prints,
) -> int:  # fmt: skip
    """The best action of column q in each of the m states of a tile: its value and fingerprint go to W and WF.

    lead[a, i] ← how far it is above action a; is_greedy[a, i] ← are they equal? The row of action a is a · width + q. The result
    is the number of actions of which the numbers cannot say how far they are from the best.
    """
    raise NotImplementedError


@overload(mark_column)
def _mark_column(V, F, q, width, m, precision, lead, is_greedy, W, WF):  # type: ignore[no-untyped-def]
    def floats(V, F, q, width, m, precision, lead, is_greedy, W, WF):  # type: ignore[no-untyped-def]
        relative, absolute, sharpness, num_open = precision.relative, precision.absolute, precision.sharpness, 0
        for i in range(m):
            W[i], WF[i] = V[q, i], F[q, i]
        for a in range(1, len(lead)):
            row = a * width + q
            for i in range(m):
                is_better = V[row, i] > W[i]
                W[i] = V[row, i] if is_better else W[i]
                WF[i] = F[row, i] if is_better else WF[i]
        for a in range(len(lead)):
            row = a * width + q
            for i in range(m):
                is_tied, above = F[row, i] == WF[i], W[i] - V[row, i]
                error = relative * (abs(W[i]) + abs(V[row, i])) + absolute
                num_open += int(not is_tied and above <= sharpness * error)
                lead[a, i] = 0.0 if is_tied else above
                is_greedy[a, i] = is_tied
        return num_open

    def words(V, F, q, width, m, precision, lead, is_greedy, W, WF):  # type: ignore[no-untyped-def]
        num_open = 0
        for i in range(m):
            best = q
            for a in range(1, len(lead)):
                best = a * width + q if is_less(V[best, i], V[a * width + q, i]) else best
            copy(W[i], V[best, i])
            WF[i] = F[best, i]
            for a in range(len(lead)):
                row = a * width + q
                is_greedy[a, i], lead[a, i] = F[row, i] == WF[i], 0.0
                if not is_greedy[a, i]:
                    lead[a, i] = distance(V[best, i], V[row, i], precision.unit)
                    num_open += lead[a, i] <= precision.sharpness * precision.absolute
        return num_open

    return floats if _is_float(V) else words


def take_mean(W: Values, V: Values, j: int, width: int, A: int, m: int, share: Weight, scratch: Scratch) -> None:
    """W[i] = the mean of column j over the actions in each of the m states; `share` is 1/A."""


@overload(take_mean)
def _take_mean(W, V, j, width, A, m, share, scratch):  # type: ignore[no-untyped-def]
    def floats(W, V, j, width, A, m, share, scratch):  # type: ignore[no-untyped-def]
        W[:m] = 0.0
        for a in range(A):
            for i in range(m):
                W[i] += V[a * width + j, i] / A

    def words(W, V, j, width, A, m, share, scratch):  # type: ignore[no-untyped-def]
        total = scratch[0]
        for i in range(m):
            total[:] = 0
            for a in range(A):
                add(total, V[a * width + j, i])
            W[i, :] = 0
            add_scaled(W[i], share.words, total)

    return floats if _is_float(V) else words


def shrink(W: Values, m: int, choose: Weight, scratch: Scratch) -> None:
    """W[i] = (1 - ρ) W[i] in each of the m states."""


@overload(shrink)
def _shrink(W, m, choose, scratch):  # type: ignore[no-untyped-def]
    def floats(W, m, choose, scratch):  # type: ignore[no-untyped-def]
        for i in range(m):
            W[i] *= choose.value

    def words(W, m, choose, scratch):  # type: ignore[no-untyped-def]
        for i in range(m):
            copy(scratch[0], W[i])
            W[i, :] = 0
            add_scaled(W[i], choose.words, scratch[0])

    return floats if _is_float(W) else words


def mix(V: Values, target: int, W: Values, repeat: Weight, source: int, m: int, scratch: Scratch) -> None:
    """V[target, i] = W[i] + ρ V[source, i] in each of the m states."""


@overload(mix)
def _mix(V, target, W, repeat, source, m, scratch):  # type: ignore[no-untyped-def]
    def floats(V, target, W, repeat, source, m, scratch):  # type: ignore[no-untyped-def]
        for i in range(m):
            V[target, i] = W[i] + repeat.value * V[source, i]

    def words(V, target, W, repeat, source, m, scratch):  # type: ignore[no-untyped-def]
        for i in range(m):
            copy(scratch[0], V[source, i])
            copy(V[target, i], W[i])
            add_scaled(V[target, i], repeat.words, scratch[0])

    return floats if _is_float(V) else words


def by_state(tile: Any, a: int, width: int) -> Any:
    """(n, width) the columns of action a of a tile, as a view with the states first."""
    raise NotImplementedError


@overload(by_state)
def _by_state(tile, a, width):  # type: ignore[no-untyped-def]
    def numbers(tile, a, width):  # type: ignore[no-untyped-def]
        return tile[a * width : (a + 1) * width].T

    def words(tile, a, width):  # type: ignore[no-untyped-def]
        return tile[a * width : (a + 1) * width].transpose(1, 0, 2)

    return numbers if tile.ndim == 2 else words


def as_float(X: Values, row: int, i: int, unit: float) -> float:
    """X[row, i] as a float."""
    raise NotImplementedError


@overload(as_float)
def _as_float(X, row, i, unit):  # type: ignore[no-untyped-def]
    def floats(X, row, i, unit):  # type: ignore[no-untyped-def]
        return X[row, i]

    def words(X, row, i, unit):  # type: ignore[no-untyped-def]
        return to_float(X[row, i], unit)

    return floats if _is_float(X) else words


def new_values(like: Values, rows: int, n: int) -> Values:
    """(rows, n) values of the kind of a layer's or a tile's; not filled yet."""
    raise NotImplementedError


@overload(new_values)
def _new_values(like, rows, n):  # type: ignore[no-untyped-def]
    def floats(like, rows, n):  # type: ignore[no-untyped-def]
        return np.empty((rows, n))

    def words(like, rows, n):  # type: ignore[no-untyped-def]
        return np.empty((rows, n, like.shape[-1]), np.uint64)

    return floats if _is_float(like) else words
