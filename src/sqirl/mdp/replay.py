"""Checks a finished build: a sample of its transitions is replayed in a new copy of the game."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from sqirl.envs.game import Game
from sqirl.errors import DoesNotReplay
from sqirl.mdp.expand import key_of
from sqirl.mdp.reach import BreadthFirstTree, breadth_first_tree
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.mdp.trace import play, start_seed_of

#: After the sampled transition a replay continues with fewer random actions than this.
REPLAY_WALK = 10
#: So many states are searched for the way to a reward, at most.
SEARCHED = 500


def check_replays(mdp: TabularMDP, keys: dict[bytes, int], game: Game, replays: int) -> None:
    """Replay transitions of `mdp`. Raises `DoesNotReplay` where the live game differs from the table.

    A replay plays the shortest path to the state of a transition, takes the transition, continues with random actions, and then
    goes to the nearest reward. Every second transition is one with a reward. The random actions reach states by other paths than
    the build did, so they detect keys that omit a part of the state; where that part decides a reward, it shows only there. Every
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
    usual = float(np.median(mdp.rewards))
    rows = rng.integers(mdp.transitions.size, size=replays)
    rewarded = np.flatnonzero(mdp.rewards != usual)
    if len(rewarded):
        rows[1::2] = rng.choice(rewarded, size=len(rows[1::2]))
    for seed, row in enumerate(rows.tolist()):
        state, action = divmod(row, mdp.num_actions)
        start, path = tree.start_and_path(state)
        play(game, path, seed=seed, start_seed=start_seed_of(mdp, start))
        replay = _Replay(mdp, keys, game, tree, path)
        after: int | None = replay.take(state, action)
        for _ in range(int(rng.integers(REPLAY_WALK))):
            after = None if after is None else replay.take(after, int(rng.integers(mdp.num_actions)))
        for action in [] if after is None else way_to_reward(mdp, after, usual):
            after = None if after is None else replay.take(after, action)


def way_to_reward(mdp: TabularMDP, state: int, usual: float) -> list[int]:
    """The actions of the shortest way to a reward that is not the usual one; empty where none is near."""
    assert mdp.transitions is not None
    steps: dict[int, tuple[int, int]] = {}  # state -> the state before it and the action
    queue = deque([state])
    while queue and len(steps) < SEARCHED:
        here = queue.popleft()
        pays = np.flatnonzero(mdp.rewards[here] != usual)
        if len(pays):
            way = [int(pays[0])]
            while here != state:
                here, action = steps[here]
                way.append(action)
            return way[::-1]
        for action, following in enumerate(mdp.transitions[here].tolist()):
            if following != END and following != state and following not in steps:
                steps[following] = here, action
                queue.append(following)
    return []


@dataclass(frozen=True, eq=False)
class _Replay:
    """One episode of the live game beside the table."""

    mdp: TabularMDP
    keys: dict[bytes, int]
    game: Game
    tree: BreadthFirstTree
    path: list[int]

    def take(self, state: int, action: int) -> int | None:
        """The state that an action leads to; None if the episode is over."""
        mdp, game = self.mdp, self.game
        assert mdp.transitions is not None
        self.path.append(action)
        reward, over = game.step(action)
        expected = int(mdp.transitions[state, action])
        arrived = END if over else self.keys.get(key_of(game), END)
        arrived = arrived if arrived < mdp.num_states else END
        differs = arrived != expected and not _is_in_last_level(mdp, self.tree, state)
        if reward != mdp.rewards[state, action] or differs:
            raise DoesNotReplay(
                f"{mdp.name or game.name} does not replay: after actions {self.path} the table has reward "
                f"{mdp.rewards[state, action]:g} and state {expected}, the live game has reward {reward:g} and state "
                f"{arrived}; `sqirl check` shows why"
            )
        return None if expected == END else expected


def _is_in_last_level(mdp: TabularMDP, tree: BreadthFirstTree, state: int) -> bool:
    """Is the state first reached by the last step but one? Where its actions lead may be unknown: it is not part of the MDP."""
    return mdp.depth is not None and len(tree.start_and_path(state)[1]) == mdp.depth - 1
