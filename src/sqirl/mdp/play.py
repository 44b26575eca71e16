"""Playing an MDP from its table: one episode as a Gymnasium env, or very many at a time as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sqirl.envs.env import GameEnv
from sqirl.envs.game import Game
from sqirl.envs.ids import EnvId, parse_id
from sqirl.envs.registration import view_of
from sqirl.envs.view import View
from sqirl.errors import InvalidMDP, UnknownEnv
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.screens import Progress, frames_of
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import END, TabularMDP


@dataclass(frozen=True, eq=False)
class Table:
    """An MDP and what an agent sees of it.

    An observation is named by its *key*: the screens that it is stacked of, the oldest first, and the time where the
    view has a clock; so a replay buffer needs no pictures. Screen number N (one past the last) is the blank one that lies
    before the start of an episode and after its end.
    """

    mdp: TabularMDP
    view: View
    frames: np.ndarray  # (N + 1, *frame_shape) uint8

    @property
    def horizon(self) -> int:
        assert self.mdp.horizon is not None
        return self.mdp.horizon

    @property
    def blank(self) -> int:
        return len(self.frames) - 1

    def observations(self, keys: np.ndarray) -> np.ndarray:
        """(n, stacked + 1) keys → (n, *observation_shape) uint8."""
        return self.view.assemble(self.frames[keys[:, :-1]], (self.horizon - keys[:, -1]) / self.horizon)


def load_table(env_id: str | EnvId, *, progress: Progress | None = None) -> Table | None:
    """The table of an id whose MDP is at hand, or None; screens that are missing are drawn (once)."""
    parsed = parse_id(env_id) if isinstance(env_id, str) else env_id
    mdp = stored_mdp(parsed)
    if mdp is None:
        return None
    # The screens tell their shape themselves, so that a table plays where the suite is not installed
    view = view_of(parsed, None if mdp.screens is None else mdp.screens.shape[1:])
    return make_table(mdp, view, progress=progress)


def make_table(mdp: TabularMDP, view: View, *, progress: Progress | None = None) -> Table:
    """An MDP with screens as a table that can be played."""
    check_horizon(mdp, None)
    frames = frames_of(mdp, view, progress=progress)
    return Table(mdp, view, np.concatenate([frames, np.zeros((1, *view.frame_shape), np.uint8)]))


class Lanes:
    """Episodes of an MDP side by side, one in each lane.

    `states`, `executed` (the action executed last, -1 at the start) and `t` say where each stands. All randomness comes from
    the generator given.
    """

    def __init__(self, mdp: TabularMDP, num: int, rng: np.random.Generator) -> None:
        self.mdp, self.num, self.rng = mdp, num, rng
        self.horizon = check_horizon(mdp, None)
        self.states = np.empty(num, np.int32)
        self.executed = np.empty(num, np.int32)
        self.t = np.empty(num, np.int32)
        self.reset(np.ones(num, bool))

    def reset(self, which: np.ndarray) -> None:
        """Start a new episode in the lanes of this mask."""
        starts = self.mdp.start_states
        count = int(which.sum())
        self.states[which] = (
            starts[0] if len(starts) == 1 else self.rng.choice(starts, count, p=self.mdp.start_probabilities)
        )
        self.executed[which] = -1
        self.t[which] = 0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """((num,) rewards, (num,) bool ends); `states` is END where the game is over."""
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
        return rewards, (self.states == END) | (self.t >= self.horizon)

    def _draw(self, played: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rewards and next states where outcomes are random."""
        outcomes = self.mdp.outcomes
        assert outcomes is not None
        rows = self.states.astype(np.int64) * self.mdp.num_actions + played
        # Probabilities run on over the rows, each of which sums to 1: one search in their running sum finds all draws
        running = self._running_sum()
        draw = running[outcomes.indptr[rows]] + self.rng.random(self.num)
        entries = np.searchsorted(running, draw, side="right") - 1
        entries = np.clip(entries, outcomes.indptr[rows], outcomes.indptr[rows + 1] - 1)  # rounding at the edges
        return outcomes.rewards[entries], outcomes.next_states[entries]

    def _running_sum(self) -> np.ndarray:
        if not hasattr(self, "_running"):
            assert self.mdp.outcomes is not None
            self._running = np.concatenate([[0.0], np.cumsum(self.mdp.outcomes.probabilities)])
        return self._running


