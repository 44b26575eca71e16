"""The catalogue's ids in Gymnasium's registry. `import sqirl` calls `register_all`; nothing is built by it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sqirl.envs.catalogue import catalogue
from sqirl.envs.env import GameEnv
from sqirl.envs.ids import EnvId, parse_id
from sqirl.errors import UnknownEnv

#: The suites that have live games.
PLAYABLE = ("minigrid", "atari")


def register_all() -> None:
    """Register every playable id of the catalogue, sticky and not; safe to call twice."""
    for row in catalogue():
        for env_id in (row.env_id.deterministic(), row.env_id):
            name = str(env_id)
            if row.env_id.suite in PLAYABLE and name not in gym.registry:
                gym.register(name, entry_point="sqirl.envs.registration:make_env", kwargs={"env_id": name})


def make_env(env_id: str | EnvId, *, render_mode: str | None = None, **kwargs: Any) -> GameEnv:
    """The Gymnasium env of an id, with the id's horizon and stickiness."""
    parsed = parse_id(env_id) if isinstance(env_id, str) else env_id
    if parsed.suite == "minigrid":
        from sqirl.envs.minigrid import MiniGridEnv

        return MiniGridEnv(
            parsed.game, horizon=parsed.horizon, stickiness=parsed.stickiness, render_mode=render_mode, **kwargs
        )
    if parsed.suite == "atari":
        from sqirl.envs.atari import AtariEnv

        return AtariEnv(
            parsed.game,
            parsed.frameskip,
            horizon=parsed.horizon,
            stickiness=parsed.stickiness,
            render_mode=render_mode,
            **kwargs,
        )
    raise UnknownEnv(f"'{env_id}': {parsed.suite} games cannot be played yet; MiniGrid and Atari can")
