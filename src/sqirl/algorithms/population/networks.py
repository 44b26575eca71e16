"""The protocol of a population's networks, and the choice between Triton and plain torch."""

from __future__ import annotations

import importlib.util
from typing import Protocol

import torch as th

from sqirl.algorithms.population.batch import AdamSettings, Learner, Loss
from sqirl.algorithms.population.layout import Layout
from sqirl.algorithms.population.plain import PlainNetworks


class Networks(Protocol):
    """The networks of a population over one table.

    Weights are read where `load` says. After weights were set from outside, `load` must be called again, because Triton
    reads a 16-bit copy of them.
    """

    layout: Layout
    screens: th.Tensor

    def load(self, flat: th.Tensor) -> None: ...
    def acting(self, rows: int) -> Networks: ...
    def separate(self, rows: int, flat: th.Tensor) -> Networks: ...
    def outputs(self, keys: th.Tensor) -> th.Tensor: ...
    def descend(self, learner: Learner, keys: th.Tensor, loss: Loss, settings: AdamSettings) -> None: ...


def has_triton(device: th.device) -> bool:
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def make_networks(
    layout: Layout, screens: th.Tensor, *, members: int, batch_size: int, key_length: int,
    dtype: th.dtype = th.bfloat16, kernels: bool | None = None,
) -> Networks:  # fmt: skip
    """Networks that learn from `batch_size` observations of each member.

    :param dtype: of activations and of the weights as they are read; weights and sums are float32
    :param kernels: use Triton; if None, where there is a GPU and Triton is installed
    """
    if has_triton(screens.device) if kernels is None else kernels:
        from sqirl.algorithms.population.triton_networks import Size, TritonNetworks

        size = Size(members, batch_size, batch_size)
        return TritonNetworks(layout, screens, size, key_length=key_length, dtype=dtype)
    return PlainNetworks(layout, screens, dtype)
