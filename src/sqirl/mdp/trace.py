"""Plays the live game to a state of its MDP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sqirl.envs.adapters import ToyText
from sqirl.envs.description import describe
from sqirl.envs.game import Game
from sqirl.envs.starts import StartsBySeed
from sqirl.errors import InvalidMDP, SqirlError, WorkFailed
from sqirl.mdp.reach import breadth_first_tree
from sqirl.mdp.tabular import TabularMDP


def live_game(mdp: TabularMDP) -> Game:
    """A new copy of the game that the MDP was built from."""
    if mdp.make_game is not None:
        return mdp.make_game()
    try:
        return describe(mdp.name).make_game()
    except SqirlError as error:
        raise WorkFailed(
            f"the game of the MDP '{mdp.name}' is not available, so its states cannot be played: {error}"
        ) from error


def env_at(mdp: TabularMDP, state: int) -> Game:
    """A live game in `state`, after playing the shortest path from the start."""
    game = live_game(mdp)
    if mdp.transitions is None and isinstance(game, ToyText):
        game.set_state((state, state))  # random outcomes cannot be replayed, but this state can be set
        return game
    if mdp.transitions is None:
        raise WorkFailed(f"'{mdp.name}' has random outcomes, so a path to state {state} cannot be replayed")
    if not 0 <= state < mdp.num_states:
        raise InvalidMDP(f"state {state} is outside 0..{mdp.num_states - 1}")
    start, path = breadth_first_tree(mdp).start_and_path(state)
    play(game, path, start_seed=start_seed_of(mdp, start))
    return game


def start_seed_of(mdp: TabularMDP, start: int) -> int | None:
    """The seed with which the live game starts in a start state; None if its start is fixed."""
    if mdp.start_seeds is not None:
        return int(mdp.start_seeds[mdp.start_states == start][0])
    if len(mdp.start_states) > 1:
        raise WorkFailed(f"'{mdp.name}' draws its starts without a seed, so start {start} cannot be played again")
    return None


def play(game: Game, actions: Sequence[int], *, seed: int = 0, start_seed: int | None = None) -> None:
    """Reset the game and take the actions.

    :param actions: the actions to take
    :param seed: seed of the game's random generator; a deterministic game does not draw from it
    :param start_seed: seed of the reset, for a game with random starts
    """
    if start_seed is not None and isinstance(game, StartsBySeed):
        game.start(start_seed)
    else:
        game.reset()
    game.reseed(seed)
    for action in actions:
        game.step(action)


def render(mdp: TabularMDP, state: int) -> NDArray[Any]:
    """An RGB picture of `state`."""
    return _picture(mdp, env_at(mdp, state))


def picture_after(mdp: TabularMDP, actions: Sequence[int]) -> NDArray[Any]:
    """An RGB picture of the game after these actions from the start."""
    game = live_game(mdp)
    play(game, actions)
    return _picture(mdp, game)


def _picture(mdp: TabularMDP, game: Game) -> NDArray[Any]:
    picture = game.render()
    if picture is None:
        raise WorkFailed(f"'{mdp.name}' cannot be rendered; make its env with render_mode='rgb_array'")
    return picture
