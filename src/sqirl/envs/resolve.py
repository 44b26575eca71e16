"""From what a user types (an id, `module:Class`, an env) to a game that can be built."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from sqirl.envs.adapters import as_game, is_toy_text
from sqirl.envs.catalogue import near_matches, num_actions_of
from sqirl.envs.env import GameEnv
from sqirl.envs.game import Game
from sqirl.envs.ids import EnvId, is_bridge_id, parse_id
from sqirl.errors import UnknownEnv

EnvLike = str | EnvId | Game | gym.Env[Any, Any] | Mapping[int, Any]


@dataclass(frozen=True)
class Subject:
    """What is to be built: its name, the game, and what the id says of horizon and stickiness."""

    name: str
    make_game: Callable[[], Game]
    horizon: int | None
    stickiness: float = 0.0
    dynamics: Any = None  # an env that carries its own P, as toy_text does, or such a P itself
    remote_name: str | None = None  # what another process resolves to the same game; None for an object of this one


def resolve(target: EnvLike) -> Subject:
    """The subject that `target` names: an id, 'module:Class', an env, a game, or toy_text's P. Nothing is enumerated yet."""
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
    if not isinstance(target, str | Mapping):
        raise UnknownEnv(
            f"{target!r} is no env; give an id, 'module:Class', an env, a game, or dynamics as toy_text's P"
        )
    if isinstance(target, Mapping):
        return Subject("", _no_game, None, dynamics=target)
    make = _named_env(target)
    env = make()
    horizon = env.spec.max_episode_steps if env.spec else None
    if isinstance(env.unwrapped, GameEnv):
        return _subject_of_env(env)
    name = env.spec.id if env.spec and ":" not in target else target
    return Subject(
        name,
        lambda: as_game(lambda: without_bookkeeping(make()), name),
        horizon,
        dynamics=_dynamics(env),
        remote_name=target,
    )


def _no_game() -> Game:
    raise UnknownEnv("an MDP given as a table of dynamics has no game behind it")


def make_game(env_id: EnvId) -> Game:
    """The live game of a parsed id."""
    if env_id.suite == "minigrid":
        from sqirl.envs.minigrid import MiniGridGame

        return MiniGridGame(env_id.game)
    if env_id.suite == "atari":
        from sqirl.envs.atari import AtariGame

        return AtariGame(env_id.game, env_id.frameskip, env_id.horizon)
    from sqirl.envs.procgen import ProcgenGame

    assert env_id.mode is not None and env_id.level is not None
    return ProcgenGame(env_id.game, env_id.mode, env_id.level, env_id.frameskip, num_actions_of(env_id))


def _subject_of_env(env: gym.Env[Any, Any]) -> Subject:
    base = env.unwrapped
    name = env.spec.id if env.spec else type(base).__name__
    horizon = env.spec.max_episode_steps if env.spec else None
    if isinstance(base, GameEnv):
        return Subject(name, base.game.fresh, base.horizon, base.stickiness)
    bare = without_bookkeeping(copy.deepcopy(env))
    return Subject(name, lambda: as_game(lambda: copy.deepcopy(bare), name), horizon, dynamics=_dynamics(env))


#: Gymnasium's own wrappers that only count and check; their notes would make every moment a state of its own.
_BOOKKEEPING = (gym.wrappers.TimeLimit, gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)


def without_bookkeeping(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The env with those wrappers taken out, wherever they are."""
    while isinstance(env, _BOOKKEEPING):
        env = env.env
    if isinstance(env, gym.Wrapper):
        env.env = without_bookkeeping(env.env)
    return env


def _dynamics(env: gym.Env[Any, Any]) -> Any:
    """The env if its own P is all there is to it: a wrapper may change rewards, actions or ends, and P would not know."""
    bare = env
    while isinstance(bare, _BOOKKEEPING):
        bare = bare.env
    return bare if is_toy_text(bare) else None


def _named_env(name: str) -> Callable[[], gym.Env[Any, Any]]:
    """A maker for 'module:Class', 'file.py:Class' or a Gymnasium id."""
    if ":" in name:
        module_name, _, attribute = name.rpartition(":")
        if not module_name or not attribute:
            raise UnknownEnv(f"'{name}' is not of the form module:Class")
        factory = getattr(imported(module_name, name), attribute, None)
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


def imported(module_name: str, name: str) -> Any:
    """A module by its name or by its file."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # a user's own module lies where the command is typed
    try:
        if not module_name.endswith(".py"):
            return importlib.import_module(module_name)
        path = Path(module_name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise UnknownEnv(f"no file '{module_name}' (asked for as '{name}')")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # pickle looks classes up there
        spec.loader.exec_module(module)
        return module
    except UnknownEnv:
        raise
    except (Exception, SystemExit) as error:
        raise UnknownEnv(
            f"cannot import '{module_name}' (asked for as '{name}'): {type(error).__name__}: {error}"
        ) from error