class SeenLanes(Lanes):
    """Lanes that also keep the key of what an agent sees in each."""

    def __init__(self, table: Table, num: int, rng: np.random.Generator) -> None:
        self.table = table
        assert table.mdp.screen_mapping is not None
        self._screen_of = np.append(table.mdp.screen_mapping, table.blank).astype(np.int32)  # the last: of END
        self.keys = np.empty((num, table.view.stacked + 1), np.int32)
        super().__init__(table.mdp, num, rng)

    def reset(self, which: np.ndarray) -> None:
        super().reset(which)
        self.keys[which] = self.table.blank
        self.keys[which, -2] = self._screen_of[self.states[which]]
        self.keys[which, -1] = 0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rewards, ends = super().step(actions)
        keys = np.empty_like(self.keys)  # a new array: the old keys may be in a buffer by now
        keys[:, :-2] = self.keys[:, 1:-1]
        keys[:, -2] = self._screen_of[self.states]
        keys[:, -1] = self.t if self.table.view.uses_clock else 0
        self.keys = keys
        return rewards, ends

    def state(self) -> dict[str, Any]:
        """Where every lane stands, and what chance will bring."""
        where = {"states": self.states, "executed": self.executed, "t": self.t, "keys": self.keys}
        return {**where, "chance": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.states, self.executed, self.t, self.keys = (state[n] for n in ("states", "executed", "t", "keys"))
        self.rng.bit_generator.state = state["chance"]


class TableGame:
    """A table as a `Game`, so that `GameEnv` plays it like the live one."""

    saved_by = "the number of the state"

    def __init__(self, table: Table) -> None:
        if table.mdp.transitions is None:
            raise InvalidMDP(f"{table.mdp.name or 'the MDP'} has random outcomes; it is played as lanes only")
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
        """The frame of the state; blank at the end, which the table knows nothing about."""
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

    def __init__(self, table: Table, *, render_mode: str | None = None) -> None:
        from dataclasses import replace

        view = replace(table.view, frame_of=np.asarray)  # the table holds frames already
        mdp = table.mdp
        super().__init__(
            TableGame(table), view, horizon=table.horizon, stickiness=mdp.stickiness, render_mode=render_mode
        )


class TableVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Very many episodes at a time, as a vectorised Gymnasium env; a lane that ends starts anew in the same step."""

    def __init__(self, table: str | Table, num_envs: int) -> None:
        loaded = load_table(table) if isinstance(table, str) else table
        if loaded is None:
            raise UnknownEnv(f"the MDP of {table} is not at hand; build it first: sqirl build {table}")
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.table = loaded
        self.num_envs = num_envs
        shape, num_actions = self.table.view.observation_shape, self.table.mdp.num_actions
        self.single_observation_space: Any = gym.spaces.Box(0, 255, shape, np.uint8)
        self.single_action_space: Any = gym.spaces.Discrete(num_actions)
        self.observation_space: Any = batch_space(self.single_observation_space, num_envs)
        self.action_space: Any = batch_space(self.single_action_space, num_envs)
        self.lanes: SeenLanes | None = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if self.lanes is None or seed is not None:
            self.lanes = SeenLanes(self.table, self.num_envs, np.random.default_rng(seed))  # type: ignore[arg-type]
        self.lanes.reset(np.ones(self.num_envs, bool))
        return self.table.observations(self.lanes.keys), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        assert self.lanes is not None, "reset() comes first"
        rewards, ends = self.lanes.step(actions)
        info: dict[str, Any] = {"executed_action": self.lanes.executed}
        if ends.any():
            self.lanes.reset(ends)
        observations = self.table.observations(self.lanes.keys)
        return observations, rewards, ends, np.zeros(self.num_envs, bool), info
