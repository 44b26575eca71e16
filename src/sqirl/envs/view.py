"""What an agent sees of a game: how screens become observations.

A screen becomes a frame, and the last few frames and the clock become an observation. The live env and the one that plays
a table use the same two functions, so what they show is equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class View:
    """Frames of `frame_shape` uint8; before the start of an episode lie blank (zero) ones.

    `frame_of(screen)` is the frame of a screen. `assemble(frames, time_left)` takes the last `stacked` frames of n episodes,
    (n, stacked, *frame_shape), the newest last, and the share of the episode that is still to come, (n,) in [0, 1]; it
    returns n observations, (n, *observation_shape) uint8. `uses_clock` tells whether the second argument matters.
    """

    frame_shape: tuple[int, ...]
    observation_shape: tuple[int, ...]
    frame_of: Callable[[np.ndarray], np.ndarray]
    assemble: Callable[[np.ndarray, np.ndarray], np.ndarray]
    stacked: int = 1
    uses_clock: bool = False


def newest_frame(frames: np.ndarray, time_left: np.ndarray) -> np.ndarray:
    """(n, stacked, *frame) → (n, *frame): the newest frame as it is."""
    return frames[:, -1]


def frames_as_channels(frames: np.ndarray, time_left: np.ndarray) -> np.ndarray:
    """(n, stacked, H, W) → (n, H, W, stacked): the frames side by side, the newest last."""
    return np.moveaxis(frames, 1, -1)  # a view: whoever wants the channels first again gets them without a copy


def with_time_plane(frames: np.ndarray, time_left: np.ndarray) -> np.ndarray:
    """(n, 1, W, H, 3) → (n, W, H, 4): the newest frame and a plane that reads 255 at the start and 0 at the horizon."""
    newest = frames[:, -1]
    observations = np.empty((*newest.shape[:-1], 4), np.uint8)
    observations[..., :3] = newest
    observations[..., 3] = np.rint(255 * time_left)[:, None, None]
    return observations
