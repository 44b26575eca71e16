"""The columns of the value arrays: which quantity lies in which column, and where. All other modules ask here.

X[a, j] is the value of quantity j when action a is executed in a state. V[p, j] is its value in a state where p was executed
last. The backup computes column j of X from column j of V one step later. A row of X is then reduced to V.

    column in X   column in V, made from           reduced by
    Q*            V*     from Q*                   best action
    Q^1           base   from Q^1                  mean over the actions
    Q^{k+1}       M_k    from Q^k, k = 1..K-1      best action

M_k = max_a Q^k is stored in the column of Q^{k+1}, because its backup is Q^{k+1}. This is the step of Q-value iteration (QVI)
in Section 3 of the paper.

The *base* is the start of the sequence. It is the value of the random policy, so that Q^1 is the random policy's Q-function.
For the effective planning window it is 0 instead, so that Q^1 is the reward alone.

Returns of policies have arrays of their own, G, of floats: nothing is decided by them. Column i is that of the worst policy
greedy on Q^k, k = first_k + i. The last column is the worst policy's; only the pass from k = 1 on has it.

**Where they lie.** A *row* holds one column of one slot for all states. With sticky actions there is a slot for each previous
action p, and X[a] needs slot a alone. So one layer is enough: X[a] is written to spare rows, the rows of slot a are then free,
and X[a + 1] goes there. `Rows` says where the columns of each slot are at the moment. Without sticky actions there is one slot,
and two layers of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.values import Values
from sqirl.mdp.tabular import TabularMDP

#: The columns that are always there.
OPTIMAL, BASE = 0, 1

#: Bytes of a float64, of a fingerprint and of a word.
ITEM_BYTES = 8


class Columns(NamedTuple):
    """Which Q^k a pass computes. Column k of X is Q^k, and column OPTIMAL is Q*."""

    num_k: int  # K
    first_k: int  # G_k, gaps and margins are kept for k = first_k..K
    random_base: bool  # is Q^1 the random policy's Q-function (or the reward alone)?
    with_returns: bool  # are the returns of policies asked for?

    @property
    def width(self) -> int:
        """The number of columns of X and V."""
        return self.num_k + 1

    @property
    def num_kept(self) -> int:
        """How many Q^k have their gaps and margins kept."""
        return self.num_k - self.first_k + 1

    @property
    def num_returns(self) -> int:
        """The number of columns of G."""
        return self.num_kept + self.with_worst if self.with_returns else 0

    @property
    def work(self) -> int:
        """How many numbers a backward step computes for each state and action."""
        return 2 * self.width + self.num_returns + self.num_kept

    @property
    def with_worst(self) -> bool:
        """Is the return of the worst policy computed?"""
        return self.with_returns and self.first_k == 1


class Layer(NamedTuple):
    """The arrays of a backward pass, one row for each slot and column."""

    V: Values  # (rows, S) float64, or (rows, S, L) uint64
    F: NDArray[np.uint64]  # (rows, S) the fingerprints of V
    G: NDArray[np.float64]  # (rows, S)
    D: NDArray[np.float64]  # (rows, S) the least margins


class Rows(NamedTuple):
    """The rows of a `Layer` that hold the columns of each slot."""

    V: NDArray[np.int64]  # (slots, width), also of F
    G: NDArray[np.int64]  # (slots, num_returns)
    D: NDArray[np.int64]  # (slots, num_kept)


class Part(NamedTuple):
    """Some of the columns of V, G and D: from `first` to before `last`."""

    first: int
    last: int


@dataclass(frozen=True)
class Sizes:
    """How many columns V, G and D have, and how many of each are moved at a time where actions are sticky."""

    V: int
    G: int
    D: int
    group: int

    @classmethod
    def of(cls, columns: Columns, *, sparing: bool = False) -> Sizes:
        """Moving one column at a time is `sparing` with memory: it needs a single spare row of each kind."""
        return cls(columns.width, columns.num_returns, columns.num_kept, 1 if sparing else columns.width)

    def num_rows(self, mdp: TabularMDP, width: int) -> int:
        """The rows of an array with `width` columns: a slot for each action and spare rows, or two layers."""
        return mdp.num_actions * width + min(self.group, width) if mdp.stickiness else 2 * width

    @property
    def parts(self) -> list[Part]:
        """The columns in groups that are moved together."""
        widest = max(self.V, self.G, self.D)
        return [Part(first, min(first + self.group, widest)) for first in range(0, widest, self.group)]

    def new_layer(self, mdp: TabularMDP, num_words: int, *, exact: bool = True) -> Layer:
        """Arrays that are not filled yet; values are floats where `num_words` is 0. No fingerprints if not `exact`."""
        S = mdp.num_states
        V, G, D = (self.num_rows(mdp, width) for width in (self.V, self.G, self.D))
        return Layer(
            np.empty((V, S, num_words), np.uint64) if num_words else np.empty((V, S)),
            np.empty((V if exact else 0, S), np.uint64),
            np.empty((G, S)),
            np.empty((D, S)),
        )

    def num_bytes(self, mdp: TabularMDP, num_words: int, *, exact: bool = True) -> int:
        """The memory of these arrays."""
        V, G, D = (self.num_rows(mdp, width) for width in (self.V, self.G, self.D))
        return ITEM_BYTES * mdp.num_states * (V * (max(num_words, 1) + exact) + G + D)


class Places:
    """Where the columns of each slot are, and where they go in the next backward step."""

    def __init__(self, mdp: TabularMDP, sizes: Sizes) -> None:
        self._sticky, self._group = mdp.stickiness > 0, sizes.group
        slots = mdp.num_actions if self._sticky else 1
        self._tables = [np.arange(slots * width).reshape(slots, width) for width in (sizes.V, sizes.G, sizes.D)]
        first_free = [table.size for table in self._tables]
        # spare rows of a group where actions are sticky, else the other layer
        self._spare = [
            start + np.arange(min(sizes.group, table.shape[1]) if self._sticky else table.shape[1])
            for start, table in zip(first_free, self._tables, strict=True)
        ]

    @property
    def rows(self) -> Rows:
        """The present places."""
        return Rows(*(table.copy() for table in self._tables))

    def move(self, part: Part) -> tuple[Rows, Rows]:
        """(from, to) for the columns of one part of the next step; from now on they are there."""
        before = self.rows
        for table, spare in zip(self._tables, self._spare, strict=True):
            last = min(part.last, table.shape[1])
            if last <= part.first:
                continue
            chosen, free = slice(part.first, last), slice(0, last - part.first)
            freed = table[-1, chosen].copy()
            table[1:, chosen] = table[:-1, chosen].copy()
            table[0, chosen] = spare[free]
            spare[free] = freed
        return before, self.rows


def num_slots(mdp: TabularMDP) -> int:
    """One slot for each previous action where actions are sticky, else one in all."""
    return mdp.num_actions if mdp.stickiness else 1
