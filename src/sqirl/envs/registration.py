"""The catalogue's ids in Gymnasium's registry. `import sqirl` calls `register_all`; nothing is built by it."""

from __future__ import annotations

import gymnasium as gym

from sqirl.envs.catalogue import catalogue
from sqirl.envs.env import GameEnv
from sqirl.envs.game import Game
from sqirl.envs.ids import EnvId, parse_id
from sqirl.envs.resolve import make_game
from sqirl.envs.view import View


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
    return GameEnv(
        game,
        view_of(parsed, _shape_of(game)),
        horizon=parsed.horizon,
        stickiness=parsed.stickiness,
        render_mode=render_mode,
    )


def view_of(env_id: EnvId, screen_shape: tuple[int, ...] | None = None) -> View:
    """What an agent sees of the games of an id; MiniGrid's depends on the size of the grid, which the game is asked for."""
    if env_id.suite == "minigrid":
        from sqirl.envs import minigrid

        return minigrid.view_of(screen_shape or _shape_of(make_game(env_id)))
    if env_id.suite == "atari":
        from sqirl.envs import atari

        return atari.VIEW
    from sqirl.envs import procgen

    return procgen.VIEW


def _shape_of(game: Game) -> tuple[int, ...]:
    screen = game.screen()
    assert screen is not None
    return screen.shape
