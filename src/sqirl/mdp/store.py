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


def stored_mdp(env_id: EnvId, horizon: int | None = None) -> TabularMDP | None:
    """The MDP of an id, sticky or not, if a file holds it or a longer one of which it is the first steps."""
    horizon = horizon or env_id.horizon
    for folder in (user_folder() / "mdps", shipped_folder()):
        for _, path in sorted(_files_of_game(folder, env_id)):
            stored = TabularMDP.load(path)
            if stored.depth is None or stored.depth >= horizon:
                return named_after(stored.cut(horizon), env_id)
    return None


def is_shipped(env_id: EnvId) -> bool:
    return bool(_files_of_game(shipped_folder(), env_id))


def _files_of_game(folder: Path, env_id: EnvId) -> list[tuple[int, Path]]:
    """(horizon, file) of the MDPs in a folder whose first steps are the episodes of `env_id`."""
    found = ((_id_of(path), path) for path in folder.glob("*.npz"))
    return [(other.horizon, path) for other, path in found if other and is_prefix(env_id, other)]


def is_prefix(env_id: EnvId, other: EnvId) -> bool:
    """Are the episodes of `env_id` the first steps of those of `other`? (Skiing pays at the horizon, so there never.)"""
    same_game = replace(env_id, horizon=1, sticky=False) == replace(other, horizon=1, sticky=False)
    return same_game and (
        env_id.horizon == other.horizon or (env_id.horizon < other.horizon and env_id.game != "skiing")
    )


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
    if isinstance(target, EnvId) and (stored := stored_mdp(target, horizon)) is not None:
        return stored
    return build_mdp(target, horizon=horizon, **build_options)


def named_after(mdp: TabularMDP, env_id: EnvId) -> TabularMDP:
    """The stored MDP under the asked id: its name and its stickiness."""
    return replace(mdp, name=str(env_id), stickiness=env_id.stickiness)
