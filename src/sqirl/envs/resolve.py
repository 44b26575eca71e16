"""From what a user types (an id, `module:Class`, an env) to a game that can be built."""

from __future__ import annotations

import copy
import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from sqirl.envs.adapters import as_game, is_toy_text
from sqirl.envs.catalogue import near_matches
from sqirl.envs.env import GameEnv
from sqirl.envs.game import Game
from sqirl.envs.ids import EnvId, is_bridge_id, parse_id
from sqirl.errors import UnknownEnv

EnvLike = str | EnvId | Game | gym.Env[Any, Any]


@dataclass(frozen=True)
class Subject:
    """What is to be built: its name, the game, and what the id says of horizon and stickiness."""

    name: str
    make_game: Callable[[], Game]
    horizon: int | None
    stickiness: float = 0.0
    dynamics: gym.Env[Any, Any] | None = None  # an env that carries its own P, as toy_text does
    remote_name: str | None = None  # what another process resolves to the same game; None for an object of this one


def resolve(target: EnvLike) -> Subject:
    """The subject that `target` names; nothing is built yet."""
    if isinstance(target, str) and is_bridge_id(target):
        target = parse_id(target)
    if isinstance(target, EnvId):
        env_id = target
        name = str(env_id)
        return Subject(name, lambda: make_game(env_id), env_id.horizon, env_id.stickiness, remote_name=name)
    if isinstance(target, gym.Env):
        return _subject_of_env(target)
    if isinstance(target, Game):
        return Subject(target.name, target.fresh, None)
    make = _named_env(target)
    env = make()
    horizon = env.spec.max_episode_steps if env.spec else None
    # Without the time limit, whose counter would make every moment a state of its own
    bare = _without_time_limit(make) if env.spec else make
    dynamics = env if is_toy_text(env.unwrapped) else None
    return Subject(target, lambda: as_game(bare, target), horizon, dynamics=dynamics, remote_name=target)


def make_game(env_id: EnvId) -> Game:
    """The live game of a parsed id."""
    if env_id.suite == "minigrid":
        from sqirl.envs.minigrid import MiniGridGame

        return MiniGridGame(env_id.game)
    if env_id.suite == "atari":
        from sqirl.envs.atari import AtariGame

        return AtariGame(env_id.game, env_id.frameskip, env_id.horizon)
    raise UnknownEnv(f"'{env_id}': {env_id.suite} games cannot be played yet; MiniGrid, Atari and your own envs can")


def _subject_of_env(env: gym.Env[Any, Any]) -> Subject:
    base = env.unwrapped
    name = env.spec.id if env.spec else type(base).__name__
    horizon = env.spec.max_episode_steps if env.spec else None
    if isinstance(base, GameEnv):
        return Subject(name, lambda: base.game, base.horizon, base.stickiness)
    while isinstance(env, gym.wrappers.TimeLimit):
        env = env.env
    dynamics = env if is_toy_text(base) else None
    return Subject(name, lambda: as_game(lambda: copy.deepcopy(env), name), horizon, dynamics=dynamics)


def _without_time_limit(make: Callable[[], gym.Env[Any, Any]]) -> Callable[[], gym.Env[Any, Any]]:
    def bare() -> gym.Env[Any, Any]:
        env = make()
        return gym.make(env.spec.id, max_episode_steps=-1, disable_env_checker=True) if env.spec else env

    return bare


def _named_env(name: str) -> Callable[[], gym.Env[Any, Any]]:
    """A maker for 'module:Class', 'file.py:Class' or a Gymnasium id."""
    if ":" in name:
        module_name, _, attribute = name.partition(":")
        factory = getattr(_import(module_name, name), attribute, None)
        if callable(factory):
            return lambda: _call(factory, name)
        if not name.endswith(tuple(f"-v{digit}" for digit in range(10))):
            raise UnknownEnv(f"module '{module_name}' has no class or function '{attribute}' (asked for as '{name}')")
    registered = _registered(name)
    return lambda: _call(lambda: gym.make(registered, disable_env_checker=True), name)


def _registered(name: str) -> str:
    """The id that Gymnasium knows; a version that it has retired is replaced by the newest, and that is said."""
    try:
        gym.spec(name)
        return name
    except gym.error.DeprecatedEnv:
        stem = name.rpartition("-v")[0]
        newest = max((known for known in gym.registry if known.rpartition("-v")[0] == stem), key=len, default=None)
        if newest is None:
            raise
        warnings.warn(f"this Gymnasium has retired {name}; using {newest}", stacklevel=2)
        return newest
    except gym.error.Error as error:
        raise UnknownEnv(f"no environment named '{name}'{near_matches(name)}") from error


def _call(factory: Callable[[], Any], name: str) -> gym.Env[Any, Any]:
    try:
        env = factory()
    except Exception as error:
        raise UnknownEnv(f"'{name}' could not be made: {type(error).__name__}: {error}") from error
    if not isinstance(env, gym.Env):
        raise UnknownEnv(f"'{name}' made a {type(env).__name__}, not a gymnasium.Env")
    return env


def _import(module_name: str, name: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # a user's own module lies where the command is typed
    try:
        return importlib.import_module(module_name.removesuffix(".py").replace("/", "."))
    except ImportError as error:
        raise UnknownEnv(f"cannot import '{module_name}' (asked for as '{name}'): {error}") from error
