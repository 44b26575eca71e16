"""What the algorithms of the paper are run on: an MDP's table (all episodes at a time) or any Gymnasium env (one by one)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from sqirl.envs.catalogue import near_matches
from sqirl.envs.env import GameEnv
from sqirl.envs.ids import is_bridge_id, parse_id
from sqirl.envs.registration import make_env
from sqirl.errors import SqirlError, UnknownEnv
from sqirl.mdp.play import Lanes
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP

#: (t, observations, generator) -> actions
Behaviour = Callable[[int, np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True, eq=False)
class Episodes:
    """m episodes step by step. `alive[t, j]`: episode j took a step at time t; elsewhere its entries mean nothing."""

    observations: np.ndarray  # (T, m, …)
    actions: np.ndarray  # (T, m)
    rewards: np.ndarray  # (T, m), 0 where not alive
    alive: np.ndarray  # (T, m) bool

    @property
    def num_steps(self) -> int:
        return int(self.alive.sum())

    @property
    def returns_to_go(self) -> np.ndarray:
        """(T, m): the reward from each step on."""
        return np.cumsum(self.rewards[::-1], axis=0)[::-1]


class World(Protocol):
    """A finite-horizon environment with discrete actions, as SQIRL and GORP meet it."""

    horizon: int
    num_actions: int

    def collect(self, behave: Behaviour, m: int, rng: np.random.Generator) -> Episodes: ...


class TableWorld:
    """An MDP. What is observed is the state, with the action executed before it where actions are sticky: one integer."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.horizon = check_horizon(mdp, None)
        self.num_actions = mdp.num_actions

    def observe(self, states: np.ndarray, executed: np.ndarray) -> np.ndarray:
        if not self.mdp.stickiness:
            return states.astype(np.int64)
        return states.astype(np.int64) * (self.num_actions + 1) + executed + 1

    def collect(self, behave: Behaviour, m: int, rng: np.random.Generator) -> Episodes:
        lanes = Lanes(self.mdp, m, rng)
        T = self.horizon
        episodes = Episodes(
            np.zeros((T, m), np.int64), np.zeros((T, m), np.int32), np.zeros((T, m)), np.zeros((T, m), bool)
        )
        alive = np.ones(m, bool)
        for t in range(T):
            observations = self.observe(lanes.states, lanes.executed)
            actions = behave(t, observations, rng)
            rewards, ends = lanes.step(actions)
            episodes.observations[t], episodes.actions[t], episodes.alive[t] = observations, actions, alive
            episodes.rewards[t] = np.where(alive, rewards, 0.0)
            alive = alive & ~ends
            if not alive.any():
                break
            lanes.states = np.where(alive, lanes.states, 0)  # the dead go on somewhere, unseen
        return episodes


class EnvWorld:
    """Any Gymnasium env with a horizon and discrete actions; truncation by a time limit ends an episode like any other end."""

    def __init__(self, env: gym.Env[Any, Any], horizon: int | None = None) -> None:
        self.env = env
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise SqirlError(f"the env has actions {env.action_space}; SQIRL and GORP need Discrete ones")
        self._first_action = int(env.action_space.start)
        self.num_actions = int(env.action_space.n)
        known = env.get_wrapper_attr("_max_episode_steps") if env.has_wrapper_attr("_max_episode_steps") else None
        base = env.unwrapped
        chosen = known or (base.horizon if isinstance(base, GameEnv) else None) if horizon is None else horizon
        if chosen is None:
            raise SqirlError("the env says nothing about the length of its episodes; give horizon=")
        if chosen < 1:
            raise SqirlError(f"horizon {chosen} is below 1; an episode has at least one step")
        self.horizon = int(chosen)

    def collect(self, behave: Behaviour, m: int, rng: np.random.Generator) -> Episodes:
        T, shape = self.horizon, np.asarray(self._observation(rng)).shape
        observations: np.ndarray | None = None
        actions, rewards = np.zeros((T, m), np.int32), np.zeros((T, m))
        alive = np.zeros((T, m), bool)
        for j in range(m):
            observation = self._observation(rng)
            for t in range(T):
                seen = np.asarray(observation)
                if observations is None:
                    observations = np.zeros((T, m, *shape), seen.dtype)
                action = int(behave(t, seen[None], rng)[0])
                observation, reward, terminated, truncated, _ = self.env.step(action + self._first_action)
                check_reward(reward)
                observations[t, j], actions[t, j], rewards[t, j], alive[t, j] = seen, action, reward, True
                if terminated or truncated:
                    break
        assert observations is not None
        return Episodes(observations, actions, rewards, alive)

    def _observation(self, rng: np.random.Generator) -> Any:
        """The first of a new episode, whose chance is drawn from our generator."""
        return self.env.reset(seed=int(rng.integers(2**31)))[0]


def as_world(env: str | TabularMDP | gym.Env[Any, Any] | World, horizon: int | None = None) -> World:
    """The MDP of an id where it is at hand, else its live game; an MDP; a Gymnasium env; or a world of the user's own."""
    if isinstance(env, str):
        mdp = stored_mdp(parse_id(env)) if is_bridge_id(env) else None
        env = mdp if mdp is not None else live_env(env)
    if isinstance(env, TabularMDP):
        return TableWorld(env if horizon is None else env.cut(horizon))
    if isinstance(env, gym.Env):
        return EnvWorld(env, horizon)
    if not hasattr(env, "collect"):
        raise SqirlError(f"{type(env).__name__} is no id, no TabularMDP and no (single) Gymnasium env")
    return env


def live_env(env_id: str) -> gym.Env[Any, Any]:
    """The game of a BRIDGE id, or the env of any other."""
    try:
        return make_env(parse_id(env_id)) if is_bridge_id(env_id) else gym.make(env_id)
    except gym.error.Error as error:
        raise UnknownEnv(f"no environment named '{env_id}'{near_matches(env_id)}") from error


def check_reward(reward: Any) -> None:
    if not np.isfinite(reward):
        raise SqirlError(f"the env paid {reward}; rewards must be finite")


def check_k_and_m(k: int, m: int, horizon: int) -> None:
    """Refuse a k or m that makes no sense."""
    for name, value in (("k", k), ("m", m), ("horizon", horizon)):
        if not isinstance(value, int | np.integer):
            raise SqirlError(f"{name} = {value!r} is not a whole number")
    if horizon < 1:
        raise SqirlError(f"horizon {horizon} is below 1; an episode has at least one step")
    if not 1 <= k <= horizon:
        raise SqirlError(f"k = {k} is outside 1..{horizon}, the steps of an episode")
    if m < 1:
        raise SqirlError(f"m = {m} is below 1; every iteration needs an episode")
