"""From a state of the table back to the live game."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sqirl.envs.adapters import ToyText
from sqirl.envs.description import describe
from sqirl.envs.game import Game
from sqirl.errors import SqirlError, WorkFailed
from sqirl.mdp.reach import path_to
from sqirl.mdp.tabular import TabularMDP


def live_game(mdp: TabularMDP) -> Game:
    """A fresh game of the kind that the MDP was enumerated from."""
    if mdp.make_game is not None:
        return mdp.make_game()
    try:
        return describe(mdp.name).make_game()
    except SqirlError as error:
        raise WorkFailed(
            f"the game behind '{mdp.name}' is not at hand, so its states cannot be played: {error}"
        ) from error


def env_at(mdp: TabularMDP, state: int) -> Game:
    """A live game in `state`, brought there by playing the shortest path from the start."""
    game = live_game(mdp)
    if mdp.transitions is None and isinstance(game, ToyText):
        game.set_state((state, state))  # a path of random outcomes cannot be replayed, but the state can be set
        return game
    if mdp.transitions is None:
        raise WorkFailed(f"'{mdp.name}' has random outcomes; a path through it cannot be replayed")
    play(game, path_to(mdp, state))
    return game


def play(game: Game, actions: Sequence[int], *, seed: int = 0) -> None:
    """Reset the game and take the actions; `seed` is for chance that a deterministic game has no use for."""
    game.reset()
    game.reseed(seed)
    for action in actions:
        game.step(action)


def render(mdp: TabularMDP, state: int) -> np.ndarray:
    """An RGB picture of `state`."""
    return _picture(mdp, env_at(mdp, state))


def picture_after(mdp: TabularMDP, actions: Sequence[int]) -> np.ndarray:
    """An RGB picture of where these actions lead from the start."""
    game = live_game(mdp)
    play(game, actions)
    return _picture(mdp, game)


def _picture(mdp: TabularMDP, game: Game) -> np.ndarray:
    picture = game.render()
    if picture is None:
        raise WorkFailed(f"'{mdp.name}' draws no pictures; make its env with render_mode='rgb_array'")
    return picture
