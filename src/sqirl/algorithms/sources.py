"""Where deep SQIRL and GORP get their episodes: from a table, whose lanes cost nothing, or from a live vectorised env.

A source plays episodes side by side. Observations go by keys (see `replay.py`), so that the same loop serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecTransposeImage

from sqirl.algorithms.replay import FrameMemory
from sqirl.algorithms.table_vec_env import TableVecEnv
from sqirl.mdp.play import SeenLanes

#: Episodes that are played from a table side by side; more are played in turns.
MOST_LANES = 8192


#: (num_lanes,) ends of episodes -> (num_lanes,) will what is observed next be learned from?
Keep = Callable[[np.ndarray], np.ndarray]


class Source(Protocol):
    """Episodes side by side; `keys` name what is observed in each lane now."""

    num_lanes: int
    keys: np.ndarray  # (num_lanes, K) int32
    key_length: int
    keys_last: bool  # does a key name the same observation for ever?

    def start(self, episodes: int, seed: np.random.SeedSequence) -> None: ...
    def step(self, actions: np.ndarray, keep: Keep) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]: ...
    def observations(self, keys: np.ndarray) -> np.ndarray: ...  # as the policy takes them


class TableSource:
    """Lanes over a table, as many as there are episodes to play."""

    keys_last = True

    def __init__(self, env: TableVecEnv) -> None:
        self.table, self.reward_factor = env.table, env.reward_factor
        self.key_length = env.table.view.stacked + 1
        self.num_lanes = 0

    def start(self, episodes: int, seed: np.random.SeedSequence) -> None:
        self.num_lanes = min(episodes, MOST_LANES)
        self._lanes = SeenLanes(self.table, self.num_lanes, np.random.default_rng(seed))
        self._totals = np.zeros(self.num_lanes)
        self.keys = self._lanes.keys

    def step(self, actions: np.ndarray, keep: Keep) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
        rewards, ends = self._lanes.step(actions)
        self._totals += rewards
        infos = [
            {"episode": {"r": float(self._totals[lane]), "l": int(self._lanes.t[lane]), "t": 0.0}}
            for lane in np.flatnonzero(ends)[:100].tolist()  # as many as a window of statistics holds
        ]
        if ends.any():
            self._totals[ends] = 0
            self._lanes.reset(ends)
        self.keys = self._lanes.keys
        return rewards / self.reward_factor, ends, infos

    def observations(self, keys: np.ndarray) -> np.ndarray:
        """Channels first, as Stable-Baselines3 hands images to networks."""
        return np.moveaxis(self.table.observations(keys), -1, 1)


class LiveSource:
    """A Stable-Baselines3 `VecEnv`; every frame that it shows is kept once."""

    keys_last = False

    def __init__(self, env: VecEnv, *, capacity: int) -> None:
        self.env, self.num_lanes = env, env.num_envs
        self.stacked = frames_stacked(env)
        space = env.observation_space
        shape: tuple[int, ...] = space.shape or ()
        if isinstance(space, gym.spaces.Discrete):
            shape = ()
        elif self.stacked > 1:
            shape = (shape[0] // self.stacked, *shape[1:])
        self.memory = FrameMemory(capacity, shape, space.dtype, stacked=self.stacked, num_lanes=self.num_lanes)
        self.key_length = self.memory.key_length
        self.keys = np.zeros((self.num_lanes, self.key_length), np.int32)
        self._first_action = int(getattr(env.action_space, "start", 0))

    def start(self, episodes: int, seed: np.random.SeedSequence) -> None:
        self.env.seed(int(seed.generate_state(1)[0]) % 2**31)
        everywhere = np.ones(self.num_lanes, bool)
        self._observe(self.env.reset(), everywhere, everywhere)

    def step(self, actions: np.ndarray, keep: Keep) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observations, rewards, ends, infos = self.env.step(actions + self._first_action)
        self._observe(observations, ends, keep(ends))
        return rewards, ends, infos

    def _observe(self, observations: Any, starts: np.ndarray, keep: np.ndarray) -> None:
        newest = observations[:, -(observations.shape[1] // self.stacked) :] if self.stacked > 1 else observations
        numbers = self.memory.append(newest, keep)
        keys = np.zeros((self.num_lanes, self.key_length), np.int32)  # 0: the blank frame before a start
        if not starts.all():
            keys[~starts, :-1] = self.keys[~starts, 1:]
        keys[:, -1] = numbers
        self.keys = keys

    def observations(self, keys: np.ndarray) -> np.ndarray:
        return self.memory.observations(keys)


def frames_stacked(env: VecEnv) -> int:
    """How many frames of the past an observation of images is stacked of, as far as the env tells."""
    wrapper: Any = env
    while wrapper is not None:
        if isinstance(wrapper, VecFrameStack):
            return int(wrapper.stacked_obs.n_stack)
        wrapper = getattr(wrapper, "venv", None)
    if not isinstance(env, VecTransposeImage):
        return 1
    try:
        return int(env.get_attr("view")[0].stacked)
    except AttributeError:
        return 1


def source_of(env: VecEnv, *, buffer_size: int) -> Source:
    base = env.unwrapped
    if isinstance(base, TableVecEnv):
        return TableSource(base)
    return LiveSource(env, capacity=frames_kept(buffer_size))


def frames_kept(buffer_size: int) -> int:
    """Episodes bring a few frames more than transitions: those that the first stored step is stacked of."""
    return int(1.25 * buffer_size) + 1024
