"""Episodes of a trained policy, step by step, for people to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.actions import action_names, names_of_actions
from sqirl.envs.adapters import show_pictures
from sqirl.envs.calls import env_errors
from sqirl.envs.description import EnvDescription
from sqirl.envs.game_env import GameEnv
from sqirl.errors import MissingExtra
from sqirl.play.own_env import own_training_env

#: (observation, state, episode starts) -> (action, state): `predict` of a model of Stable-Baselines3
Predict = Callable[[Any, Any, Any], tuple[Any, Any]]
Picture = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class WatchedStep:
    """One step of an episode: what was seen before it, what was done, and what it paid."""

    picture: Picture | None  # before the action
    action: int
    executed: int  # another action than that, where actions are sticky
    reward: float


@dataclass(frozen=True, eq=False)
class WatchedEpisode:
    """A whole episode. `last_picture` shows its end."""

    steps: tuple[WatchedStep, ...]
    last_picture: Picture | None

    @property
    def total(self) -> float:
        return sum(step.reward for step in self.steps)

    @property
    def actions(self) -> list[int]:
        return [step.action for step in self.steps]


@dataclass(frozen=True, eq=False)
class Moment:
    """What a stage shows: the observation, a picture of it, and of the step that led there its reward and whether it ended."""

    observation: Any
    picture: Picture | None
    reward: float = 0.0
    ended: bool = False
    executed: int | None = None


class Stage(Protocol):
    """An environment that is played for people, one episode after the other."""

    names: tuple[str, ...] | None  # of its actions

    def reset(self, seed: int) -> Moment: ...
    def step(self, action: int) -> Moment: ...


def watch_episodes(stage: Stage, predict: Predict, *, episodes: int, seed: int) -> Iterator[WatchedEpisode]:
    """Episodes of the policy, each with a seed of its own."""
    for number in range(episodes):
        now, state, steps = stage.reset((seed + number) % 2**31), None, []
        starts = np.array([True])
        while not now.ended:
            chosen, state = predict(np.asarray(now.observation)[None], state, starts)
            action = int(np.asarray(chosen).reshape(-1)[0])
            after = stage.step(action)
            executed = action if after.executed is None else after.executed
            steps.append(WatchedStep(now.picture, action, executed, after.reward))
            now, starts = after, np.array([False])
        yield WatchedEpisode(tuple(steps), now.picture)


def stage_of(description: EnvDescription, *, pictures: bool) -> Stage:
    """The live game; full-length games, and games whose emulator is not installed, as the algorithms see them.

    :param pictures: will pictures be shown? Drawing them takes time
    """
    if not description.is_full_length:
        try:
            return LiveStage(description, pictures=pictures)
        except MissingExtra:
            pass
    return SeenStage(description)


class LiveStage:
    """A live env. Its pictures are those that it draws, or its observations where these are pictures."""

    def __init__(self, description: EnvDescription, *, pictures: bool) -> None:
        self.name, self.pictures = description.name, pictures
        mode = "rgb_array" if pictures else None
        env = description.make_env(render_mode=mode)
        if not description.is_bridge:
            env = own_training_env(env, description.name, description.horizon)
        self.env: gym.Env[Any, Any] = env
        base = env.unwrapped
        num_actions = int(env.action_space.n) if isinstance(env.action_space, gym.spaces.Discrete) else 0
        self.names = action_names(base.game) if isinstance(base, GameEnv) else names_of_actions(env, num_actions)

    def reset(self, seed: int) -> Moment:
        observation, _ = self.env.reset(seed=seed)
        return Moment(observation, self._picture(observation))

    def step(self, action: int) -> Moment:
        observation, reward, terminated, truncated, info = self.env.step(action)
        executed = info.get("executed_action")
        return Moment(observation, self._picture(observation), float(reward), terminated or truncated, executed)

    def _picture(self, observation: Any) -> Picture | None:
        if not self.pictures:
            return None
        show_pictures(self.env)
        with env_errors(self.name, "render"):
            drawn = self.env.render() if self.env.render_mode == "rgb_array" else None
        return as_picture(drawn if drawn is not None else observation)


class SeenStage:
    """What an algorithm sees, as its vectorised env shows it: the newest frame of each observation."""

    names: tuple[str, ...] | None = None

    def __init__(self, description: EnvDescription) -> None:
        from sqirl.play.training_env import training_env

        self.env = training_env(description)
        self._factor = description.reward_factor

    def reset(self, seed: int) -> Moment:
        self.env.seed(seed)
        observation = np.asarray(self.env.reset())[0]
        return Moment(observation, as_picture(observation))

    def step(self, action: int) -> Moment:
        observations, rewards, ends, infos = self.env.step(np.array([action]))
        ended = bool(ends[0])
        newest = np.asarray(observations)[0]
        seen = infos[0].get("terminal_observation", newest) if ended else newest
        return Moment(seen, as_picture(seen), float(rewards[0]) * self._factor, ended)


def as_picture(seen: Any) -> Picture | None:
    """(H, W, 3) of a picture, of a stack of grey frames (the newest), or None of anything else."""
    array = np.asarray(seen)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or min(array.shape[:2]) < 2:
        return None
    if array.ndim == 3 and array.shape[0] < min(array.shape[1:]):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] != 3:
        array = array[..., -1] if array.shape[-1] <= 4 else array[..., 0]
    return np.ascontiguousarray(np.repeat(array[..., None], 3, axis=-1) if array.ndim == 2 else array)
