"""A user's env for training: checked in every step, its observations one array, its episodes limited."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym

from sqirl.envs.actions import discrete_actions
from sqirl.envs.calls import OLD_API, after, env_errors, finite_reward
from sqirl.errors import EnvFailed
from sqirl.play.observations import AsVector, needs_vector, problem_with

#: Episodes of envs without a limit of their own end after so many steps; a limit beyond this is no horizon.
EPISODE_LIMIT = 10_000
#: Networks work in float32, and losses square rewards: larger ones would become infinite.
LARGEST_REWARD = 1e15


def own_training_env(env: gym.Env[Any, Any], name: str, horizon: int | None) -> gym.Env[Any, Any]:
    """The user's env as algorithms take it: actions from 0, one array as observation, errors of one line.

    :param name: the name of the env in error messages
    :param horizon: steps of an episode; None if the env has no limit
    """
    checked: gym.Env[Any, Any] = CheckedEnv(discrete_actions(env), name)
    if needs_vector(checked.observation_space):
        checked = AsVector(checked, name)
    return LimitedEpisodes(checked, name, horizon)


class CheckedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Raises `EnvFailed` with one line where the env raises, or returns what it must not."""

    def __init__(self, env: gym.Env[Any, Any], name: str) -> None:
        for attribute in ("observation_space", "action_space"):
            if not isinstance(getattr(env, attribute, None), gym.Space):
                raise EnvFailed(f"{name} has no {attribute}; set it to a space of gymnasium.spaces")
        super().__init__(env)
        self._name = name
        self._spaces = env.observation_space, env.action_space
        self._actions: list[Any] = []  # of this episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._actions = []
        with env_errors(self._name, "reset"):
            returned = self.env.reset(seed=seed, options=options)
        if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
            raise EnvFailed(f"{self._name}: reset() returned {_kind(returned)}; {OLD_API['reset']}")
        if (self.env.observation_space, self.env.action_space) != self._spaces:
            raise EnvFailed(f"{self._name} changed its spaces after it was made; they must stay as they are")
        self._check(returned[0], "reset")
        return returned

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        self._actions.append(action)
        with env_errors(self._name, "step", self._actions):
            returned = self.env.step(action)
        if not isinstance(returned, tuple) or len(returned) != 5:
            raise EnvFailed(f"{self._name}: step() returned {_kind(returned)}; {OLD_API['step']}")
        observation, reward, terminated, truncated, info = returned
        self._check(observation, "step")
        if not isinstance(info, dict):
            raise EnvFailed(f"{self._name}: the info that step() returned is {_kind(info)}, not a dict")
        with env_errors(self._name, "step", self._actions):
            ended, cut = bool(terminated), bool(truncated)
        paid = finite_reward(reward, self._name, after(self._actions))
        if abs(paid) > LARGEST_REWARD:
            raise EnvFailed(
                f"{self._name} returned the reward {paid:g}{after(self._actions)}; networks cannot learn more than "
                f"{LARGEST_REWARD:g} in size; divide the rewards by a constant"
            )
        return observation, paid, ended, cut, info

    def _check(self, observation: Any, method: str) -> None:
        problem = problem_with(self._spaces[0], observation)
        if problem is not None:
            raise EnvFailed(f"{self._name}: {method}() returned an observation that {problem}{after(self._actions)}")


class LimitedEpisodes(gym.wrappers.TimeLimit):
    """Ends episodes at the horizon. Without one they end after `EPISODE_LIMIT` steps; if all of them do, that is an error."""

    def __init__(self, env: gym.Env[Any, Any], name: str, horizon: int | None) -> None:
        super().__init__(env, horizon or EPISODE_LIMIT)
        self.horizon = horizon
        self._name, self._cut, self._some_ended = name, 0, False

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.horizon is None and truncated and self._elapsed_steps == EPISODE_LIMIT:
            self._note_cut()
        self._some_ended |= terminated
        return observation, reward, terminated, truncated, info

    def _note_cut(self) -> None:
        self._cut += 1
        limit = f"{self._name} has no time limit, and an episode did not end within {EPISODE_LIMIT:,} steps"
        if self._cut > 1 and not self._some_ended:
            raise EnvFailed(f"{limit}, twice; give the steps of an episode with --horizon T")
        if self._cut == 1:
            warnings.warn(f"{limit}; it was ended there (--horizon T sets another limit)", stacklevel=3)


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} values"
    return "a dict" if isinstance(value, Mapping) else f"a {type(value).__name__}" if value is not None else "None"


def observed_as(env: gym.Env[Any, Any], name: str) -> str | None:
    """A line that says what an agent sees of observations that are no array; None where they are one."""
    checked = CheckedEnv(discrete_actions(env), name)
    return AsVector(checked, name).description if needs_vector(checked.observation_space) else None
