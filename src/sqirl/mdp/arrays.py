"""Two array idioms that several modules need."""

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
