"""Players: what plays episodes side by side, from a table or from a live environment.

Observations go by keys, so the same loop (`sqirl.play.episodes.play_episodes`) serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.lanes import Lanes
from sqirl.play.table import Table

#: Episodes that are played from a table side by side; more are played one round after the other.
MAX_LANES = 8192
#: Episodes whose end is reported in one step: as many as the statistics of Stable-Baselines3 remember.
REPORTED_EPISODES = 100

#: (num_lanes,) ends of episodes -> (num_lanes,) which of the frames observed next will be learned from
Keep = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
Seed = np.random.SeedSequence | np.random.Generator


class Player(Protocol):
    """Plays episodes side by side, one in each lane; `keys` names what is observed in each lane now."""

    num_lanes: int
    num_actions: int
    horizon: int | None
    keys: NDArray[np.int32]  # (num_lanes, key_length)
    key_length: int
    keys_are_permanent: bool  # does a key always name the same observation?

    def start(self, episodes: int, seed: Seed) -> None: ...
    def step(
        self, actions: NDArray[np.integer], keep: Keep
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]: ...
    def observations(self, keys: NDArray[np.int32]) -> NDArray[Any]: ...  # as the policy takes them


class TablePlayer:
    """Plays a table, or an MDP without screens; as many lanes as there are episodes to play, at most `max_lanes`.

    Over a table an observation is a picture, channels first. Over a plain MDP it is one integer: the state, together with the
    action executed last where actions are sticky.
    """

    keys_are_permanent = True

    def __init__(self, played: Table | TabularMDP, *, reward_factor: float = 1.0, max_lanes: int = MAX_LANES) -> None:
        self.played, self.reward_factor, self.max_lanes = played, reward_factor, max_lanes
        self.mdp = played.mdp if isinstance(played, Table) else played
        self.horizon: int | None = check_horizon(self.mdp, None)
        self.num_actions = self.mdp.num_actions
        self.key_length = played.key_length if isinstance(played, Table) else 2
        self.num_lanes = 0

    def start(self, episodes: int, seed: Seed) -> None:
        self.num_lanes = min(episodes, self.max_lanes)
        self._lanes = Lanes(self.played, self.num_lanes, np.random.default_rng(seed))
        self._totals = np.zeros(self.num_lanes)
        self.keys = self._current_keys()

    def _current_keys(self) -> NDArray[np.int32]:
        if isinstance(self.played, Table):
            return self._lanes.keys
        return np.stack([self._lanes.states, self._lanes.executed], axis=1)

    def step(
        self, actions: NDArray[np.integer], keep: Keep
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]:
        rewards, ends = self._lanes.step(actions)
        self._totals += rewards
        infos = [
            {"episode": {"r": float(self._totals[lane]), "l": int(self._lanes.t[lane]), "t": 0.0}}
            for lane in np.flatnonzero(ends)[:REPORTED_EPISODES].tolist()
        ]
        if ends.any():
            self._totals[ends] = 0
            self._lanes.reset(ends)
        self.keys = self._current_keys()
        return rewards / self.reward_factor, ends, infos

    def observations(self, keys: NDArray[np.int32]) -> NDArray[Any]:
        if isinstance(self.played, Table):
            return np.moveaxis(self.played.observations(keys), -1, 1)
        return state_observations(self.mdp, keys[:, 0], keys[:, 1])


def state_observations(
    mdp: TabularMDP, states: NDArray[np.integer], executed: NDArray[np.integer]
) -> NDArray[np.int64]:
    """(n,) what is observed of an MDP without screens: one number for each state (and previous action, if sticky)."""
    if not mdp.stickiness:
        return states.astype(np.int64)
    return states.astype(np.int64) * (mdp.num_actions + 1) + executed + 1


#: What the algorithms of the paper (`sqirl.algorithms.literal`) can be run on.
Playable = str | TabularMDP | gym.Env[Any, Any] | Player


def as_player(env: Playable, *, episodes: int, horizon: int | None = None, max_lanes: int = MAX_LANES) -> Player:
    """A player of an id (from its MDP where it is stored), of an MDP, of a Gymnasium env; or a player as it is.

    A live env remembers the observations of `episodes` episodes.
    """
    if isinstance(env, str):
        description = describe(env)
        mdp = stored_mdp(description)
        env = mdp if mdp is not None else description.make_env()
    if isinstance(env, TabularMDP):
        return TablePlayer(env if horizon is None else env.cut(horizon), max_lanes=max_lanes)
    if isinstance(env, gym.Env):
        from sqirl.play.live import LivePlayer, SingleEnv

        single = SingleEnv(env, horizon)
        return LivePlayer(single, capacity=episodes * (single.horizon + 1) + 1, horizon=single.horizon)
    if not hasattr(env, "start"):
        raise SqirlError(f"{type(env).__name__} is not an id, a TabularMDP or a single Gymnasium env")
    return env
