"""How much memory a backward pass takes, and how it is split into several where it would take too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.columns import ITEM_BYTES, Columns, Layer, Sizes, storages
from sqirl.analysis.prefetch import LINE
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.memory import available_memory

#: The share of free memory that an analysis may take.
MEMORY_SHARE = 0.85


class NotEnoughMemory(SqirlError):
    """The analysis needs more memory than there is."""


class Buffer:
    """Memory that the passes of one analysis take one after the other. Memory that is new to a process costs time."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.uint64)

    @property
    def num_bytes(self) -> int:
        return self._words.nbytes

    def words(self, num_words: int) -> NDArray[np.uint64]:
        """So many words, which are not filled yet. Those of the pass before must not be used any more."""
        if num_words > len(self._words):
            self._words = np.empty(0, np.uint64)  # given back before more is taken
            words = np.empty(num_words + LINE // ITEM_BYTES, np.uint64)
            first = (
                -words.ctypes.data % LINE // ITEM_BYTES
            )  # so that a row of a line's length is in one line of the cache
            self._words = words[first : first + num_words]
        return self._words[:num_words]

    def layer(self, mdp: TabularMDP, sizes: Sizes) -> Layer:
        """The arrays of a pass."""
        return sizes.layer_in(mdp, self.words(sizes.num_bytes(mdp) // ITEM_BYTES))


def memory_limit(held: int) -> float:
    """The bytes that a pass may take now, if the analysis holds so many already."""
    free = available_memory()
    return float("inf") if free is None else MEMORY_SHARE * (free + held)


def least_bytes(mdp: TabularMDP, columns: Columns, num_words: int) -> int:
    """The memory of the pass if every k is looked at in a pass of its own."""
    alone = columns._replace(first_k=columns.num_k)
    return min(Sizes.of(alone, num_words, storage).num_bytes(mdp) for storage in storages(mdp, num_words))


def split(mdp: TabularMDP, columns: Columns, num_words: int, limit: float) -> list[tuple[Columns, Sizes]]:
    """The passes that compute the columns: one if it fits, else several over fewer k.

    A later pass computes all smaller Q^k again, but keeps gaps, margins and returns for its own k only.
    """
    parts: list[tuple[Columns, Sizes]] = []
    first_k = columns.first_k
    while first_k <= columns.num_k:
        fitting = [
            (part, sizes)
            for part in (columns._replace(num_k=k, first_k=first_k) for k in range(columns.num_k, first_k - 1, -1))
            for storage in storages(mdp, num_words)
            if (sizes := Sizes.of(part, num_words, storage)).num_bytes(mdp) <= limit
        ]
        if not fitting:
            raise NotEnoughMemory(_refusal(mdp, columns, num_words, limit))
        parts.append(fitting[0])
        first_k = fitting[0][0].num_k + 1
    return parts


def most_bytes(mdp: TabularMDP, parts: list[tuple[Columns, Sizes]]) -> int:
    """The memory of the largest of the passes."""
    return max(sizes.num_bytes(mdp) for _, sizes in parts)


def _refusal(mdp: TabularMDP, columns: Columns, num_words: int, limit: float) -> str:
    need = least_bytes(mdp, columns, num_words)
    return (
        f"the analysis of {mdp.num_states:,} states and {mdp.num_actions} actions to k = {columns.num_k} needs "
        f"{need / 1e9:.3g} GB, and {max(limit, 0) / 1e9:.3g} GB are left for it; lower --max-k, or free memory"
    )
