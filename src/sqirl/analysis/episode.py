"""An optimal episode of an MDP, for pictures and reports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import MAXIMUM, best_actions, value_step
from sqirl.analysis.columns import num_slots
from sqirl.analysis.dynamics import dynamics_of
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
    """(T, S) int8 the first optimal action at each time and state; not filled where a state cannot be reached at that time."""
    dynamics, sets = dynamics_of(mdp, 1.0), reachable_sets(mdp, T)
    shape = mdp.num_states, num_slots(mdp), 1
    V, V_next = np.empty(shape), np.empty(shape)
    best = np.empty((T, mdp.num_states), np.int8)
    actions = tuple(range(mdp.num_actions))
    for t in reversed(range(T)):
        V, V_next = V_next, V
        states, is_last = sets.states(t), t == T - 1
        best_actions(states, dynamics, is_last, V_next, best[t])
        value_step(actions, states, dynamics, MAXIMUM, mdp.stickiness, is_last, V_next, V)
    return best
