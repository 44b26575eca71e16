"""Playing live environments: every frame that they show is kept once, and observations go by keys as from a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.calls import finite_reward
from sqirl.envs.game_env import GameEnv
from sqirl.errors import SqirlError
from sqirl.play.players import Keep, Seed


class FrameMemory:
    """Frames of live episodes, each kept once in a ring; a key names the frames that an observation is stacked of.

    Frame 0 is the blank one before the start of an episode. Frame numbers count on for ever (int32 is enough for 2·10^9
    steps); number n lies at place 1 + (n - 1) mod `capacity`. Frames that nothing will be learned from are only acted on:
    they have the numbers -1, -2, … in a small ring of their own, so that they overwrite no frame that is needed.
    """

    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: Any, *, stacked: int, num_lanes: int) -> None:
        self.capacity, self.stacked, self.key_length = capacity, stacked, stacked
        self._passing = num_lanes * (stacked + 1)  # in each lane the stack, and the frame that comes
        self._frames = self._blank((1 + capacity + self._passing, *shape), dtype)
        self.count = self._passed = 0

    def _blank(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Zeros that are not written to take no memory."""
        return np.zeros(shape, dtype)

    def append(self, frames: NDArray[Any], keep: NDArray[np.bool_]) -> NDArray[np.int32]:
        """(n,) the numbers of n new frames; the mask says which of them will be learned from."""
        numbers = np.empty(len(frames), np.int64)
        kept, passing = np.flatnonzero(keep), np.flatnonzero(~keep)
        numbers[kept] = self.count + 1 + np.arange(len(kept))
        numbers[passing] = -1 - (self._passed + np.arange(len(passing))) % self._passing
        self._write(self.places(numbers), frames)
        self.count += len(kept)
        self._passed += len(passing)
        return numbers.astype(np.int32)

    def _write(self, places: NDArray[np.integer], frames: NDArray[Any]) -> None:
        self._frames[places] = frames

    def tidy(self) -> None:
        """Called while the envs are busy with a step."""

    def places(self, numbers: NDArray[np.integer]) -> NDArray[np.integer]:
        """Where frames lie."""
        kept = np.where(numbers > 0, 1 + (numbers - 1) % self.capacity, 0)
        return np.where(numbers < 0, self.capacity - numbers, kept)

    def holds(self, keys: NDArray[np.int32]) -> NDArray[np.bool_]:
        """(n,) are all frames of the key still there?"""
        oldest: NDArray[np.integer] = np.where(keys > 0, keys, self.count + 1).min(axis=1)
        return oldest > self.count - self.capacity

    def observations(self, keys: NDArray[np.int32]) -> NDArray[Any]:
        """(n, stacked·C, …): the frames of each key, stacked along their first axis (channels)."""
        frames = self._frames[self.places(keys)]
        if self.stacked == 1:
            newest: NDArray[Any] = frames[:, 0]
            return newest
        stacked: NDArray[Any] = frames.reshape(len(keys), -1, *frames.shape[3:])
        return stacked

    def state(self) -> dict[str, Any]:
        """For a checkpoint: the frames and their number."""
        return {"frames": self._frames[: 1 + min(self.count, self.capacity)], "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        self._frames[: len(state["frames"])] = state["frames"]
        self.count = int(state["count"])


class LivePlayer:
    """Plays a vectorised env of Stable-Baselines3, or a `SingleEnv`."""

    keys_are_permanent = False

    def __init__(
        self,
        env: Any,
        *,
        capacity: int,
        stacked: int = 1,
        horizon: int | None = None,
        make_memory: Callable[..., FrameMemory] = FrameMemory,
    ) -> None:
        self.env, self.num_lanes, self.horizon = env, env.num_envs, horizon
        self.stacked = stacked
        space = env.observation_space
        shape: tuple[int, ...] = space.shape or ()
        if isinstance(space, gym.spaces.Discrete):
            shape = ()
        elif self.stacked > 1:
            shape = (shape[0] // self.stacked, *shape[1:])
        self._channels = shape[0] if self.stacked > 1 else 0  # of one frame
        self.memory = make_memory(capacity, shape, space.dtype, stacked=self.stacked, num_lanes=self.num_lanes)
        self.key_length = self.memory.key_length
        self.keys = np.zeros((self.num_lanes, self.key_length), np.int32)
        self.num_actions = int(env.action_space.n)
        self._first_action = int(getattr(env.action_space, "start", 0))
        self._ahead: tuple[int, Any] | None = None  # a seed, and what is observed after a reset with it

    def start(self, episodes: int, seed: Seed) -> None:
        number = seed.generate_state(1)[0] if isinstance(seed, np.random.SeedSequence) else seed.integers(2**31)
        if self._ahead is None or self._ahead[0] != number:
            self._reset(int(number))
        assert self._ahead is not None
        (_, observations), self._ahead = self._ahead, None
        everywhere = np.ones(self.num_lanes, bool)
        self._observe(observations, everywhere, everywhere)

    def start_ahead(self, seed: np.random.SeedSequence) -> None:
        """What `start` with this seed does to the envs, before it is called; nobody else may use them in between."""
        self._reset(int(seed.generate_state(1)[0]))

    def forget_start(self) -> None:
        """Someone may have used the envs since `start_ahead`."""
        self._ahead = None

    def _reset(self, number: int) -> None:
        self.env.seed(number % 2**31)
        self._ahead = number, self.env.reset()

    def step(
        self, actions: NDArray[np.integer], keep: Keep
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]:
        self.env.step_async(actions + self._first_action)
        self.memory.tidy()
        observations, rewards, ends, infos = self.env.step_wait()
        self._observe(observations, ends, keep(ends))
        return rewards, ends, infos

    def _observe(self, observations: Any, starts: NDArray[np.bool_], keep: NDArray[np.bool_]) -> None:
        newest = observations[:, -self._channels :] if self.stacked > 1 else observations
        numbers = self.memory.append(newest, keep)
        keys = np.zeros((self.num_lanes, self.key_length), np.int32)  # 0: the blank frame before a start
        if not starts.all():
            keys[~starts, :-1] = self.keys[~starts, 1:]
        keys[:, -1] = numbers
        self.keys = keys

    def observations(self, keys: NDArray[np.int32]) -> NDArray[Any]:
        return self.memory.observations(keys)


class SingleEnv:
    """One Gymnasium env with the methods of a vectorised env of one lane; it needs neither torch nor Stable-Baselines3.

    The end of a time limit ends an episode like any other end.
    """

    num_envs = 1

    def __init__(self, env: gym.Env[Any, Any], horizon: int | None = None) -> None:
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise SqirlError(f"the env has actions {env.action_space}; SQIRL and GORP need Discrete ones")
        self.horizon = _horizon_of(env, horizon)
        self.env = gym.wrappers.TimeLimit(env, self.horizon)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._seed: int | None = None

    def seed(self, seed: int) -> None:
        """The seed of the next reset."""
        self._seed = seed

    def reset(self) -> NDArray[Any]:
        observation, _ = self.env.reset(seed=self._seed)
        self._seed = None
        return np.asarray(observation)[None]

    def step(
        self, actions: NDArray[np.integer]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]:
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: NDArray[np.integer]) -> None:
        """The action of the next `step_wait`."""
        self._action = int(actions[0])

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], list[dict[str, Any]]]:
        observation, reward, terminated, truncated, _ = self.env.step(self._action)
        paid = finite_reward(reward, "the env", "")
        ended = terminated or truncated
        shown = self.reset() if ended else np.asarray(observation)[None]
        return shown, np.array([paid]), np.array([ended]), []


def _horizon_of(env: gym.Env[Any, Any], asked: int | None) -> int:
    known = env.get_wrapper_attr("_max_episode_steps") if env.has_wrapper_attr("_max_episode_steps") else None
    base = env.unwrapped
    chosen = known or (base.horizon if isinstance(base, GameEnv) else None) if asked is None else asked
    if chosen is None:
        raise SqirlError("the env says nothing about the length of its episodes; give horizon=")
    if chosen < 1:
        raise SqirlError(f"horizon {chosen} is below 1; an episode has at least one step")
    return int(chosen)
