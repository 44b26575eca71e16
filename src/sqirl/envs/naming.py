"""Names of environments as texts: keyword arguments inside a name, the packages that register ids, and similar names.

A name may end with keyword arguments, as JSON after a blank: 'FrozenLake-v1 {"is_slippery": false}'. Results, files and workers
use this text, so an env with other arguments is another env everywhere.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from sqirl.envs.catalogue import similar_ids
from sqirl.envs.ids import is_bridge_id
from sqirl.errors import SqirlError, UnknownEnv

#: Between a name and its keyword arguments.
_SEPARATOR = " {"
#: The keyword argument of a name that is not for the env: attributes that are held at their value of the start.
HOLD = "sqirl:hold"
#: Likewise: the steps of an episode.
HORIZON = "sqirl:horizon"
#: How similar a suggestion must be, between 0 and 1, and how many are made.
_SIMILAR, _SUGGESTIONS = 0.7, 3


@dataclass(frozen=True)
class Provider:
    """A package that registers ids with Gymnasium when it is imported."""

    module: str
    install: str
    ids: str  # a regular expression of ids that no other package has
    other_ids: str = r"(?!)"  # of ids that another package may have too

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def load(self) -> None:
        """Import it, without the lines that the Atari emulator prints when it starts."""
        module = importlib.import_module(self.module)
        if self.module == "ale_py":
            module.ALEInterface.setLoggerMode(module.LoggerMode.Error)


PROVIDERS = (
    Provider("minigrid", "'sqirl[minigrid]'", r"MiniGrid-|BabyAI-"),
    Provider("ale_py", "'sqirl[atari]'", r"ALE/|.*(NoFrameskip|Deterministic|-ram)-v\d", r"[A-Z][A-Za-z]+-v[04]$"),
    Provider("gymnasium_robotics", "gymnasium-robotics", r"Fetch|Hand|PointMaze|AntMaze|Adroit|FrankaKitchen"),
    Provider("highway_env", "highway-env", r"highway-|merge-|roundabout-|parking-|intersection-|racetrack-|exit-"),
    Provider("miniworld", "miniworld", r"MiniWorld-"),
)


def name_with(name: str, kwargs: Mapping[str, Any] | None) -> str:
    """The name with keyword arguments of the env added to it; arguments that it has already are replaced."""
    if not kwargs:
        return name
    bare, known = split_name(name)
    try:
        return f"{bare} {json.dumps({**known, **kwargs}, sort_keys=True)}"
    except TypeError as error:
        raise SqirlError(f"the arguments of {bare} cannot be written as JSON ({error}); give an env instead") from error


def split_name(text: str) -> tuple[str, dict[str, Any]]:
    """The name without its keyword arguments, and these."""
    name, separator, rest = text.partition(_SEPARATOR)
    return (name, parse_kwargs("{" + rest)) if separator else (text, {})


def split_held(kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments of the env, and the names of attributes to hold (see `sqirl.envs.counters`)."""
    own = {name: value for name, value in kwargs.items() if name not in (HOLD, HORIZON)}
    return own, tuple(kwargs.get(HOLD, ()))


def asked_horizon(kwargs: Mapping[str, Any]) -> int | None:
    """The steps of an episode that the keyword arguments of a name ask for."""
    horizon = kwargs.get(HORIZON)
    if horizon is not None and (type(horizon) is not int or horizon < 1):
        raise SqirlError(f"horizon {horizon} is not a whole number from 1 on")
    return horizon


def parse_kwargs(text: str | None) -> dict[str, Any]:
    """Keyword arguments from JSON: '{"is_slippery": false}'."""
    try:
        kwargs = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise SqirlError(
            f"the arguments '{text}' of an env are not JSON ({error}); write {{\"is_slippery\": false}}"
        ) from error
    if not isinstance(kwargs, dict):
        raise SqirlError(f"the arguments '{text}' of an env are not an object; write {{\"is_slippery\": false}}")
    return kwargs


def is_mdp_file(name: str) -> bool:
    """Is it the name of a file with an MDP?"""
    return name.endswith(".npz")


def import_provider(name: str) -> None:
    """Import the package that registers this id with Gymnasium. Raises `UnknownEnv` if it is not installed."""
    for provider in PROVIDERS:
        if not re.match(f"{provider.ids}|{provider.other_ids}", name):
            continue
        if provider.is_installed():
            provider.load()
            return
        if re.match(provider.other_ids, name):
            continue
        raise UnknownEnv(
            f"'{name}' is an id of the package {provider.module}, which is not installed; "
            f"install it with: pip install {provider.install}"
        )


def suggestions(name: str) -> str:
    """The end of an error message: '; did you mean A or B?', or where to find all names."""
    bare, _ = split_name(name)
    if bare.endswith(".py") and os.path.isfile(bare):
        return f"; name the class of the env as well: {bare}:Class"
    close = similar_ids(bare) + ([] if is_bridge_id(bare) else _similar_registered_ids(bare))
    close.sort(key=lambda known: -_likeness(bare, known))
    if not close:
        return (
            "; give an id (`sqirl envs` lists the paper's, Gymnasium's are like CartPole-v1, MiniGrid-Empty-8x8-v0 or "
            "ALE/Pong-v5), your own env as module:Class, or an .npz file"
        )
    return f"; did you mean {' or '.join(close[:_SUGGESTIONS])}?"


def _similar_registered_ids(name: str) -> list[str]:
    """Ids in Gymnasium's registry that look like the name; the packages that register ids are imported first."""
    for provider in PROVIDERS:
        if provider.is_installed():
            provider.load()
    by_stem: dict[str, str] = {}
    for known in gym.registry:
        if not is_bridge_id(known):
            stem = _stem(known).lower()
            by_stem[stem] = max(by_stem.get(stem, known), known, key=version_of)
    wanted = _stem(name).lower()
    same_game = [known for stem, known in by_stem.items() if stem.rpartition("/")[2] == wanted.rpartition("/")[2]]
    close = difflib.get_close_matches(wanted, by_stem, n=_SUGGESTIONS, cutoff=_SIMILAR)
    return list(dict.fromkeys([*same_game, *(by_stem[stem] for stem in close)]))


def _likeness(name: str, known: str) -> float:
    one, other = (_stem(text).rpartition("/")[2].lower() for text in (name, known))
    return difflib.SequenceMatcher(None, one, other).ratio()


def similar_names(wanted: str, known: Iterable[str]) -> str:
    """The end of an error message about a name in a module or a folder; empty if nothing is similar."""
    close = difflib.get_close_matches(wanted, list(known), n=_SUGGESTIONS, cutoff=_SIMILAR)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def similar_files(path: Path) -> str:
    """The end of an error message about a file that does not exist."""
    if not os.path.isdir(path.parent):
        return ""
    others = (other.name for other in path.parent.glob(f"*{path.suffix}") if other.name != path.name)
    return similar_names(path.name, others)


def version_of(env_id: str) -> int:
    """3 for 'Taxi-v3', -1 for an id without a version."""
    found = re.search(r"-v(\d+)$", env_id)
    return int(found[1]) if found else -1


def _stem(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)
