"""Checks a finished build: a sample of its transitions is replayed in a new copy of the game."""

from __future__ import annotations

import numpy as np

from sqirl.envs.game import Game
from sqirl.errors import WorkFailed
from sqirl.mdp.expand import key_of
from sqirl.mdp.reach import BreadthFirstTree, breadth_first_tree
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.mdp.trace import play, start_seed_of

#: After the sampled transition a replay continues with random actions, up to this many steps in all.
REPLAY_WALK = 10


def check_replays(mdp: TabularMDP, keys: dict[bytes, int], game: Game, replays: int) -> None:
    """Replay random transitions of `mdp`. Raises `WorkFailed` where the live game differs from the table.

    A replay plays the shortest path to the state of the transition, takes the transition, and continues with random actions.
    The random actions reach states by other paths than the build did, so they detect keys that omit a part of the state. Every
    replay has its own seed, so a game that depends on random numbers is detected too.

    :param keys: the number of the state with each key
    :param game: a new copy of the game
    :param replays: how many transitions are replayed
    """
    assert mdp.transitions is not None
    if len(mdp.start_states) > 1 and mdp.start_seeds is None:
        return  # its starts cannot be drawn again, so nothing can be replayed from them
    rng = np.random.default_rng(0)
    tree = breadth_first_tree(mdp)
    for seed, row in enumerate(rng.integers(mdp.transitions.size, size=replays).tolist()):
        state, action = divmod(row, mdp.num_actions)
        start, path = tree.start_and_path(state)
        play(game, path, seed=seed, start_seed=start_seed_of(mdp, start))
        for _ in range(REPLAY_WALK):
            path.append(action)
            reward, over = game.step(action)
            expected = int(mdp.transitions[state, action])
            arrived = END if over else keys.get(key_of(game), END)
            arrived = arrived if arrived < mdp.num_states else END
            differs = arrived != expected and not _is_in_last_level(mdp, tree, state)
            if reward != mdp.rewards[state, action] or differs:
                raise WorkFailed(
                    f"{mdp.name or game.name} does not replay: after actions {path} the table has reward "
                    f"{mdp.rewards[state, action]:g} and state {expected}, the live game has reward {reward:g} and state "
                    f"{arrived}; `sqirl check` shows why"
                )
            if expected == END:
                break
            state, action = expected, int(rng.integers(mdp.num_actions))


def _is_in_last_level(mdp: TabularMDP, tree: BreadthFirstTree, state: int) -> bool:
    """Is the state first reached by the last step but one? Where its actions lead may be unknown: it is not part of the MDP."""
    return mdp.depth is not None and len(tree.start_and_path(state)[1]) == mdp.depth - 1
