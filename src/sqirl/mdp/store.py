"""Where MDPs are found: shipped with the package, or built before into the user's folder."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from sqirl.envs.catalogue import catalogue
from sqirl.envs.ids import EnvId, is_bridge_id, parse_id
from sqirl.envs.resolve import EnvLike
from sqirl.errors import UnknownEnv
from sqirl.mdp.build import build_mdp
from sqirl.mdp.tabular import TabularMDP


def user_folder() -> Path:
    """$SQIRL_HOME, or ~/.local/share/sqirl: what builds write and analyses find."""
    return Path(os.environ.get("SQIRL_HOME") or Path.home() / ".local" / "share" / "sqirl")


def shipped_folder() -> Path:
    return Path(str(resources.files("sqirl.data"))) / "mdps"


def stored_path(env_id: EnvId) -> Path | None:
    """The file that holds the MDP of an id, sticky or not, or one of a longer horizon, from which it can be cut."""
    for folder in (user_folder() / "mdps", shipped_folder()):
        longer = [
            (candidate.horizon, path)
            for path in folder.glob(f"{env_id.stem.removesuffix(_tail(env_id))}*.npz")
            if (candidate := _id_of(path)) and is_prefix(env_id, candidate)
        ]
        if longer:
            return min(longer)[1]
    return None


def is_prefix(env_id: EnvId, other: EnvId) -> bool:
    """Are the episodes of `env_id` the first steps of those of `other`? (Skiing pays at the horizon, so there never.)"""
    same_game = replace(env_id, horizon=1, sticky=False) == replace(other, horizon=1, sticky=False)
    return same_game and (
        env_id.horizon == other.horizon or (env_id.horizon < other.horizon and env_id.game != "skiing")
    )


def _tail(env_id: EnvId) -> str:
    return "" if env_id.suite == "minigrid" else f"{env_id.horizon}_fs{env_id.frameskip}"


def _id_of(path: Path) -> EnvId | None:
    try:
        return parse_id(f"BRIDGE/{path.stem}-v0")
    except UnknownEnv:
        return None


def targets_named(name: str) -> list[str]:
    """What a name asks to build: an id as it is; a game of the catalogue as the longest id of each of its levels."""
    rows = [row.env_id.deterministic() for row in catalogue() if row.env_id.game == name]
    longest = [env_id for env_id in rows if not any(env_id != other and is_prefix(env_id, other) for other in rows)]
    return [str(env_id) for env_id in longest] or [name]


def open_mdp(target: EnvLike | Path, *, horizon: int | None = None, **build_options: Any) -> TabularMDP:
    """The MDP of a file, of an id whose MDP is at hand, or else of a live game enumerated now."""
    if isinstance(target, Path) or (isinstance(target, str) and target.endswith(".npz")):
        return TabularMDP.load(target)
    if isinstance(target, str) and is_bridge_id(target):
        target = parse_id(target)
    if isinstance(target, EnvId):
        path = stored_path(target)
        if path is not None:
            stored = TabularMDP.load(path)
            if horizon is None or stored.depth is None or stored.depth >= horizon:
                return named_after(stored.cut(horizon or target.horizon), target)
    return build_mdp(target, horizon=horizon, **build_options)


def named_after(mdp: TabularMDP, env_id: EnvId) -> TabularMDP:
    """The stored MDP under the asked id: its name and its stickiness."""
    return replace(mdp, name=str(env_id), stickiness=env_id.stickiness)
