"""An optimal episode of an MDP, to look at."""

from __future__ import annotations

import numpy as np

from sqirl.errors import InvalidMDP
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.tabular import END, TabularMDP

#: T·S beyond which the table of optimal actions is not worth its memory.
LARGEST = 200_000_000


def optimal_episode(mdp: TabularMDP) -> list[int]:
    """The actions of an optimal policy in an episode in which no action happens to stick (deterministic games only).

    With X_t(s, a) = r(s, a) + V_{t+1}(s'(s, a), a) and ρ the stickiness, V_t(s, p) = (1 - ρ) max_a X_t(s, a) + ρ X_t(s, p).
    """
    T = check_horizon(mdp, None)
    if mdp.transitions is None or T * mdp.num_states > LARGEST:
        raise InvalidMDP(f"{mdp.name or 'the MDP'} has random outcomes or is too large to draw an optimal episode of")
    V = np.zeros((mdp.num_states + 1, mdp.num_actions))  # the last row is END
    best = np.empty((T, mdp.num_states), np.int8)
    previous = np.arange(mdp.num_actions)
    for t in reversed(range(T)):
        X = mdp.rewards + V[mdp.transitions, previous]  # (S, A): the value of executing a
        best[t] = X.argmax(axis=1)
        V[:-1] = (1 - mdp.stickiness) * X.max(axis=1, keepdims=True) + mdp.stickiness * X
    state, actions = int(mdp.start_states[0]), []
    for t in range(T):
        actions.append(int(best[t, state]))
        state = int(mdp.transitions[state, actions[-1]])
        if state == END:
            break
    return actions
