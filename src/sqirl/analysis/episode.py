"""An optimal episode of an MDP, for pictures and reports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import Exactness, Layers
from sqirl.analysis.columns import Columns
from sqirl.analysis.reduction import new_marks
from sqirl.errors import InvalidMDP
from sqirl.mdp.reach import check_horizon, reachable_sets
from sqirl.mdp.tabular import END, TabularMDP

#: The table of optimal actions holds T·S bytes. Beyond this size it is refused.
LARGEST = 200_000_000


def optimal_episode(mdp: TabularMDP) -> list[int]:
    """The actions of an optimal policy in an episode where no action is repeated by stickiness (deterministic games only).

    Where several actions are optimal, it takes the first.
    """
    T = check_horizon(mdp, None)
    if mdp.transitions is None or T * mdp.num_states > LARGEST:
        raise InvalidMDP(f"{mdp.name or 'the MDP'} has random outcomes or is too large to draw an optimal episode of")
    best = _optimal_actions(mdp, T)
    state, actions = int(mdp.start_states[0]), []
    for t in range(T):
        actions.append(int(best[t, state]))
        state = int(mdp.transitions[state, actions[-1]])
        if state == END:
            break
    return actions


def _optimal_actions(mdp: TabularMDP, T: int) -> NDArray[np.int8]:
    """(T, S) int8 the first optimal action at each time and state; not filled where a state cannot be reached at that time.

    Ties are decided exactly, as far as the digits of `rounding.py` reach.
    """
    sets, exactness = reachable_sets(mdp, T), Exactness(mdp)
    best, marks = np.empty((T, mdp.num_states), np.int8), new_marks(mdp)
    columns = Columns(1, 1, False)
    while True:
        layers = Layers(mdp, T, columns, 1.0, exactness)
        for t in reversed(range(T)):
            layers.step_back(sets.states(t), t, marks)
            best[t] = np.unpackbits(marks, axis=1, bitorder="little").argmax(axis=1)
        if not (layers.num_open and exactness.is_exact and exactness.raise_level(mdp, columns)):
            return best
