"""Episodes of an MDP side by side, one in each lane, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.mdp.reach import check_horizon
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.play.table import Keys, Table


class Lanes:
    """`num` episodes of an MDP, or of a table.

    `states`, `executed` (the action executed last, -1 at the start) and `t` say where each episode is. Over a table `keys`
    names what an agent observes in each lane. All randomness comes from the generator `rng`.
    """

    keys: Keys

    def __init__(self, played: TabularMDP | Table, num: int, rng: np.random.Generator) -> None:
        self.table = played if isinstance(played, Table) else None
        self.mdp = played.mdp if isinstance(played, Table) else played
        self.num, self.rng = num, rng
        self.horizon = check_horizon(self.mdp, None)
        self.states = np.empty(num, np.int32)
        self.executed = np.empty(num, np.int32)
        self.t = np.empty(num, np.int32)
        if self.table is not None:
            self.keys = np.empty((num, self.table.key_length), np.int32)
        self.reset(np.ones(num, bool))

    def reset(self, which: NDArray[np.bool_]) -> None:
        """Start a new episode in the lanes of this mask."""
        starts = self.mdp.start_states
        count = int(which.sum())
        self.states[which] = (
            starts[0] if len(starts) == 1 else self.rng.choice(starts, count, p=self.mdp.start_probabilities)
        )
        self.executed[which] = -1
        self.t[which] = 0
        if self.table is not None:
            self.keys[which] = self.table.first_keys(self.states[which])

    def step(self, actions: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """((num,) rewards, (num,) whether the episode has ended); `states` is END where the game is over."""
        played = np.asarray(actions, np.int32)
        if self.mdp.stickiness:
            repeated = (self.rng.random(self.num) < self.mdp.stickiness) & (self.executed >= 0)
            played = np.where(repeated, self.executed, played)
        if self.mdp.transitions is not None:
            rewards = self.mdp.rewards[self.states, played]
            self.states = self.mdp.transitions[self.states, played]
        else:
            rewards, self.states = self._draw(played)
        self.executed = played
        self.t += 1
        if self.table is not None:
            self.keys = self.table.next_keys(self.keys, self.states, self.t)
        return rewards, (self.states == END) | (self.t >= self.horizon)

    def _draw(self, played: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Rewards and next states where outcomes are random."""
        outcomes = self.mdp.outcomes
        assert outcomes is not None
        rows = self.states.astype(np.int64) * self.mdp.num_actions + played
        # Every row of probabilities sums to 1, so one search in the running sum over all rows finds all draws
        running = self._running_sum()
        draw = running[outcomes.indptr[rows]] + self.rng.random(self.num)
        entries = np.searchsorted(running, draw, side="right") - 1
        entries = np.clip(entries, outcomes.indptr[rows], outcomes.indptr[rows + 1] - 1)  # rounding at the edges
        return outcomes.rewards[entries], outcomes.next_states[entries]

    def _running_sum(self) -> NDArray[np.float64]:
        if not hasattr(self, "_running"):
            assert self.mdp.outcomes is not None
            self._running = np.concatenate([[0.0], np.cumsum(self.mdp.outcomes.probabilities)])
        return self._running

    def state(self) -> dict[str, Any]:
        """Where every lane is, and the state of the generator: for a checkpoint of lanes over a table."""
        where = {"states": self.states, "executed": self.executed, "t": self.t, "keys": self.keys}
        return {**where, "rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.states, self.executed, self.t, self.keys = (state[n] for n in ("states", "executed", "t", "keys"))
        self.rng.bit_generator.state = state["rng"]
