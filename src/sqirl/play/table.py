"""A table: an MDP and what an agent sees of it.

An observation is named by its *key*: the numbers of the screens that it is stacked of, the oldest first, and the timestep where
the view has a clock. A replay buffer therefore needs no pictures; they are made when a network looks at them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.description import EnvDescription, describe
from sqirl.envs.suites import MINIGRID, PAPER
from sqirl.envs.view import View
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.screens import frames_of
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.progress import CountProgress

Keys = NDArray[np.int32]  # (n, stacked + 1)


@dataclass(frozen=True, eq=False)
class Table:
    """An MDP with its frames. The last frame is the blank one, which lies before the start of an episode and after its end.

    :param truncates: an episode that reaches the horizon is truncated: PPO and DQN bootstrap from its last observation
    """

    mdp: TabularMDP
    view: View
    frames: NDArray[np.uint8]  # (N + 1, *frame_shape)
    truncates: bool = False

    @property
    def horizon(self) -> int:
        assert self.mdp.horizon is not None
        return self.mdp.horizon

    @property
    def blank(self) -> int:
        return len(self.frames) - 1

    @property
    def key_length(self) -> int:
        return self.view.stacked + 1

    def observations(self, keys: Keys) -> NDArray[np.uint8]:
        """(n, key_length) keys → (n, *observation_shape) uint8."""
        return self.view.assemble(self.frames[keys[:, :-1]], (self.horizon - keys[:, -1]) / self.horizon)

    def screens_of(self, states: NDArray[np.integer]) -> NDArray[np.int32]:
        """(n,) the number of the screen that each state shows; the blank one for END (-1)."""
        shown: NDArray[np.int32] = self._screen_of[states]
        return shown

    @cached_property
    def _screen_of(self) -> NDArray[np.int32]:
        """(S + 1,) the last entry is that of END, because index -1 picks it."""
        assert self.mdp.screen_mapping is not None
        return np.append(self.mdp.screen_mapping, self.blank).astype(np.int32)

    def first_keys(self, states: NDArray[np.integer]) -> Keys:
        """(n, key_length) keys of episodes that start in these states: blank screens before the first one, time 0."""
        keys = np.full((len(states), self.key_length), self.blank, np.int32)
        keys[:, -2], keys[:, -1] = self.screens_of(states), 0
        return keys

    def next_keys(self, keys: Keys, states: NDArray[np.integer], t: NDArray[np.integer] | int) -> Keys:
        """(n, key_length) keys after a step to these states at time t: a new array, the oldest screen dropped."""
        following = np.empty_like(keys)
        following[:, :-2] = keys[:, 1:-1]
        following[:, -2] = self.screens_of(states)
        following[:, -1] = t if self.view.uses_clock else 0
        return following


def truncates(env: EnvDescription) -> bool:
    """Are episodes that reach the horizon truncated? Only MiniGrid's in the variant PAPER; otherwise they are terminated."""
    return env.suite is MINIGRID and env.variant == PAPER


def load_table(env: EnvDescription | str, *, progress: CountProgress | None = None) -> Table | None:
    """The table of an id whose MDP is stored, or None; frames that are missing are drawn once.

    None also where episodes are truncated and the states at the horizon are not in the MDP.
    """
    description = describe(env)
    mdp = stored_mdp(description)
    if mdp is None:
        return None
    cuts = truncates(description)
    if cuts and mdp.depth is not None and mdp.horizon is not None and mdp.depth <= mdp.horizon:
        return None
    # The shape comes from the stored screens, so that a table can be played where the suite is not installed
    view = description.view(None if mdp.screens is None else mdp.screens.shape[1:])
    return replace(make_table(mdp, view, progress=progress), truncates=cuts)


def make_table(mdp: TabularMDP, view: View, *, progress: CountProgress | None = None) -> Table:
    """The table of an MDP that has screens."""
    check_horizon(mdp, None)
    frames = frames_of(mdp, view, progress=progress)
    return Table(mdp, view, np.concatenate([frames, np.zeros((1, *view.frame_shape), np.uint8)]))
