"""Simulators: an environment that can be played, saved and restored, with new random outcomes after every restore.

The ways to restore, in order of preference: a `Game` of BRIDGE, the env's own `get_state` and `set_state`, the emulator's
`clone_state` and `restore_state`, copies of the whole env, and replaying the actions since a reset with the same seed.
"""

from __future__ import annotations

import copy
import math
import random
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from sqirl.envs.actions import check_enumerable, discrete_actions
from sqirl.envs.calls import after, env_errors, finite_reward
from sqirl.envs.description import EnvDescription, time_limit, without_bookkeeping
from sqirl.envs.game import Game
from sqirl.envs.game_env import GameEnv
from sqirl.envs.own_states import distrusted, is_distrusted, saves_itself
from sqirl.envs.randomness import reseed_all
from sqirl.errors import NotEnumerable, WorkFailed

#: A game remembers transitions as long as its states take less than this.
MAX_BYTES = 500_000_000
#: Seconds for trying out one way of saving an env; a slow env is tried out with fewer steps.
TRY_SECONDS = 1.0
#: What is said of an env whose own methods are not used.
WRONG_STATES = " (not by its get_state and set_state: they do not bring it back, as `sqirl check` shows)"


class Simulator(Protocol):
    """An environment in which play can go back to an earlier moment and continue with other random outcomes."""

    name: str
    num_actions: int
    horizon: int | None
    saved_by: str

    def reset(self, seed: int) -> Any: ...  # the first observation
    def step(self, action: int) -> tuple[Any, float, bool]: ...  # observation, reward, is the episode over?
    def save(self) -> Any: ...
    def restore(self, saved: Any, seed: int) -> None: ...


def simulator_of(description: EnvDescription, *, horizon: int | None = None) -> Simulator:
    """The simulator of a described environment, with episodes of at most `horizon` steps (the env's own limit if None)."""
    if description.is_bridge:
        return GameSimulator(description, horizon=horizon)
    env = description.make_env()
    if isinstance(env.unwrapped, GameEnv) and not isinstance(env, gym.Wrapper):
        return GameSimulator(description, horizon=horizon)
    return EnvSimulator(env, description.name, horizon=horizon or description.horizon)


@dataclass(eq=False)
class _Node:
    """A state of a game that was visited, and what its actions led to: reward, and the next node, None at an end."""

    state: Any
    outcomes: dict[int, tuple[float, _Node | None]] = field(default_factory=dict)


class GameSimulator:
    """A game of BRIDGE with its sticky actions. No observation is made, because a screen costs more than a step.

    A game is deterministic, so a transition that was played before is remembered and not played again. That is done if saving a
    state is faster than a step, and as long as the states take less than `MAX_BYTES`.
    """

    def __init__(self, description: EnvDescription, *, horizon: int | None = None) -> None:
        self.name = description.name
        self.horizon = horizon or description.horizon
        self._game = description.make_game()
        self.num_actions = self._game.num_actions
        self.saved_by = self._game.saved_by
        self._stickiness = description.stickiness
        self._rng = np.random.default_rng(0)
        self._executed: int | None = None
        self._t = 0
        self._remembers = _saving_is_fast(self._game)
        self._game.reset()
        self._nodes: dict[bytes, _Node] = {}
        self._bytes = 0
        self._start = _Node(self._game.bare_state())
        self._here: _Node | None = self._start  # where play is; None where the game is, if that is not remembered
        self._live: _Node | None = self._start  # where the game is

    def reset(self, seed: int) -> Any:
        self._rng = np.random.default_rng(seed)
        self._here = self._start
        self._executed, self._t = None, 0
        return None

    def step(self, action: int) -> tuple[Any, float, bool]:
        if self._executed is not None and self._stickiness and self._rng.random() < self._stickiness:
            action = self._executed
        reward, over = self._move(action)
        self._executed = action
        self._t += 1
        return None, reward, over or (self.horizon is not None and self._t >= self.horizon)

    def _move(self, action: int) -> tuple[float, bool]:
        """Take the action, in memory if it was taken here before."""
        if self._here is not None and action in self._here.outcomes:
            reward, after = self._here.outcomes[action]
            self._here = after or self._here
            return reward, after is None
        if self._here is not None and self._live is not self._here:
            self._game.set_state(self._here.state)
        reward, over = self._game.step(action)
        before, self._here = self._here, None
        if self._remembers and before is not None:
            self._here = None if over else self._node_here()
            before.outcomes[action] = reward, self._here
        self._live = self._here
        return reward, over

    def _node_here(self) -> _Node | None:
        """The node of the state that the game is in; None if there is no more memory for it."""
        key = self._game.state_key()
        node = self._nodes.get(key)
        if node is None and self._bytes < MAX_BYTES:
            node = self._nodes[key] = _Node(self._game.bare_state())
            self._bytes += _size(node.state)
        return node

    def save(self) -> Any:
        if self._here is None:
            self._here = self._live = _Node(self._game.bare_state())
        return self._here, self._executed, self._t

    def restore(self, saved: Any, seed: int) -> None:
        self._here, self._executed, self._t = saved
        self._rng = np.random.default_rng(seed)


