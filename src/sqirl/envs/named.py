"""Makes an env from its name: 'module:Class', 'file.py:Class', 'module:Id-v0' or a Gymnasium id."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from sqirl.envs.catalogue import near_matches
from sqirl.errors import UnknownEnv


def named_env(name: str) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes the env of that name. Raises `UnknownEnv` at once for a name that is not known."""
    if ":" in name:
        module_name, _, attribute = name.rpartition(":")
        if not module_name or not attribute:
            raise UnknownEnv(f"'{name}' is not of the form module:Class")
        factory = getattr(imported(module_name, name), attribute, None)
        if callable(factory):
            return lambda: _call(factory, name)
        if not re.search(r"-v\d+$", name):
            raise UnknownEnv(f"module '{module_name}' has no class or function '{attribute}' (in '{name}')")
        registered = _registered(attribute)  # the module has registered it
    else:
        registered = _registered(name)
    return lambda: _call(lambda: gym.make(registered, disable_env_checker=True), name)


def _registered(name: str) -> str:
    """The id in Gymnasium's registry. An old version that Gymnasium has removed is replaced by the newest, with a warning."""
    try:
        gym.spec(name)
        return name
    except gym.error.DeprecatedEnv:
        stem = name.rpartition("-v")[0]
        newest = max((known for known in gym.registry if known.rpartition("-v")[0] == stem), key=len, default=None)
        if newest is None:
            raise
        warnings.warn(f"this version of Gymnasium no longer has {name}; using {newest}", stacklevel=2)
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
    """A module by its name or by its file.

    :param module_name: the name of the module, or of a .py file
    :param name: the whole text that the user typed, for error messages
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # the user's own modules are in the current folder
    try:
        if not module_name.endswith(".py"):
            return importlib.import_module(module_name)
        path = Path(module_name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise UnknownEnv(f"no file '{module_name}' (in '{name}')")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # pickle looks for classes there
        spec.loader.exec_module(module)
        return module
    except UnknownEnv:
        raise
    except (Exception, SystemExit) as error:
        raise UnknownEnv(f"cannot import '{module_name}' (in '{name}'): {type(error).__name__}: {error}") from error
