"""Finds stored MDPs: those that come with the package, and those that the user has built."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from sqirl.envs.catalogue import catalogue
from sqirl.envs.description import EnvDescription, EnvLike, describe
from sqirl.envs.ids import EnvId, parse_id
from sqirl.errors import InvalidMDP, UnknownEnv
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.tabular import TabularMDP


def user_folder() -> Path:
    """The folder of builds and runs: $SQIRL_HOME, or ~/.local/share/sqirl."""
    return Path(os.environ.get("SQIRL_HOME") or Path.home() / ".local" / "share" / "sqirl")


def shipped_folder() -> Path:
    """The folder of the MDPs that come with the package."""
    return Path(str(resources.files("sqirl.data"))) / "mdps"


def stored_mdp(env: EnvDescription | EnvId | str, horizon: int | None = None) -> TabularMDP | None:
    """The MDP of a BRIDGE id, sticky or not, from a file. None if there is no file, or if it is not a BRIDGE id.

    A build for a longer horizon contains the MDP of a shorter one, so a longer MDP is cut.

    :param env: the id or the description of the environment
    :param horizon: steps of an episode; that of the id if None
    """
    description = describe(env)
    env_id = description.bridge_id
    if env_id is None:
        return None
    horizon = horizon or env_id.horizon
    if env_id.depends_on_horizon and horizon != env_id.horizon:
        return None
    for folder in (user_folder() / "mdps", shipped_folder()):
        for _, path in sorted(_files_of_game(folder, env_id)):
            try:
                stored = TabularMDP.load(path)
            except InvalidMDP as error:  # one bad file must not stop those who ask for many
                warnings.warn(f"a file of your store is left out: {error}", stacklevel=2)
                continue
            if stored.depth is None or stored.depth >= horizon:
                return named_after(stored.cut(horizon), env_id)
    return None


def is_shipped(env_id: EnvId) -> bool:
    """Does the package contain the MDP of this id, or a longer one?"""
    return bool(_files_of_game(shipped_folder(), env_id))


def is_stored(env_id: EnvId) -> bool:
    """Is there a file with the MDP of this id, or a longer one? The files are not read."""
    return is_shipped(env_id) or bool(_files_of_game(user_folder() / "mdps", env_id))


def _files_of_game(folder: Path, env_id: EnvId) -> list[tuple[int, Path]]:
    """(horizon, file) of the MDPs in a folder that are the MDP of `env_id` or contain it."""
    found = ((_id_of(path), path) for path in folder.glob("*.npz"))
    return [(other.horizon, path) for other, path in found if other and is_prefix(env_id, other)]


def is_prefix(env_id: EnvId, other: EnvId) -> bool:
    """Are the episodes of `env_id` the first steps of those of `other`?

    In Skiing they are not, unless the horizons are equal, because its reward depends on the horizon.
    """
    same_game = replace(env_id, horizon=1, sticky=False) == replace(other, horizon=1, sticky=False)
    return same_game and (
        env_id.horizon == other.horizon or (env_id.horizon < other.horizon and not env_id.depends_on_horizon)
    )


def _id_of(path: Path) -> EnvId | None:
    try:
        return parse_id(f"BRIDGE/{path.stem}-v0")
    except UnknownEnv:
        return None


def targets_named(name: str) -> list[str]:
    """The ids that a name stands for: for a game of the catalogue the longest id of each level, else the name itself."""
    rows = [row.env_id.deterministic() for row in catalogue() if row.env_id.game == name]
    longest = [env_id for env_id in rows if not any(env_id != other and is_prefix(env_id, other) for other in rows)]
    return [str(env_id) for env_id in longest] or [name]


def open_mdp(
    target: EnvLike | EnvDescription,
    *,
    horizon: int | None = None,
    max_states: int = 1_000_000,
    progress: Callable[[BuildProgress], None] | None = None,
    **build_options: Any,
) -> TabularMDP:
    """The MDP of a file, or of an environment: from the store if it is there, else enumerated now.

    :param target: whatever `sqirl.envs.description.describe` takes
    :param horizon: steps of an episode; the env's own if None; not used for a file
    :param max_states: the largest number of states of an enumeration
    :param progress: called during an enumeration
    :param build_options: the other arguments of `build_mdp`, for an enumeration
    """
    description = describe(target)
    if description.file is not None:
        return TabularMDP.load(description.file)
    stored = stored_mdp(description, horizon)
    if stored is not None:
        return stored
    return build_mdp(description, horizon=horizon, max_states=max_states, progress=progress, **build_options)


def named_after(mdp: TabularMDP, env_id: EnvId) -> TabularMDP:
    """The MDP with the name and the stickiness of an id."""
    return replace(mdp, name=str(env_id), stickiness=env_id.stickiness)
