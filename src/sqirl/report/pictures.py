"""Small pictures for the page: a state of a game as a PNG in a data URL."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.episode import optimal_episode
from sqirl.analysis.result import Analysis, Witness
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game, picture_after, play

#: The longer side of a picture, in pixels, and its colours.
SIDE, COLOURS = 112, 24


def data_url(picture: NDArray[np.uint8], *, side: int = SIDE) -> str:
    """The picture (H, W, 3) as 'data:image/png;base64,…', its longer side scaled to `side` and with few colours."""
    from PIL import Image

    image = Image.fromarray(picture)
    scale = side / max(image.size)
    small = image.resize(
        (max(1, round(image.width * scale)), max(1, round(image.height * scale))), Image.Resampling.BOX
    )
    buffer = io.BytesIO()
    small.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def pictures_of(mdp: TabularMDP, analysis: Analysis) -> list[dict[str, str]]:
    """Pictures with captions: the start, the middle and the end of an optimal episode, and the state in which greedy fails.

    Empty if the game is not installed. An MDP with random outcomes has no optimal episode to draw.
    """
    try:
        game = live_game(mdp)
    except SqirlError:
        return []
    moments: list[tuple[str, tuple[int, ...]]] = [("start" if len(mdp.start_states) == 1 else "a start", ())]
    try:
        episode = optimal_episode(mdp)
        half = len(episode) // 2
        moments += [(f"optimal, step {half}", tuple(episode[:half])), ("optimal, last step", tuple(episode[:-1]))]
    except SqirlError:
        pass
    found: list[tuple[str, NDArray[np.uint8] | None]] = []
    for caption, path in moments:
        play(game, path, start_seed=_first_seed(mdp))
        found.append((caption, game.render()))
    if analysis.witness is not None:
        found.append((f"greedy on Q^{analysis.witness.k} fails here", witness_picture(mdp, analysis.witness)))
    return [
        {"caption": caption, "url": data_url(np.asarray(picture, np.uint8))}
        for caption, picture in found
        if picture is not None
    ]


def _first_seed(mdp: TabularMDP) -> int | None:
    """The seed of the first start, which an optimal episode begins in."""
    return None if mdp.start_seeds is None else int(mdp.start_seeds[0])


def witness_picture(mdp: TabularMDP, witness: Witness) -> NDArray[np.uint8] | None:
    """The state itself; None if it cannot be drawn. Only where nothing is random, the actions that lead there are played."""
    try:
        if mdp.transitions is not None and len(mdp.start_states) == 1:
            return picture_after(mdp, witness.path)
        return mdp.render(witness.state)
    except SqirlError:
        return None
