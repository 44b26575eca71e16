"""Functions on arrays that several modules need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def in_order_of_first_use(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The distinct values of `labels` (n,) in the order of their first use, and the place (n,) of every label among them."""
    distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[inverse]


def entries_of_rows(
    indptr: NDArray[np.integer], rows: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """The positions of the entries of some rows of a CSR matrix, row after row, and the number of entries of each row."""
    counts = np.diff(indptr)[rows]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(indptr[rows], counts) + offsets, counts


def rows_as_scalars(rows: NDArray[Any]) -> NDArray[Any]:
    """(n, …) → (n,): one scalar for each row, equal for equal rows, that can be sorted. A one-dimensional array is unchanged."""
    if rows.ndim == 1:
        return rows
    flat = np.ascontiguousarray(rows.reshape(len(rows), -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The distinct rows (m, …) of `rows` (n, …), the first position (m,) of each, and the place (n,) of each row among them."""
    if not rows.size:
        return rows[:1], np.zeros(min(1, len(rows)), np.int64), np.zeros(len(rows), np.int64)
    _, first, place = np.unique(rows_as_scalars(rows), return_index=True, return_inverse=True)
    return rows[first], first, place.ravel()
