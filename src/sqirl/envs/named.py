"""Makes an env from its name: 'module:Class', 'module:factory', 'file.py:Class', 'module:Id-v0' or a Gymnasium id."""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym

from sqirl.envs.actions import discrete_actions
from sqirl.envs.calls import place_of
from sqirl.envs.naming import (
    import_provider,
    similar_files,
    similar_names,
    split_held,
    split_name,
    suggestions,
    version_of,
)
from sqirl.errors import OPTIONAL_MODULES, UnknownEnv, one_line

#: Modules that sqirl may import after a user's.
_IMPORTED_LATER = {__name__.partition(".")[0], "scipy", "numba", "matplotlib", *OPTIONAL_MODULES}


def named_env(text: str) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes the env of that name. Raises `UnknownEnv` at once for a name that is not known.

    :param text: the name, with or without keyword arguments (see `sqirl.envs.naming`)
    """
    name, arguments = split_name(text)
    kwargs, _ = split_held(arguments)
    if ":" not in name:
        return _registered_env(registered_id(name), text, kwargs)
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise UnknownEnv(f"'{name}' is not of the form module:Class")
    module = imported(module_name, name)
    factory = getattr(module, attribute, None)
    if callable(factory):
        return lambda: _call(lambda: factory(**kwargs), text)
    if not re.search(r"-v\d+$", name):
        known = [key for key, value in vars(module).items() if callable(value)]
        raise UnknownEnv(
            f"module '{module_name}' has no class or function '{attribute}' (in '{name}')"
            f"{similar_names(attribute, known)}"
        )
    return _registered_env(registered_id(attribute), text, kwargs)  # the module has registered it


def _registered_env(env_id: str, text: str, kwargs: Mapping[str, Any]) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: _call(lambda: gym.make(env_id, disable_env_checker=True, **kwargs), text)


def registered_id(name: str) -> str:
    """The id in Gymnasium's registry; the package that registers it is imported.

    An old version that Gymnasium has removed is replaced by the newest one, with a warning.
    """
    if name not in gym.registry:
        import_provider(name)
    try:
        gym.spec(name)
        return name
    except gym.error.DeprecatedEnv:
        stem = name.rpartition("-v")[0]
        versions = [known for known in gym.registry if known.rpartition("-v")[0] == stem]
        if not versions:
            raise
        newest = max(versions, key=version_of)
        warnings.warn(f"this version of Gymnasium no longer has {name}; using {newest}", stacklevel=2)
        return newest
    except gym.error.Error as error:
        raise UnknownEnv(f"no environment named '{name}'{suggestions(name)}") from error


def _call(factory: Callable[[], Any], name: str) -> gym.Env[Any, Any]:
    try:
        env = factory()
    except (Exception, SystemExit) as error:
        reason = one_line(str(error)) or "no message"
        raise UnknownEnv(f"'{name}' could not be made: {type(error).__name__}: {reason}{place_of(error)}") from error
    if not isinstance(env, gym.Env):
        raise UnknownEnv(f"'{name}' made an object of type {type(env).__name__}, not a gymnasium.Env")
    return discrete_actions(env)


@contextmanager
def _own_modules_first() -> Iterator[None]:
    """Import the user's own modules, which are in the current folder, before others of the same names, as Python does.

    Afterwards the folder is the last one: libraries that are imported later are not taken for a `random.py` in it.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)  # the first one


def _from_file(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UnknownEnv(f"no file '{path}' (in '{name}'){similar_files(path)}")
    if _is_library(path.stem):
        raise UnknownEnv(f"the file '{path}' (in '{name}') has the name of a library, {path.stem}; rename the file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # pickle looks for classes there
    spec.loader.exec_module(module)
    return module


def _is_library(name: str) -> bool:
    """Does Python, or sqirl, need another module of this name? In its place the user's would break what imports it."""
    loaded = getattr(sys.modules.get(name), "__file__", None) or ""
    libraries = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return name in sys.stdlib_module_names or name in _IMPORTED_LATER or loaded.startswith(libraries)


def imported(module_name: str, name: str) -> Any:
    """A module by its name or by its file.

    :param module_name: the name of the module, or of a .py file
    :param name: the whole text that the user typed, for error messages
    """
    try:
        with _own_modules_first():
            return _from_file(Path(module_name), name) if module_name.endswith(".py") else import_module(module_name)
    except UnknownEnv:
        raise
    except (Exception, SystemExit) as error:
        hint = similar_files(Path(f"{module_name}.py")) if isinstance(error, ModuleNotFoundError) else ""
        raise UnknownEnv(
            f"cannot import '{module_name}' (in '{name}'): {type(error).__name__}: {error}{hint}"
        ) from error
