"""Two versions of one game: one that every algorithm solves, and one that none solves, with the decision that is hard to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sqirl.analysis.episode import optimal_episode
from sqirl.analysis.result import Witness
from sqirl.envs.actions import action_names
from sqirl.envs.game import Game
from sqirl.envs.suites import make_game
from sqirl.errors import SqirlError
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game, play
from sqirl.report.environments import EnvironmentRow
from sqirl.report.picture_cache import Picture, cached_pictures
from sqirl.report.pictures import data_url
from sqirl.report.predictors import DRAWN

#: The longer side of a frame, in pixels: that of an Atari screen.
FRAME_SIDE = 210


@dataclass(frozen=True)
class Contrast:
    """Two rows of the same game with other horizons."""

    easy: EnvironmentRow
    hard: EnvironmentRow


def contrast(rows: Sequence[EnvironmentRow]) -> Contrast | None:
    """The pair whose wrong greedy decision loses the largest share of what optimal play gains; None if there is no pair.

    The easy row is solved by all DRAWN algorithms in the paper, and greedy on Q^1 is optimal. The hard row is solved by none of
    them, and greedy on Q^k goes wrong.
    """
    known = [row for row in rows if row.analysis is not None]
    easy = [row for row in known if row.min_k == 1 and all(row.paper_solved[spec.name] for spec in DRAWN)]
    hard = [row for row in known if loss_share(row) > 0 and not any(row.paper_solved[spec.name] for spec in DRAWN)]
    pairs = [(a, b) for a in easy for b in hard if _game(a) == _game(b)]
    return Contrast(*max(pairs, key=lambda pair: loss_share(pair[1]))) if pairs else None


def _game(row: EnvironmentRow) -> object:
    """The id without the horizon."""
    return replace(row.catalogue_row.env_id, horizon=1)


def wrong_action(witness: Witness) -> int:
    """The first greedy action that is not optimal."""
    return min(set(witness.greedy_actions) - set(witness.optimal_actions))


def loss(witness: Witness) -> float:
    """What the wrong action loses, in the units of the rewards."""
    return max(witness.optimal_q) - witness.optimal_q[wrong_action(witness)]


def loss_share(row: EnvironmentRow) -> float:
    """The loss at the wrong decision as a share of what optimal play gains on random play; 0 where there is none."""
    a = row.analysis
    if a is None or a.witness is None or a.optimal_return <= a.random_return:
        return 0.0
    return loss(a.witness) / (a.optimal_return - a.random_return)


def names_of_actions(row: EnvironmentRow) -> tuple[str, ...]:
    """The names of the actions of a row, or their numbers where the game is not installed or does not tell them."""
    assert row.analysis is not None
    numbers = tuple(map(str, range(row.analysis.num_actions)))
    try:
        return action_names(make_game(row.catalogue_row.env_id)) or numbers
    except (SqirlError, ImportError):
        return numbers


def frames(row: EnvironmentRow) -> list[Picture]:
    """The frames of an optimal episode, or of the way to the wrong decision and what follows it; empty if there are none."""
    assert row.analysis is not None
    return cached_pictures(("frames", FRAME_SIDE, row.env_id, repr(row.analysis.witness)), lambda: _drawn_frames(row))


def _drawn_frames(row: EnvironmentRow) -> list[Picture]:
    assert row.analysis is not None
    mdp = stored_mdp(row.catalogue_row.env_id)
    if mdp is None:
        return []
    try:
        game = live_game(mdp)
        moments = _moments(mdp, row.analysis.witness, action_names(game))
    except SqirlError:
        return []
    found = [(caption, _picture(game, path)) for caption, path in moments]
    return [{"caption": caption, "url": url} for caption, url in found if url is not None]


def _moments(
    mdp: TabularMDP, witness: Witness | None, names: Sequence[str] | None
) -> list[tuple[str, tuple[int, ...]]]:
    """(caption, executed actions) of each frame."""
    if witness is None:
        episode = tuple(optimal_episode(mdp))
        places = sorted({0, len(episode) // 3, 2 * len(episode) // 3, len(episode) - 1})
        return [("start" if t == 0 else f"step {t}", episode[:t]) for t in places]
    wrong, right = wrong_action(witness), witness.optimal_actions[0]
    named = {action: names[action] if names else str(action) for action in (wrong, right)}
    shown: list[tuple[str, tuple[int, ...]]] = [("start", ())] if witness.t else []
    shown += [(f"step {witness.t}: the decision", witness.path)]
    for kind, action in (("greedy", wrong), ("optimal", right)):
        shown.append((f"{kind}: {named[action]}", (*witness.path, action)))
    return shown


def _picture(game: Game, path: Sequence[int]) -> str | None:
    play(game, path)
    picture = game.render()
    return None if picture is None else data_url(np.asarray(picture, np.uint8), side=FRAME_SIDE)
