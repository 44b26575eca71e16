"""Small pictures for the page: a state of a game as a PNG in a data URL."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.episode import optimal_episode
from sqirl.analysis.result import Analysis
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game, play

#: The longer side of a picture, in pixels, and its colours.
SIDE, COLOURS = 112, 24


def data_url(picture: NDArray[np.uint8]) -> str:
    """The picture (H, W, 3) as 'data:image/png;base64,…', scaled down and with few colours."""
    from PIL import Image

    image = Image.fromarray(picture)
    scale = SIDE / max(image.size)
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
    moments: list[tuple[str, tuple[int, ...]]] = [("start", ())]
    try:
        episode = optimal_episode(mdp)
        half = len(episode) // 2
        moments += [(f"optimal, step {half}", tuple(episode[:half])), ("optimal, last step", tuple(episode[:-1]))]
    except SqirlError:
        pass
    if analysis.witness is not None:
        moments.append((f"greedy on Q^{analysis.witness.k} fails here", analysis.witness.path))
    shown = []
    for caption, path in moments:
        play(game, path)
        picture = game.render()
        if picture is not None:
            shown.append({"caption": caption, "url": data_url(np.asarray(picture, np.uint8))})
    return shown
