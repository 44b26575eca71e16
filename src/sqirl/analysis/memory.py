"""How much memory a backward pass takes, and how it is split into several where it would take too much."""

from __future__ import annotations

from sqirl.analysis.columns import Columns, Sizes
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.memory import available_memory

#: The share of free memory that an analysis may take.
MEMORY_SHARE = 0.85


class NotEnoughMemory(SqirlError):
    """The analysis needs more memory than there is."""


def memory_limit() -> float:
    """The bytes that a pass may take now."""
    free = available_memory()
    return float("inf") if free is None else MEMORY_SHARE * free


def least_bytes(mdp: TabularMDP, columns: Columns, num_words: int) -> int:
    """The memory of the pass if every k is looked at in a pass of its own."""
    alone = columns._replace(first_k=columns.num_k)
    return Sizes.of(alone, sparing=mdp.stickiness > 0).num_bytes(mdp, num_words)


def split(mdp: TabularMDP, columns: Columns, num_words: int, limit: float) -> list[tuple[Columns, Sizes]]:
    """The passes that compute the columns: one if it fits, else several over fewer k.

    A later pass computes all smaller Q^k again, but keeps gaps, margins and returns for its own k only.
    """
    whole = Sizes.of(columns)
    if whole.num_bytes(mdp, num_words) <= limit:
        return [(columns, whole)]
    parts: list[tuple[Columns, Sizes]] = []
    first_k = columns.first_k
    while first_k <= columns.num_k:
        fitting = [
            (part, sizes)
            for part in (columns._replace(num_k=k, first_k=first_k) for k in range(first_k, columns.num_k + 1))
            if (sizes := Sizes.of(part, sparing=mdp.stickiness > 0)).num_bytes(mdp, num_words) <= limit
        ]
        if not fitting:
            raise NotEnoughMemory(_refusal(mdp, columns, num_words, limit))
        parts.append(fitting[-1])
        first_k = fitting[-1][0].num_k + 1
    return parts


def most_bytes(mdp: TabularMDP, parts: list[tuple[Columns, Sizes]], num_words: int) -> int:
    """The memory of the largest of the passes."""
    return max(sizes.num_bytes(mdp, num_words) for _, sizes in parts)


def _refusal(mdp: TabularMDP, columns: Columns, num_words: int, limit: float) -> str:
    need = least_bytes(mdp, columns, num_words)
    return (
        f"the analysis of {mdp.num_states:,} states and {mdp.num_actions} actions to k = {columns.num_k} needs "
        f"{need / 1e9:.3g} GB, and may take {limit / 1e9:.3g} GB; lower --max-k, or free memory"
    )