def _saving_is_fast(game: Game, steps: int = 5) -> bool:
    """Is a state saved faster than an action is taken?"""
    game.reset()
    stepping = saving = 0.0
    for _ in range(steps):
        began = time.perf_counter()
        over = game.step(0)[1]
        stepped = time.perf_counter()
        game.state_key()
        game.bare_state()
        stepping, saving = stepping + stepped - began, saving + time.perf_counter() - stepped
        if over:
            game.reset()
    return saving < stepping


def _size(state: Any) -> int:
    """About how many bytes a saved state takes."""
    parts = state if isinstance(state, tuple) else (state,)
    return 200 + sum(len(part) for part in parts if isinstance(part, bytes))


class EnvSimulator:
    """Any Gymnasium env with discrete actions. `_choose_way` decides how it is saved."""

    def __init__(self, env: gym.Env[Any, Any], name: str, *, horizon: int | None = None) -> None:
        self.name = name
        limit = time_limit(env)
        self.horizon = horizon if horizon is not None else limit
        self._env = without_bookkeeping(env)
        check_enumerable(self._env, name)
        self._env = discrete_actions(self._env)
        space: Any = self._env.action_space
        self.num_actions, self._first_action = int(space.n), int(space.start)
        self._t, self._seed, self._prefix = 0, 0, [0] * 0
        self._way: _Way = _OwnMethods()
        self._other_ways: tuple[_Way, ...] = ()
        self.saved_by = ""
        self.reset(0)
        self._choose_way((_OwnMethods(), _EmulatorStates(), _Copies(), _Replays()))

    @property
    def env(self) -> gym.Env[Any, Any]:
        """The env without the wrappers that only count steps."""
        return self._env

    def reset(self, seed: int) -> Any:
        self._t, self._seed, self._prefix = 0, seed, []
        with env_errors(self.name, "reset"):
            observation, _ = self._env.reset(seed=seed)
        return observation

    def step(self, action: int) -> tuple[Any, float, bool]:
        self._prefix.append(action)
        with env_errors(self.name, "step", self._prefix):
            observation, reward, terminated, truncated, _ = self._env.step(action + self._first_action)
        self._t += 1
        value = finite_reward(reward, self.name, after(self._prefix))
        over = terminated or truncated or (self.horizon is not None and self._t >= self.horizon)
        return observation, value, bool(over)

    def save(self) -> Any:
        with env_errors(self.name, "get_state"):
            return self._way.save(self), self._t, self._seed, tuple(self._prefix)

    def restore(self, saved: Any, seed: int) -> None:
        state, t, first_seed, prefix = saved
        with env_errors(self.name, "set_state"):
            self._way.restore(self, state, (first_seed, prefix))
        self._t, self._seed, self._prefix = t, first_seed, list(prefix)
        reseed(self._env, seed)

    def save_another_way(self) -> None:
        """Save in the next way that brings the env back, if there is one: states that were saved have turned out to be wrong."""
        if self._other_ways and not self._way.is_trusted:
            self._choose_way(self._other_ways)

    def _choose_way(self, ways: tuple[_Way, ...]) -> None:
        """The first way that brings the env back to the moment that was saved."""
        for place, way in enumerate(ways):
            if not way.is_possible(self._env):
                continue
            self._way, self._other_ways = way, ways[place + 1 :]
            if way.is_trusted or self._comes_back():
                self.saved_by = way.label + WRONG_STATES * is_distrusted(self._env)
                self.reset(0)
                return
            if isinstance(way, _OwnMethods):
                distrusted(self._env)
        raise NotEnumerable(
            f"{self.name} does not repeat an episode when it is reset with the same seed and plays the same actions; "
            "draw all randomness from self.np_random, or give the env get_state() and set_state(state)"
        )

    def _comes_back(self, steps: int = 12) -> bool:
        """Is play from a restored moment that of an episode without restoring, also after other play in between?"""
        rng, until = np.random.default_rng(0), time.monotonic() + TRY_SECONDS
        try:
            for trial in range(3):
                self.reset(trial)
                for _ in range(trial * 3):
                    if self.step(int(rng.integers(self.num_actions)))[2]:
                        self.reset(trial)
                saved, actions = self.save(), rng.integers(self.num_actions, size=steps).tolist()
                reseed(self._env, 1)
                played = self._play(actions, until)
                for _ in range(2):
                    self.restore(saved, 1)
                    if not same(played, self._play(actions[: len(played)])):
                        return False
                if time.monotonic() > until:
                    break
        except (WorkFailed, NotEnumerable):
            if isinstance(self._way, _OwnMethods | _Replays):
                raise
            return False
        return True

    def _play(self, actions: list[int], until: float = math.inf) -> list[Any]:
        seen = []
        for action in actions:
            observation, reward, over = self.step(action)
            seen.append((copy.deepcopy(observation), reward, over))
            if over or time.monotonic() > until:
                break
        return seen


