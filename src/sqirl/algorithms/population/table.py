"""A table on the device: `device_table` makes it from a `sqirl.play.table.Table`, which defines keys and blank screens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch as th

from sqirl.algorithms.population.grid_layout import ARCHITECTURES, Grid
from sqirl.algorithms.population.inputs import Inputs, distinct_inputs
from sqirl.algorithms.population.layout import Picture, blocked_screens
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import END, TabularMDP

if TYPE_CHECKING:
    from sqirl.play.table import Table

#: The names of the networks that populations can have.
NETWORKS = frozenset({"nature", *ARCHITECTURES})


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """Deterministic dynamics with one start state, and the screens as the network reads them."""

    transitions: th.Tensor  # (S·A,) int32
    rewards: th.Tensor  # (S·A,) float32, divided by `reward_factor`
    screen_of: th.Tensor  # (S + 1,) int32: the screen of each state; the last one is that of END
    screens: th.Tensor  # uint8: (N + 1, planes, side/4, side/4, 16) for NatureCNN, (N + 1, width, height, 3) for grids
    start_key: th.Tensor  # (K,) int32: the key at the start of an episode
    start_state: int
    num_actions: int
    horizon: int
    stickiness: float
    picture: Picture | Grid
    reward_factor: float = 1.0
    uses_clock: bool = False  # the last entry of a key is the timestep
    truncates: bool = False  # see `Table.truncates`
    inputs: Inputs | None = None  # the distinct observations, where they are listed

    @property
    def key_length(self) -> int:
        return len(self.start_key)

    @property
    def device(self) -> th.device:
        return self.screens.device


def has_device_form(mdp: TabularMDP) -> bool:
    """Can it be played on a device? It must have one start state, and no random outcomes but sticky actions."""
    return mdp.transitions is not None and len(mdp.start_states) == 1


def device_table(
    table: Table, *, reward_factor: float = 1.0, device: th.device | str = "cpu", network: str = "nature"
) -> DeviceTable:
    """The table on the device; rewards are divided by `reward_factor`, for learning.

    :param network: the name of the network that learns it, `EnvDescription.network`
    """
    mdp, view = table.mdp, table.view
    if mdp.transitions is None or not has_device_form(mdp):
        raise _unsupported(table, "random outcomes or several start states")
    picture = _picture(table, network)
    states = np.append(np.arange(mdp.num_states), END)
    frames = th.from_numpy(table.frames).to(device)
    transitions = th.tensor(mdp.transitions, dtype=th.int32, device=device)
    screen_of = th.tensor(table.screens_of(states), dtype=th.int32, device=device)
    start, inputs = int(mdp.start_states[0]), None
    if isinstance(picture, Grid):
        inputs = distinct_inputs(transitions, screen_of, start_state=start, clock=picture.clock)
    return DeviceTable(
        transitions.reshape(-1),
        th.tensor(mdp.rewards.reshape(-1) / reward_factor, dtype=th.float32, device=device),
        screen_of,
        frames.contiguous() if isinstance(picture, Grid) else blocked_screens(frames),
        th.tensor(table.first_keys(mdp.start_states)[0], dtype=th.int32, device=device),
        start_state=start,
        num_actions=mdp.num_actions,
        horizon=table.horizon,
        stickiness=mdp.stickiness,
        picture=picture,
        reward_factor=reward_factor,
        uses_clock=view.uses_clock,
        truncates=table.truncates,
        inputs=inputs,
    )


def _picture(table: Table, network: str) -> Picture | Grid:
    """What the network sees of the table."""
    frames, view = table.frames, table.view
    if network in ARCHITECTURES:
        if not view.uses_clock or view.stacked > 1 or frames.ndim != 4 or frames.shape[3] != 3:
            raise _unsupported(table, f"screens that are no grids with a clock, which the network '{network}' needs")
        return Grid(frames.shape[1], frames.shape[2], _clock(table), network)
    if network != "nature":
        raise _unsupported(table, f"the network '{network}'")
    if view.uses_clock:
        raise _unsupported(table, "a clock, which the network 'nature' does not see")
    planes = frames.shape[3] if frames.ndim == 4 else 1
    return Picture(side=frames.shape[1], planes=planes, stacked=view.stacked)


def _clock(table: Table) -> tuple[int, ...]:
    """The last plane of an observation at each timestep from 0 to the horizon."""
    times = np.arange(table.horizon + 1, dtype=np.int32)
    seen = table.observations(np.stack([np.full_like(times, table.blank), times], axis=1))
    return tuple(seen[:, 0, 0, -1].tolist())


def _unsupported(table: Table, what: str) -> SqirlError:
    name = table.mdp.name or "this table"
    return SqirlError(f"{name} has {what}; populations do not support it; use `sqirl train`")
