"""A table as a single Gymnasium env: the second implementation that lanes and the live game are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sqirl.envs.game import Game
from sqirl.envs.game_env import GameEnv
from sqirl.mdp.tabular import END
from sqirl.play.table import Table


class TableGame:
    """A table as a `Game`, so that `GameEnv` plays it like the live one."""

    saved_by = "the number of the state"

    def __init__(self, table: Table) -> None:
        assert table.mdp.transitions is not None
        self.table = table
        self.name, self.num_actions = table.mdp.name, table.mdp.num_actions
        self.state = 0

    def reset(self) -> None:
        self.state = int(self.table.mdp.start_states[0])

    def step(self, action: int) -> tuple[float, bool]:
        mdp = self.table.mdp
        assert mdp.transitions is not None
        reward, self.state = float(mdp.rewards[self.state, action]), int(mdp.transitions[self.state, action])
        return reward, self.state == END

    def get_state(self) -> int:
        return self.state

    def bare_state(self) -> int:
        return self.state

    def set_state(self, state: int) -> None:
        self.state = state

    def state_key(self) -> bytes:
        return self.state.to_bytes(16, "little", signed=True)

    def screen(self) -> np.ndarray:
        """The frame of the state; blank at the end, of which the table knows nothing."""
        mapping = self.table.mdp.screen_mapping
        assert mapping is not None
        return self.table.frames[self.table.blank if self.state == END else mapping[self.state]]

    def render(self) -> np.ndarray:
        return self.screen()

    def fresh(self) -> Game:
        return TableGame(self.table)

    def reseed(self, seed: int) -> None:
        """Nothing to do: a table draws nothing."""

    def provenance(self) -> Mapping[str, Any]:
        return self.table.mdp.provenance


class TableEnv(GameEnv):
    """One episode at a time from the table; with the same seed and actions the same as the live env, bit by bit.

    Only the observation after the end of an episode differs: it is blank, because no state of the table shows it.
    """

    def __init__(self, table: Table) -> None:
        view = replace(table.view, frame_of=np.asarray)  # the table holds frames already
        super().__init__(TableGame(table), view, horizon=table.horizon, stickiness=table.mdp.stickiness)
