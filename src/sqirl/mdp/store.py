"""Where MDPs are found: shipped with the package, or built before into the user's folder."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from sqirl.envs.catalogue import catalogue
from sqirl.envs.description import EnvDescription, EnvLike, describe
from sqirl.envs.ids import EnvId, parse_id
from sqirl.errors import UnknownEnv
from sqirl.mdp.build import build_mdp
from sqirl.mdp.tabular import TabularMDP


def user_folder() -> Path:
    """$SQIRL_HOME, or ~/.local/share/sqirl: builds and runs are written there and found there."""
    return Path(os.environ.get("SQIRL_HOME") or Path.home() / ".local" / "share" / "sqirl")


def shipped_folder() -> Path:
    """The folder of the MDPs that come with the package."""
    return Path(str(resources.files("sqirl.data"))) / "mdps"


def stored_mdp(env: EnvDescription | EnvId | str, horizon: int | None = None) -> TabularMDP | None:
    """The MDP of a BRIDGE id, sticky or not, if a file holds it or holds a longer one; else None.

    All horizons of a game are prefixes of one enumeration, so the MDP of a longer horizon is cut.
    """
    description = describe(env)
    env_id = description.bridge_id
    if env_id is None:
        return None
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
    """Are the episodes of `env_id` the first steps of those of `other`? Never in Skiing, which pays at the horizon."""
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


def open_mdp(
    target: EnvLike | EnvDescription | Path, *, horizon: int | None = None, **build_options: Any
) -> TabularMDP:
    """The MDP of a file, of an id that is stored, or else of a live game, which is enumerated now.

    :param target: an .npz file, an id, 'module:Class', an env, a game, or toy_text's P
    :param horizon: steps of an episode; the env's own if None
    :param build_options: handed to `build_mdp` if the game must be enumerated
    """
    if isinstance(target, Path) or (isinstance(target, str) and target.endswith(".npz")):
        return TabularMDP.load(target)
    description = describe(target)
    stored = stored_mdp(description, horizon)
    return stored if stored is not None else build_mdp(description, horizon=horizon, **build_options)


def named_after(mdp: TabularMDP, env_id: EnvId) -> TabularMDP:
    """The stored MDP under the id that was asked for: its name and its stickiness."""
    return replace(mdp, name=str(env_id), stickiness=env_id.stickiness)
