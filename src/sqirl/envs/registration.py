"""Registers the ids of the catalogue with Gymnasium. `import sqirl` calls `register_all`, which makes no env."""

from __future__ import annotations

import gymnasium as gym

from sqirl.envs.catalogue import catalogue
from sqirl.envs.game_env import GameEnv
from sqirl.envs.ids import EnvId, parse_id


def register_all() -> None:
    """Register every id of the catalogue, sticky and not. A second call changes nothing."""
    for row in catalogue():
        for env_id in (row.env_id.deterministic(), row.env_id):
            name = str(env_id)
            if name not in gym.registry:
                gym.register(name, entry_point="sqirl.envs.registration:make_env", kwargs={"env_id": name})


def make_env(env_id: str | EnvId, *, render_mode: str | None = None) -> GameEnv:
    """The Gymnasium env of a BRIDGE id, with the horizon and stickiness of the id. The id need not be in the catalogue.

    :param env_id: such as "BRIDGE/freeway_10_fs30-Sticky-v0"
    :param render_mode: None or "rgb_array"
    """
    from sqirl.envs.description import describe

    parsed = parse_id(env_id) if isinstance(env_id, str) else env_id
    return describe(parsed).make_game_env(render_mode=render_mode)
