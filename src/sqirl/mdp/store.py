"""Where MDPs are found: shipped with the package, or built before into the user's folder."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

from sqirl.envs.ids import EnvId, is_bridge_id, parse_id
from sqirl.envs.resolve import EnvLike
from sqirl.mdp.build import build_mdp
from sqirl.mdp.tabular import TabularMDP


def user_folder() -> Path:
    """$SQIRL_HOME, or ~/.local/share/sqirl: what builds write and analyses find."""
    return Path(os.environ.get("SQIRL_HOME") or Path.home() / ".local" / "share" / "sqirl")


def shipped_folder() -> Path:
    return Path(str(resources.files("sqirl.data"))) / "mdps"


def stored_path(env_id: EnvId) -> Path | None:
    """The file that holds the MDP of an id, sticky or not, if there is one."""
    for folder in (user_folder() / "mdps", shipped_folder()):
        path = folder / f"{env_id.stem}.npz"
        if path.is_file():
            return path
    return None


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
                return named_after(stored, target)
    return build_mdp(target, horizon=horizon, **build_options)


def named_after(mdp: TabularMDP, env_id: EnvId) -> TabularMDP:
    """The stored MDP under the asked id: its name and its stickiness."""
    from dataclasses import replace

    return replace(mdp, name=str(env_id), stickiness=env_id.stickiness)
