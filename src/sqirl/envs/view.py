"""`View`: how the screens of a game become the observations of an agent.

A screen becomes a frame. The last few frames and the remaining time become an observation. The live env and the env that plays
a table use the same two functions, so their observations are equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class View:
    """The frames of an episode and the observations made of them. Frames before the start of an episode are zero.

    :param frame_shape: the shape of a frame, which is uint8
    :param observation_shape: the shape of an observation, which is uint8
    :param frame_of: makes the frame of a screen
    :param assemble: makes n observations (n, *observation_shape) from the last frames of n episodes, (n, stacked, *frame_shape)
        with the newest last, and from the fraction of each episode that remains, (n,) in [0, 1]
    :param stacked: how many frames an observation is made of
    :param uses_clock: does an observation depend on the remaining time?
    """

    frame_shape: tuple[int, ...]
    observation_shape: tuple[int, ...]
    frame_of: Callable[[NDArray[Any]], NDArray[np.uint8]]
    assemble: Callable[[NDArray[np.uint8], NDArray[np.float64]], NDArray[np.uint8]]
    stacked: int = 1
    uses_clock: bool = False


def newest_frame(frames: NDArray[np.uint8], time_left: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n, stacked, *frame) → (n, *frame): the newest frame."""
    newest: NDArray[np.uint8] = frames[:, -1]
    return newest


def frames_as_channels(frames: NDArray[np.uint8], time_left: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n, stacked, H, W) → (n, H, W, stacked): each frame is one channel, the newest last."""
    return np.moveaxis(frames, 1, -1)  # not a copy; moving the channels to the front again costs nothing either


def with_time_plane(frames: NDArray[np.uint8], time_left: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n, 1, W, H, 3) → (n, W, H, 4): the newest frame, and a plane that is 255 at the start and 0 at the horizon."""
    return _with_plane(frames, np.rint(255 * time_left).astype(np.uint8))


def with_truncated_time_plane(frames: NDArray[np.uint8], time_left: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n, 1, W, H, 3) → (n, W, H, 4): the newest frame, and a plane that is 1 at the start and 0 at all later steps.

    The authors' code stores the fraction of time that remains as an integer.
    """
    return _with_plane(frames, time_left.astype(np.uint8))


def _with_plane(frames: NDArray[np.uint8], values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(n, 1, W, H, 3) → (n, W, H, 4): the newest frame, and a plane with the value of each observation, (n,)."""
    newest = frames[:, -1]
    observations = np.empty((*newest.shape[:-1], 4), np.uint8)
    observations[..., :3] = newest
    observations[..., 3] = values[:, None, None]
    return observations
