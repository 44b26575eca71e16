"""The effective planning window: the least k such that every policy greedy on k steps of value iteration from 0 is optimal.

Where n steps remain, k steps of value iteration from 0 are Q* of an episode of min(k, n) steps. So the greedy actions of k are
the optimal actions where k steps remain, and the backward pass has found these already, for the states that it visits then. For
other states a pass over the last k steps finds them.

Whether a k will do is seen by walking forward from the start: along greedy actions, until one of them is not optimal.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import Exactness, Layers
from sqirl.analysis.columns import Columns, Sizes, storages
from sqirl.analysis.dynamics import Dynamics, dynamics_of
from sqirl.analysis.progress import SILENT, Meter
from sqirl.analysis.reduction import Marks, new_marks
from sqirl.mdp.reach import ReachableSets
from sqirl.mdp.tabular import TabularMDP

#: A pass over the last steps finds the greedy actions of so many k at least.
FIRST_WINDOWS = 5

#: Q* alone; no Q^k is kept. The random policy's values come with every pass.
_OPTIMAL_ALONE = Columns(1, 2, False)


class WindowSearch:
    """The search for the window. `optimal` are the optimal actions by time, at the reachable states of each time."""

    def __init__(
        self, mdp: TabularMDP, horizon: int, *, discount: float, sets: ReachableSets, exactness: Exactness,
        optimal: list[Marks], meter: Meter = SILENT,
    ) -> None:  # fmt: skip
        self._mdp, self._horizon, self._discount, self._sets = mdp, horizon, discount, sets
        self._exactness, self._optimal, self._meter = exactness, optimal, meter
        self._dynamics = dynamics_of(mdp, discount)
        self._elsewhere: list[
            Marks
        ] = []  # the greedy actions of k = 1, 2, ... where the backward pass has not all of them

    def find(self, last_k: int) -> int | None:
        """The window; None if it is above `last_k`, or memory is short."""
        for k in range(1, last_k + 1):
            greedy = self._greedy(k)
            if greedy is None:
                return None
            if self._is_optimal(k, greedy):
                return k
        return None

    def _is_optimal(self, k: int, greedy: Marks) -> bool:
        """Does every policy greedy on k steps take optimal actions only, wherever it goes?"""
        mdp = self._mdp
        visited, previous = np.zeros(mdp.num_states, np.bool_), np.zeros_like(greedy)
        visited[mdp.start_states] = True
        for t in range(self._horizon - k):  # where k steps or fewer remain, they are the optimal actions
            states = self._sets.states(t)
            following, following_previous = np.zeros_like(visited), np.zeros_like(previous)
            if not _step_forward(
                states, self._dynamics, mdp.stickiness > 0, self._optimal[t], greedy, visited, previous, following,
                following_previous,
            ):  # fmt: skip
                return False
            visited, previous = following, following_previous
        return True

    def _greedy(self, k: int) -> Marks | None:
        """(S, bytes) the greedy actions of k steps, at all states that can be reached while more than k steps remain."""
        t = self._horizon - k
        reached = self._sets.union(t + 1)
        states = self._sets.states(t)
        if len(states) == int(reached.sum()):
            greedy = new_marks(self._mdp)
            greedy[states] = self._optimal[t]
            return greedy
        if len(self._elsewhere) < k:
            words = self._exactness.num_words
            sizes = Sizes.of(_OPTIMAL_ALONE, words, storages(self._mdp, words)[0])
            if sizes.num_bytes(self._mdp) > self._exactness.memory:
                return None
            self._elsewhere = self._by_passes(min(max(2 * k, FIRST_WINDOWS), self._horizon))
        return self._elsewhere[k - 1]

    def _by_passes(self, last_k: int) -> list[Marks]:
        """The greedy actions of k = 1..last_k, by one pass over the last steps."""
        mdp, columns, found = self._mdp, _OPTIMAL_ALONE, list[Marks]()
        layers = Layers(mdp, self._horizon, columns, self._discount, self._exactness)
        for t in range(self._horizon - 1, self._horizon - last_k - 1, -1):
            states = np.flatnonzero(self._sets.union(t + 1)).astype(np.int32)
            marks = new_marks(mdp)
            layers.step_back(states, t, marks)
            found.append(marks)
            self._meter.advance(len(states) * mdp.num_actions * columns.work)
            if layers.num_open and self._exactness.is_exact and self._exactness.raise_level(mdp, columns):
                return self._by_passes(last_k)
        return found


@numba.njit(nogil=True, cache=True)
def _step_forward(
    states: NDArray[np.int32], dynamics: Dynamics, is_sticky: bool, optimal: Marks, greedy: Marks,
    visited: NDArray[np.bool_], previous: Marks, following: NDArray[np.bool_], following_previous: Marks,
) -> bool:  # fmt: skip
    """Where greedy actions lead from the states that are visited; False if one of these actions is not optimal.

    optimal (n, bytes) is of the `states` (n,), and the others (S, ...) of all states. previous[s] are the actions that may be
    repeated in s.
    """
    transitions, indptr, next_states = dynamics.transitions, dynamics.indptr, dynamics.next_states
    A, is_table = dynamics.rewards.shape[1], dynamics.form.ndim == 2
    for i in range(len(states)):
        s = states[i]
        if not visited[s]:
            continue
        for byte in range(greedy.shape[1]):
            if greedy[s, byte] & ~optimal[i, byte]:
                return False
        for a in range(A):
            bit = np.uint8(1 << (a & 7))
            if not (greedy[s, a >> 3] | previous[s, a >> 3]) & bit:
                continue
            row = np.int64(s) * A + a
            for entry in range(0 if is_table else indptr[row], 1 if is_table else indptr[row + 1]):
                n = transitions[s, a] if is_table else next_states[entry]
                if n >= 0:
                    following[n] = True
                    if is_sticky:
                        following_previous[n, a >> 3] |= bit
    return True
