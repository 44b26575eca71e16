"""The catalogue's ids in Gymnasium's registry. `import sqirl` calls `register_all`; nothing is built by it."""

from __future__ import annotations

import gymnasium as gym

from sqirl.envs.catalogue import catalogue
from sqirl.envs.env import GameEnv
from sqirl.envs.ids import EnvId, parse_id
from sqirl.envs.resolve import make_game


def register_all() -> None:
    """Register every id of the catalogue, sticky and not; safe to call twice."""
    for row in catalogue():
        for env_id in (row.env_id.deterministic(), row.env_id):
            name = str(env_id)
            if name not in gym.registry:
                gym.register(name, entry_point="sqirl.envs.registration:make_env", kwargs={"env_id": name})


def make_env(env_id: str | EnvId, *, render_mode: str | None = None) -> GameEnv:
    """The Gymnasium env of an id, with the id's horizon and stickiness; ids outside the catalogue too."""
    parsed = parse_id(env_id) if isinstance(env_id, str) else env_id
    game = make_game(parsed)
    return _env_class(parsed.suite)(game, horizon=parsed.horizon, stickiness=parsed.stickiness, render_mode=render_mode)


def _env_class(suite: str) -> type[GameEnv]:
    if suite == "minigrid":
        from sqirl.envs.minigrid import MiniGridEnv

        return MiniGridEnv
    if suite == "atari":
        from sqirl.envs.atari import AtariEnv

        return AtariEnv
    from sqirl.envs.procgen import ProcgenEnv

    return ProcgenEnv