class _Way:
    """One way to save and restore an env."""

    label = ""
    is_trusted = False  # need not be tried out

    def is_possible(self, env: gym.Env[Any, Any]) -> bool:
        raise NotImplementedError

    def save(self, simulator: EnvSimulator) -> Any:
        return None

    def restore(self, simulator: EnvSimulator, state: Any, played: tuple[int, tuple[int, ...]]) -> None:
        raise NotImplementedError


class _OwnMethods(_Way):
    label = "its own get_state and set_state"

    def is_possible(self, env: gym.Env[Any, Any]) -> bool:
        return saves_itself(env)

    def save(self, simulator: EnvSimulator) -> Any:
        return copy.deepcopy(simulator.env.unwrapped.get_state())  # type: ignore[attr-defined]

    def restore(self, simulator: EnvSimulator, state: Any, played: tuple[int, tuple[int, ...]]) -> None:
        simulator.env.unwrapped.set_state(copy.deepcopy(state))  # type: ignore[attr-defined]


class _EmulatorStates(_Way):
    label = "the emulator's saved states"
    is_trusted = True  # a saved state leaves out the random generator, so that play from it differs as it should

    def is_possible(self, env: gym.Env[Any, Any]) -> bool:
        return all(callable(getattr(env.unwrapped, method, None)) for method in ("clone_state", "restore_state"))

    def save(self, simulator: EnvSimulator) -> Any:
        return simulator.env.unwrapped.clone_state(include_rng=False)  # type: ignore[attr-defined]

    def restore(self, simulator: EnvSimulator, state: Any, played: tuple[int, tuple[int, ...]]) -> None:
        simulator.env.unwrapped.restore_state(state)  # type: ignore[attr-defined]


class _Copies(_Way):
    label = "copies of the whole env"

    def is_possible(self, env: gym.Env[Any, Any]) -> bool:
        try:
            return copy.deepcopy(env) is not env
        except Exception:
            return False

    def save(self, simulator: EnvSimulator) -> Any:
        return copy.deepcopy(simulator._env)

    def restore(self, simulator: EnvSimulator, state: Any, played: tuple[int, tuple[int, ...]]) -> None:
        simulator._env = copy.deepcopy(state)


class _Replays(_Way):
    label = "replaying its actions from a reset with the same seed"

    def is_possible(self, env: gym.Env[Any, Any]) -> bool:
        return True

    def restore(self, simulator: EnvSimulator, state: Any, played: tuple[int, tuple[int, ...]]) -> None:
        seed, prefix = played
        simulator.reset(seed)
        for action in prefix:
            simulator.step(action)


def reseed(env: gym.Env[Any, Any], seed: int) -> None:
    """Give all random generators of the env, its own and those of the process, new states."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (an env may draw from it)
    env.unwrapped.np_random = np.random.default_rng(seed)
    reseed_all(env, seed)


def same(first: Any, second: Any) -> bool:
    """Are two nested values equal, arrays included?"""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(first, second, equal_nan=np.asarray(first).dtype.kind == "f")
    return bool(first == second)
