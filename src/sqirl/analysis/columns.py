"""The columns of the value arrays: which quantity lies in which column, and where. All other modules ask here.

X[a, j] is the value of quantity j when action a is executed in a state. V[p, j] is its value in a state where p was executed
last. The backup computes column j of X from column j of V one step later. A row of X is then reduced to V.

    column in X   column in V, made from           reduced by
    Q*            V*     from Q*                   best action
    Q^1           base   from Q^1                  mean over the actions
    Q^{k+1}       M_k    from Q^k, k = 1..K-1      best action

M_k = max_a Q^k is stored in the column of Q^{k+1}, because its backup is Q^{k+1}. This is the step of Q-value iteration (QVI)
in Section 3 of the paper.

The *base* is the start of the sequence: the value of the random policy, so that Q^1 is the random policy's Q-function.

Returns of policies have arrays of their own, G, of floats: nothing is decided by them. Column i is that of the worst policy
greedy on Q^k, k = first_k + i. The last column is the worst policy's; only the pass from k = 1 on has it.

**Where they lie.** All numbers of one state and slot lie side by side: V, then G, then F, then D. A backup reads all of them
at a next state that may be anywhere, and this costs a few lines of the cache instead of one for each number. A *slab* holds
them for all states. With sticky actions there is a slot for each previous action p, and X[a] needs slot a alone. So one layer
is enough: X[a] is written to a spare slab, the slab of slot a is then free, and X[a + 1] goes there. `Slots` says which slab
holds which slot at the moment. Without sticky actions there is one slot, and two layers of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
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
    """The numbers of a backward pass, as views of the slabs."""

    V: Values  # (slabs, S, width) float64, or (slabs, S, width, L) uint64
    F: NDArray[np.uint64]  # (slabs, S, width) the fingerprints of V
    G: NDArray[np.float64]  # (slabs, S, num_returns)
    D: NDArray[np.float64]  # (slabs, S, num_kept) the least margins


class Slots(NamedTuple):
    """The slab of each slot."""

    values: NDArray[np.int64]  # (slots,) that of V and G
    prints: NDArray[np.int64]  # (slots,) that of F and D


class Moved(NamedTuple):
    """Which numbers go to other slabs together."""

    values: bool  # V and G
    prints: bool  # F and D


class Storage(Enum):
    """How many slabs there are."""

    #: A step reads one layer and writes the other.
    TWO_LAYERS = 0
    #: Sticky actions: a slab for each slot, and a spare one.
    ONE_LAYER = 1
    #: The same, first for V and G and then for F and D. They have slabs of their own, and a spare slab is half as large.
    HALVES = 2


def storages(mdp: TabularMDP, num_words: int) -> list[Storage]:
    """Those that are of use, the faster first.

    Where actions are sticky, two layers would not be faster: memory that is new to a process costs time. The two halves are of
    about the same size only where values are floats.
    """
    if not mdp.stickiness:
        return [Storage.TWO_LAYERS]
    return [Storage.ONE_LAYER] if num_words else [Storage.ONE_LAYER, Storage.HALVES]


@dataclass(frozen=True)
class Sizes:
    """How many columns there are, and how they are stored."""

    V: int
    G: int
    D: int
    num_words: int = 0  # of a value; 0 where values are floats
    exact: bool = True  # are there fingerprints?
    storage: Storage = Storage.TWO_LAYERS

    @classmethod
    def of(cls, columns: Columns, num_words: int, storage: Storage) -> Sizes:
        return cls(columns.width, columns.num_returns, columns.num_kept, num_words, True, storage)

    @property
    def moves(self) -> list[Moved]:
        """What is moved together in a backward step."""
        return [Moved(True, False), Moved(False, True)] if self.storage is Storage.HALVES else [Moved(True, True)]

    @property
    def is_filled_first(self) -> bool:
        """Is X of all states computed before any of it is reduced?"""
        return self.storage is not Storage.TWO_LAYERS

    @property
    def _halves(self) -> tuple[int, int]:
        """The words of V and G, and those of F and D, for each state and slot."""
        return self.V * max(self.num_words, 1) + self.G, self.V * self.exact + self.D

    def shape(self, mdp: TabularMDP) -> tuple[int, int, int]:
        """(slabs, S, words) of the array that holds everything."""
        slots, both = num_slots(mdp), sum(self._halves)
        shapes = {
            Storage.TWO_LAYERS: (2 * slots, both),
            Storage.ONE_LAYER: (slots + 1, both),
            Storage.HALVES: (2 * slots + 1, max(self._halves)),
        }
        num_slabs, width = shapes[self.storage]
        return num_slabs, mdp.num_states, width

    def num_bytes(self, mdp: TabularMDP) -> int:
        """The memory of the slabs."""
        return ITEM_BYTES * math.prod(self.shape(mdp))

    def layer_in(self, mdp: TabularMDP, words: NDArray[np.uint64]) -> Layer:
        """The slabs in an array of at least so many words; they are not filled yet."""
        shape = self.shape(mdp)
        slabs = words[: math.prod(shape)].reshape(shape)
        floats, values = slabs.view(np.float64), self._halves[0]
        prints = 0 if self.storage is Storage.HALVES else values
        of_values, of_prints = values - self.G, prints + self.V * self.exact
        return Layer(
            slabs[..., :of_values].reshape(*shape[:2], self.V, self.num_words)
            if self.num_words
            else floats[..., :of_values],
            slabs[..., prints:of_prints],
            floats[..., of_values:values],
            floats[..., of_prints : of_prints + self.D],
        )


class Places:
    """Which slab holds which slot, and where the slots go in the next backward step."""

    def __init__(self, mdp: TabularMDP, sizes: Sizes) -> None:
        slots = np.arange(num_slots(mdp))
        apart = len(slots) if sizes.storage is Storage.HALVES else 0
        self._tables = [slots, slots + apart]
        self._spare = np.arange(len(slots) + apart, sizes.shape(mdp)[0])

    @property
    def slots(self) -> Slots:
        """The present places."""
        return Slots(*self._tables)

    def move(self, moved: Moved) -> tuple[Slots, Slots]:
        """(from, to) in the next step. What was in the last slots becomes spare."""
        before = self.slots
        tables = [np.concatenate([self._spare, table]) for table in self._tables]
        num_slots = len(before.values)
        for half, (is_moved, table) in enumerate(zip(moved, tables, strict=True)):
            if is_moved:
                self._tables[half], self._spare = table[:num_slots], table[num_slots:]
        return before, self.slots


def num_slots(mdp: TabularMDP) -> int:
    """One slot for each previous action where actions are sticky, else one in all."""
    return mdp.num_actions if mdp.stickiness else 1
