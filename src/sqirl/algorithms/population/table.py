"""A table on the device: `device_table` makes it from a `sqirl.play.table.Table`, which defines keys and blank screens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch as th

from sqirl.algorithms.population.layout import Picture, blocked_screens
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import END

if TYPE_CHECKING:
    from sqirl.play.table import Table


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """Deterministic dynamics with one start state, and the screens as NatureCNN reads them."""

    transitions: th.Tensor  # (S·A,) int32
    rewards: th.Tensor  # (S·A,) float32, divided by `reward_factor`
    screen_of: th.Tensor  # (S + 1,) int32: the screen of each state; the last one is that of END
    screens: th.Tensor  # (N + 1, planes, side/4, side/4, 16) uint8
    start_key: th.Tensor  # (K,) int32: the key at the start of an episode
    start_state: int
    num_actions: int
    horizon: int
    stickiness: float
    picture: Picture
    reward_factor: float = 1.0

    @property
    def key_length(self) -> int:
        return len(self.start_key)

    @property
    def device(self) -> th.device:
        return self.screens.device


def device_table(table: Table, *, reward_factor: float = 1.0, device: th.device | str = "cpu") -> DeviceTable:
    """The table on the device; rewards are divided by `reward_factor`, for learning."""
    mdp, view = table.mdp, table.view
    if mdp.transitions is None or len(mdp.start_states) > 1 or view.uses_clock:
        raise SqirlError(
            f"{mdp.name or 'this table'} has random outcomes, several start states or a clock, which populations do not "
            "support; use `sqirl train`"
        )
    states = np.append(np.arange(mdp.num_states), END)
    frames = th.from_numpy(table.frames)
    planes = frames.shape[3] if frames.ndim == 4 else 1
    return DeviceTable(
        th.tensor(mdp.transitions.reshape(-1), dtype=th.int32, device=device),
        th.tensor(mdp.rewards.reshape(-1) / reward_factor, dtype=th.float32, device=device),
        th.tensor(table.screens_of(states), dtype=th.int32, device=device),
        blocked_screens(frames.to(device)),
        th.tensor(table.first_keys(mdp.start_states)[0], dtype=th.int32, device=device),
        start_state=int(mdp.start_states[0]),
        num_actions=mdp.num_actions,
        horizon=table.horizon,
        stickiness=mdp.stickiness,
        picture=Picture(side=frames.shape[1], planes=planes, stacked=view.stacked),
        reward_factor=reward_factor,
    )
