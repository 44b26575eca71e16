"""The protocol of a population's networks, and the choice of layout and of Triton or plain torch."""

from __future__ import annotations

from typing import Protocol

import torch as th

from sqirl.algorithms.population.batch import AdamSettings, Learner, Loss
from sqirl.algorithms.population.cpu_networks import CpuGridNetworks
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.grid_layout import Grid, GridLayout
from sqirl.algorithms.population.grid_networks import GridNetworks
from sqirl.algorithms.population.inputs import Inputs
from sqirl.algorithms.population.layout import FlatLayout, Layout, Picture
from sqirl.algorithms.population.plain import PlainNetworks, TorchNetworks
from sqirl.algorithms.population.table import DeviceTable
from sqirl.errors import SqirlError


class Networks(Protocol):
    """The networks of a population over one table.

    Weights are read where `load` says. After weights were set from outside, `load` must be called again, because Triton
    reads a 16-bit copy of them.
    """

    screens: th.Tensor
    dtype: th.dtype

    @property
    def layout(self) -> FlatLayout: ...
    def load(self, flat: th.Tensor) -> None: ...
    def acting(self, rows: int) -> Networks: ...
    def separate(self, rows: int, flat: th.Tensor) -> Networks: ...
    def outputs(self, keys: th.Tensor) -> th.Tensor: ...
    def descend(self, learner: Learner, keys: th.Tensor, loss: Loss, settings: AdamSettings) -> None: ...


def layout_of(table: DeviceTable, num_outputs: int, *, actor_critic: bool = False) -> FlatLayout:
    """The layout of the network that learns the table; see `layout_for`."""
    return layout_for(table.picture, num_outputs, actor_critic=actor_critic)


def layout_for(picture: Picture | Grid, num_outputs: int, *, actor_critic: bool = False) -> FlatLayout:
    """The layout of the network that sees the picture or grid.

    :param actor_critic: the last output is the value; some networks have separate layers for it
    """
    if isinstance(picture, Grid):
        return GridLayout(num_outputs, picture, actor_critic)
    return Layout(num_outputs, picture)


def uses_kernels(layout: FlatLayout, device: th.device, kernels: bool | None) -> bool:
    """Does Triton evaluate these networks? `kernels` is the caller's choice; grids have no kernels."""
    return isinstance(layout, Layout) and (has_triton(device) if kernels is None else kernels)


def make_networks(
    layout: FlatLayout, screens: th.Tensor, *, members: int, batch_size: int, key_length: int,
    dtype: th.dtype = th.bfloat16, kernels: bool | None = None, inputs: Inputs | None = None,
) -> Networks:  # fmt: skip
    """Networks that learn from `batch_size` observations of each member.

    :param dtype: of activations and of the weights as they are read; weights and sums are float32. Grids are always float32
    :param kernels: use Triton; if None, where there is a GPU and Triton is installed. Grids never use it
    :param inputs: the distinct observations of the table, where they are listed
    """
    if uses_kernels(layout, screens.device, kernels):
        from sqirl.algorithms.population.triton_networks import Size, TritonNetworks

        assert isinstance(layout, Layout)
        size = Size(members, batch_size, batch_size)
        return TritonNetworks(layout, screens, size, key_length=key_length, dtype=dtype)
    return torch_networks(layout, screens, dtype, inputs)


def torch_networks(
    layout: FlatLayout, screens: th.Tensor, dtype: th.dtype = th.float32, inputs: Inputs | None = None
) -> TorchNetworks:
    """The networks of a layout in plain torch."""
    if isinstance(layout, GridLayout):
        return (CpuGridNetworks if screens.device.type == "cpu" else GridNetworks)(layout, screens, inputs)
    if isinstance(layout, Layout):
        return PlainNetworks(layout, screens, dtype)
    raise SqirlError(f"there are no networks for {layout}")
