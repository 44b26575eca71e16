"""From a name to an env: 'module:Class', 'file.py:Class', 'module:Id-v0' or a Gymnasium id."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from sqirl.envs.catalogue import near_matches
from sqirl.errors import UnknownEnv


def named_env(name: str) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes the env of that name; a name that means nothing is an error here."""
    if ":" in name:
        module_name, _, attribute = name.rpartition(":")
        if not module_name or not attribute:
            raise UnknownEnv(f"'{name}' is not of the form module:Class")
        factory = getattr(imported(module_name, name), attribute, None)
        if callable(factory):
            return lambda: _call(factory, name)
        if not name.endswith(tuple(f"-v{digit}" for digit in range(10))):
            raise UnknownEnv(f"module '{module_name}' has no class or function '{attribute}' (asked for as '{name}')")
        registered = _registered(attribute)  # the module has registered it
    else:
        registered = _registered(name)
    return lambda: _call(lambda: gym.make(registered, disable_env_checker=True), name)


def _registered(name: str) -> str:
    """The id that Gymnasium knows; a version that it has retired is replaced by the newest one, with a warning."""
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
    """A module by its name or by its file; `name` is what was asked for, for the message of an error."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # a user's own module lies in the folder where the command is typed
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
