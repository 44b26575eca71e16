"""Registers the ids of the catalogue with Gymnasium. `import sqirl` calls `register_all`, which makes no env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from sqirl.envs.catalogue import catalogue
from sqirl.envs.ids import EnvId


def register_all() -> None:
    """Register every id of the catalogue, sticky and not. A second call changes nothing."""
    for row in catalogue():
        for env_id in (row.env_id.deterministic(), row.env_id):
            name = str(env_id)
            if name not in gym.registry:
                gym.register(name, entry_point="sqirl.envs.registration:make_env", kwargs={"env_id": name})


def make_env(
    env_id: str | EnvId, *, render_mode: str | None = None, env_kwargs: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """The live env of a name: a BRIDGE id, in the catalogue or not, or any other name that `describe` takes.

    :param env_id: such as "BRIDGE/freeway_10_fs30-Sticky-v0", "MiniGrid-Empty-8x8-v0" or "module:Class"
    :param render_mode: None or "rgb_array"
    :param env_kwargs: keyword arguments for making the env, if it is not a BRIDGE id
    """
    from sqirl.envs.description import describe

    return describe(env_id, env_kwargs=env_kwargs).make_env(render_mode=render_mode)
