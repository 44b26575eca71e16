"""MiniGrid's networks for P members in plain torch, on any device.

Convolutions are batched matrix products over patches, one batch entry for each member: grouped convolutions of so many small
layers are slow. Nothing waits for the device, so that a step can be captured in a CUDA graph. Everything is float32.

Where the table has fewer distinct observations than a minibatch has rows, the networks are evaluated on each of them once. The
rows of the minibatch are chosen by a product with a matrix of zeros and ones: its gradient is a product too, which always adds
in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch as th
from torch.nn import functional as F

from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.grid_layout import CODES, Convolution, GridLayout
from sqirl.algorithms.population.inputs import Inputs
from sqirl.algorithms.population.layout import ALIGNMENT
from sqirl.algorithms.population.plain import TorchNetworks, adam

#: Cells of all members that are evaluated at once without gradient. The patches of the first layer are 864 bytes a cell.
MOST_CELLS = 2**20
#: Above so many distinct observations a minibatch always has fewer rows.
FEW_INPUTS = 512


def patches(x: th.Tensor, layer: Convolution) -> th.Tensor:
    """(P, R, width, height, channels) → (P, R, width', height', kernel·kernel·channels), ordered (column, row, channel)."""
    if layer.padding:
        x = F.pad(x, (0, 0, *[layer.padding] * 4))
    windows = x.unfold(2, layer.kernel, layer.stride).unfold(3, layer.kernel, layer.stride)
    return windows.permute(0, 1, 2, 3, 5, 6, 4).flatten(4)


@dataclass(frozen=True, eq=False)
class Layer:
    """What a layer with ReLU was given and what it returned; a convolution is a dense layer over the patches of its input."""

    name: str
    inputs: th.Tensor  # (P, R', inputs)
    outputs: th.Tensor  # (P, R', outputs), after ReLU
    convolution: Convolution | None = None
    seen: tuple[int, ...] = ()  # the shape (P, R, width, height, channels) that a convolution was given


class GridNetworks(TorchNetworks):
    """The networks of a `GridLayout` for P members. Keys are (screen, timestep)."""

    layout: GridLayout

    def __init__(self, layout: GridLayout, screens: th.Tensor, inputs: Inputs | None = None) -> None:
        """Screens are (N, width, height, 3) uint8; `inputs` are the distinct observations, where they are listed."""
        super().__init__(screens, th.float32)
        self.layout, self.inputs = layout, inputs
        device = screens.device
        self._clock = th.tensor(layout.grid.clock, dtype=th.float32, device=device) / 255
        # For each one-hot plane, the code that it stands for and the place of this code in a cell
        self._codes = th.cat([th.arange(count, dtype=th.uint8) for count in CODES]).to(device)
        self._places = th.arange(len(CODES)).repeat_interleave(th.tensor(CODES)).to(device)
        few = inputs is not None and len(inputs) <= FEW_INPUTS
        self._all = self.observe(inputs.keys[None]) if inputs is not None and few else None  # (1, U, …)
        self._numbers = th.arange(len(inputs) if inputs is not None else 0, device=device)

    def copy(self) -> GridNetworks:
        return GridNetworks(self.layout, self.screens, self.inputs)

    def observe(self, keys: th.Tensor) -> th.Tensor:
        """(P, R, width, height, planes) with the padding of planes and sides; codes one-hot or divided by 255, time in [0, 1]."""
        grid = self.layout.grid
        codes = self.screens[keys[..., 0]]
        one_hot = grid.architecture.one_hot
        planes = (codes[..., self._places] == self._codes).float() if one_hot else codes.float() / 255
        time = self._clock[keys[..., 1]][..., None, None, None].expand(*planes.shape[:-1], 1)
        (width, height), missing = grid.padded_sides, grid.padded_planes - grid.architecture.planes
        seen = th.cat([planes, time], dim=-1)
        return F.pad(seen, (0, missing, 0, height - grid.height, 0, width - grid.width))

    def learn(self, flat: th.Tensor, keys: th.Tensor, learned: int) -> tuple[th.Tensor, th.Tensor]:
        if self._all is None or self.inputs is None or len(self.inputs) > keys.shape[1]:
            return super().learn(flat, keys, learned)
        leaf = flat.detach().requires_grad_()
        found = self.evaluate(leaf, self._all.expand(len(flat), *self._all.shape[1:]))
        chosen = (self.inputs.places(keys)[..., None] == self._numbers).float()  # (P, R, U)
        return leaf, th.bmm(chosen, found)

    def optimize(self, learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
        if not has_triton(gradient.device):
            adam(learner, gradient, settings)
            return
        from sqirl.algorithms.population.step_kernels import adam_by_gradient

        adam_by_gradient(learner, gradient, settings)

    @th.no_grad()
    def forward(self, flat: th.Tensor, keys: th.Tensor) -> th.Tensor:
        """(P, R, outputs) float32, without gradient; a limited number of rows at a time."""
        rows = max(1, MOST_CELLS // (len(keys) * self.layout.grid.width * self.layout.grid.height))
        return th.cat([self.evaluate(flat, self.observe(part)) for part in th.split(keys, rows, dim=1)], dim=1)

    def evaluate(self, weights: th.Tensor, seen: th.Tensor, keep: Callable[[Layer], object] | None = None) -> th.Tensor:
        """As in `TorchNetworks`; `keep` is called with each layer that has ReLU."""
        matrices, network = self._split(weights), self.layout.grid.architecture

        def linear(x: th.Tensor, name: str) -> th.Tensor:
            weight, bias = matrices[name]
            return th.baddbmm(bias[:, None], x, weight)

        def layer(x: th.Tensor, name: str, *of_convolution: Any) -> th.Tensor:
            outputs = F.relu(linear(x, name))
            if keep is not None:
                keep(Layer(name, x, outputs, *of_convolution))
            return outputs

        x = seen
        for number, convolution in enumerate(network.convolutions, start=1):
            windows = patches(x, convolution)
            found = layer(windows.flatten(1, 3), f"conv{number}", convolution, tuple(x.shape))
            x = found.view(*windows.shape[:4], -1)
        features = layer(x.flatten(2), "dense")
        heads = []
        for name, (prefix, outputs) in self.layout.heads.items():
            x = features
            for number in range(1, len(network.hidden) + 1):
                x = layer(x, f"{prefix}{number}")
            heads.append(linear(x, name)[..., :outputs])
        return th.cat(heads, dim=-1)

    def _split(self, flat: th.Tensor) -> dict[str, tuple[th.Tensor, th.Tensor]]:
        """Each layer's (weight (P, inputs, outputs), bias (P, outputs)).

        One split of the vector, because its gradient is one concatenation. That of a slice would be a vector of n zeros.
        """
        segments = self.layout.segments.values()
        sizes = [size for s in segments for size in (s.bias_start - s.start, s.outputs, -s.end % ALIGNMENT)]
        parts = iter(th.split(flat, sizes, dim=1))
        found = {}
        for s in segments:
            weight, bias, _ = next(parts), next(parts), next(parts)
            found[s.name] = weight.view(-1, s.inputs, s.outputs), bias
        return found
