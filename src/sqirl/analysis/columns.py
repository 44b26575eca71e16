"""The columns of the value arrays: which quantity lies in which column. All other modules ask `Columns`.

Two arrays share these columns. U[s, p, j] is the value of quantity j in a state. X[a, j] is its value when action a is
executed there. The backup computes column j of X from column j of U one step later. A row of X is then reduced to U.

    column in X   column in U, made from           reduced by                        measured as
    Q*            V*     from Q*                   best action                       height and shortfall
    Q^1           base   from Q^1                  mean over the actions             height and shortfall
    Q^{k+1}       M_k    from Q^k, k = 1..K-1      best action                       height and shortfall
    worst         worst  from worst                worst action                      total reward
    G_k           G_k    from G_k, k = first_k..K  worst action greedy on Q^k        total reward
                         (one column for each slack: then actions that are less than the slack below the best count, too)

M_k = max_a Q^k is stored in the column of Q^{k+1}, because its backup is Q^{k+1}. This is the step of Q-value iteration (QVI)
in Section 3 of the paper. `Columns.source` says from which column of X a column of U is made.

The *base* is the start of the sequence. It is the value of the random policy, so that Q^1 is the random policy's Q-function.
For the effective planning window it is 0 instead, so that Q^1 is the reward alone.

`backup.py` explains height and shortfall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqirl.mdp.tabular import TabularMDP

#: How a column measures totals. These are the columns of `gains` in `backup.py`.
HEIGHT, SHORTFALL, REWARD, UNBOUNDED = 0, 1, 2, 3

#: The columns of the bounds of a state: the least and the greatest total reward from there on.
LOW, HIGH = 0, 1

#: Bytes of one float64.
ITEM_BYTES = 8


class Columns(NamedTuple):
    """Where each quantity lies in the last axis of X and U. Plain numbers and arrays, so that compiled code can read it."""

    num_k: int  # K
    first_k: int  # G_k, gaps and margins are kept for k = first_k..K
    random_base: bool  # is Q^1 the random policy's Q-function (or the reward alone)?
    optimal: int
    base: int  # equal to q[1]: the base is made from Q^1, and the backup of the base is Q^1
    q: NDArray[np.int64]  # (K + 1,) the column of Q^k; entry 0 is not used
    shortfall: int  # the shortfall of the quantity in column j is in column j + shortfall
    worst: int
    greedy: NDArray[
        np.int64
    ]  # (K - first_k + 1, n) the columns of G_k for n slacks; n = 0 where they are not asked for
    source: NDArray[np.int64]  # (width,) the column of X that a column of U is made from
    measure: NDArray[np.int64]  # (width,) HEIGHT, SHORTFALL, REWARD or UNBOUNDED
    width: int

    @property
    def num_kept(self) -> int:
        """How many Q^k have their gaps and margins kept."""
        return self.num_k - self.first_k + 1


def columns_for(num_k: int, first_k: int = 1, *, random_base: bool = True, num_slacks: int = 1) -> Columns:
    """The columns of a pass over Q^1..Q^num_k that keeps gaps, margins and G_k (for so many slacks) for k = first_k..num_k."""
    optimal, q = 0, np.arange(num_k + 1)
    shortfall = num_k + 1
    worst = 2 * shortfall
    num_kept = num_k - first_k + 1
    greedy = worst + 1 + np.arange(num_kept * num_slacks).reshape(num_kept, num_slacks)
    width = worst + 1 + greedy.size

    source = np.arange(width)
    measure = np.full(width, REWARD)
    measure[optimal], measure[optimal + shortfall] = HEIGHT, SHORTFALL
    for k in range(1, num_k + 1):
        made_from = q[k - 1] if k > 1 else q[1]
        source[q[k]], source[q[k] + shortfall] = made_from, made_from + shortfall
        # A reward alone is not part of a total, so there is no greatest total that it falls short of
        measure[q[k]] = HEIGHT if random_base else REWARD
        measure[q[k] + shortfall] = SHORTFALL if random_base else UNBOUNDED
    return Columns(num_k, first_k, random_base, optimal, 1, q, shortfall, worst, greedy, source, measure, width)


class Layer(NamedTuple):
    """The arrays of one time step. A backward pass keeps two layers: this step and the next."""

    bounds: NDArray[np.float64]  # (S, 1, 2) lo(s) in column LOW, hi(s) in column HIGH
    U: NDArray[np.float64]  # (S, slots, width)
    D: NDArray[np.float64]  # (S, slots, num_kept) the least margins


def num_slots(mdp: TabularMDP) -> int:
    """The second axis of U and D: one slot for each previous action where actions are sticky, else one in all."""
    return mdp.num_actions if mdp.stickiness else 1


def new_layer(mdp: TabularMDP, columns: Columns) -> Layer:
    """A layer that is not filled yet."""
    size, slots = mdp.num_states, num_slots(mdp)
    shapes = (size, 1, 2), (size, slots, columns.width), (size, slots, columns.num_kept)
    return Layer(*(np.empty(shape) for shape in shapes))


def pass_bytes(mdp: TabularMDP, columns: Columns) -> int:
    """The memory of a backward pass with these columns: U and D of two layers."""
    return 2 * ITEM_BYTES * mdp.num_states * num_slots(mdp) * (columns.width + columns.num_kept)
