"""Sampled returns: a policy over keys plays episodes of a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sqirl.play.lanes import Lanes
from sqirl.play.table import Table

#: (timesteps (n,), keys (n, K)) -> actions (n,)
KeyPolicy = Callable[[NDArray[np.integer], NDArray[np.int32]], NDArray[np.integer]]


def sampled_return(table: Table, act: KeyPolicy, episodes: int, rng: np.random.Generator) -> float:
    """The mean total reward of so many episodes."""
    lanes = Lanes(table, episodes, rng)
    total, alive = np.zeros(episodes), np.ones(episodes, bool)
    while alive.any():
        actions = np.zeros(episodes, np.int64)
        actions[alive] = act(lanes.t[alive], lanes.keys[alive])
        rewards, ends = lanes.step(actions)
        total += np.where(alive, rewards, 0.0)
        alive &= ~ends
        lanes.reset(~alive)  # a finished lane starts again; its rewards are not counted
    return float(total.mean())
