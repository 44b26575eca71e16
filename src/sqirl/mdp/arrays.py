"""Array idioms that several modules need."""

from __future__ import annotations

import numpy as np


def in_order_of_first_use(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels in the order of their first use, and every label's place among them (int32)."""
    distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[inverse]


def entries_of_rows(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries of some rows of a CSR matrix lie, row after row, and how many each row has."""
    counts = np.diff(indptr)[rows]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(indptr[rows], counts) + offsets, counts


def rows_as_scalars(rows: np.ndarray) -> np.ndarray:
    """Rows of any shape as a one-dimensional array that can be sorted and compared; of scalars, themselves."""
    if rows.ndim == 1:
        return rows
    flat = np.ascontiguousarray(rows.reshape(len(rows), -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the distinct rows, where each is first, for each row its place among them)."""
    if not rows.size:
        return rows[:1], np.zeros(min(1, len(rows)), np.int64), np.zeros(len(rows), np.int64)
    _, first, place = np.unique(rows_as_scalars(rows), return_index=True, return_inverse=True)
    return rows[first], first, place.ravel()
