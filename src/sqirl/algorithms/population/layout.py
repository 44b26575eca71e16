"""The weights of a network as one vector for each member, and as tensors of torch's shapes; the layout of NatureCNN.

`FlatLayout` has what all networks share; `grid_layout.py` has the networks of MiniGrid.

A population of P members keeps all weights in one tensor (P, n). Each layer is a matrix (inputs, outputs), outputs
contiguous. Those of NatureCNN have the order in which the kernels multiply:

- Screens are stored in blocks of 4×4 pixels, (N, planes, 21, 21, 16) for 84×84 pixels, so that the first convolution (8×8,
  stride 4) is one of 2×2 blocks with stride 1. Its inputs are ordered (plane, block row, block column, pixel row, pixel
  column). There are always four planes: with three (red, green and blue), the fourth is zero.
- The output of the first layer is stored in blocks of 2×2 positions, (10, 10, 2, 2, 32), so that the second convolution
  (4×4, stride 2) is one of 2×2 blocks of 128 channels with stride 1. Positions that it does not read are not computed.
- The third convolution is ordered (row, column, channel), and so are the inputs of the dense layer.

The outputs of the head are padded to a multiple of 16. The weights of the padding are zero and stay zero, as their gradients do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch as th
from torch import nn

from sqirl.errors import SqirlError

FEATURES = 512
#: Planes of pixels that the first layer's weights are made for.
MOST_PLANES = 4

#: Segments of the vector start at multiples of this, which is also the block of the optimizer.
ALIGNMENT = 512

Weights = dict[str, th.Tensor]
#: Sets the weights of the layers, which are in the order of `FlatLayout.segments`, before training.
Initialize = Callable[[dict[str, nn.Conv2d | nn.Linear]], None]


@dataclass(frozen=True)
class Segment:
    """One layer's weight matrix (inputs, outputs), followed by its bias (outputs,)."""

    name: str
    inputs: int
    outputs: int
    start: int

    @property
    def bias_start(self) -> int:
        return self.start + self.inputs * self.outputs

    @property
    def end(self) -> int:
        return self.bias_start + self.outputs


@dataclass(frozen=True)
class Picture:
    """The input of a network: the last `stacked` screens of side×side pixels, each of `planes` planes (1 if grey, 3 if RGB)."""

    side: int = 84
    planes: int = 1
    stacked: int = 4

    def __post_init__(self) -> None:
        if self.side % 4 or self.side < 36 or self.inputs > MOST_PLANES:
            raise SqirlError(
                f"{self} is not supported: the side must be a multiple of 4 and at least 36, planes·stacked at most {MOST_PLANES}"
            )

    @property
    def inputs(self) -> int:
        """Planes of pixels."""
        return self.planes * self.stacked

    @property
    def blocks(self) -> int:
        """Blocks of 4×4 pixels along a side."""
        return self.side // 4

    @property
    def width1(self) -> int:
        """Blocks of 2×2 positions along a side of the first layer's output, those that the second layer reads."""
        return (self.blocks - 1) // 2

    @property
    def width2(self) -> int:
        """Positions along a side of the second layer's output."""
        return self.width1 - 1

    @property
    def width3(self) -> int:
        return self.width2 - 2

    @property
    def flat(self) -> int:
        """Inputs of the dense layer."""
        return self.width3**2 * 64


#: Four grey screens, as in Atari; one coloured screen, as in Procgen.
ATARI, PROCGEN = Picture(), Picture(side=64, planes=3, stacked=1)


@dataclass(frozen=True)
class LayerShape:
    """How the matrix of a layer becomes torch's weights.

    :param axes: the axes of the matrix in the vector, outputs last
    :param order: the order of these axes in torch, outputs first
    :param stored: the shape in torch, with the padding of the vector
    :param used: the shape without it
    """

    axes: tuple[int, ...]
    order: tuple[int, ...]
    stored: tuple[int, ...]
    used: tuple[int, ...]

    @property
    def inputs(self) -> int:
        return math.prod(self.axes[:-1])

    @property
    def outputs(self) -> int:
        return self.axes[-1]

    def module(self) -> nn.Conv2d | nn.Linear:
        """A layer with these weights, as torch.nn draws them."""
        outputs, inputs, *kernel = self.used
        return nn.Conv2d(inputs, outputs, (kernel[0], kernel[1])) if kernel else nn.Linear(inputs, outputs)


def linear_shape(inputs: int, outputs: int, padded: int) -> LayerShape:
    """The shape of a dense layer whose outputs are padded to `padded`."""
    return LayerShape((inputs, padded), (1, 0), (padded, inputs), (outputs, inputs))


class FlatLayout(ABC):
    """The flat vector of a network's weights: layer after layer, each a matrix and its bias."""

    num_outputs: int

    @property
    @abstractmethod
    def shapes(self) -> dict[str, LayerShape]:
        """The layers in the order of the vector."""

    @cached_property
    def segments(self) -> dict[str, Segment]:
        found, start = {}, 0
        for name, shape in self.shapes.items():
            found[name] = Segment(name, shape.inputs, shape.outputs, start)
            start = ALIGNMENT * math.ceil(found[name].end / ALIGNMENT)
        return found

    @property
    def size(self) -> int:
        """n, the length of the vector."""
        return ALIGNMENT * math.ceil(max(segment.end for segment in self.segments.values()) / ALIGNMENT)

    def weight(self, flat: th.Tensor, name: str) -> th.Tensor:
        """(P, inputs, outputs) view of a layer's weights."""
        s = self.segments[name]
        return flat[:, s.start : s.bias_start].view(-1, s.inputs, s.outputs)

    def bias(self, flat: th.Tensor, name: str) -> th.Tensor:
        """(P, outputs) view of a layer's bias."""
        s = self.segments[name]
        return flat[:, s.bias_start : s.end]


@dataclass(frozen=True)
class Layout(FlatLayout):
    """The flat vector of a NatureCNN with `num_outputs` outputs."""

    num_outputs: int
    picture: Picture = ATARI

    @property
    def padded_outputs(self) -> int:
        return 16 * math.ceil(self.num_outputs / 16)

    @property
    def shapes(self) -> dict[str, LayerShape]:
        side, dense, inputs = self.picture.width3, (FEATURES, self.picture.flat), self.picture.inputs
        return {
            # (plane, block row, block column, row, column, output) -> (output, plane, height, width)
            "conv1": LayerShape(
                (MOST_PLANES, 2, 2, 4, 4, 32), (5, 0, 1, 3, 2, 4), (32, MOST_PLANES, 8, 8), (32, inputs, 8, 8)
            ),
            # (block row, block column, row, column, channel, output) -> (output, channel, height, width)
            "conv2": LayerShape((2, 2, 2, 2, 32, 64), (5, 4, 0, 2, 1, 3), (64, 32, 4, 4), (64, 32, 4, 4)),
            "conv3": LayerShape((3, 3, 64, 64), (3, 2, 0, 1), (64, 64, 3, 3), (64, 64, 3, 3)),
            # (row, column, channel, output) -> (output, channel·row·column)
            "dense": LayerShape((side, side, 64, FEATURES), (3, 2, 0, 1), dense, dense),
            "head": linear_shape(FEATURES, self.num_outputs, self.padded_outputs),
        }

    @property
    def conv_size(self) -> int:
        """The length of the part that holds the convolutions; the dense layer starts there."""
        return self.segments["dense"].start


def unpack(layout: FlatLayout, flat: th.Tensor) -> Weights:
    """The weights in torch's shapes, each with a leading axis P: `conv1.weight` (P, 32, 4, 8, 8), `conv1.bias` and so on.

    Differentiable: a gradient with respect to them becomes one with respect to `flat`.
    """
    found: Weights = {}
    for name, shape in layout.shapes.items():
        matrix = layout.weight(flat, name).reshape(-1, *shape.axes)
        stored = matrix.permute(0, *(1 + axis for axis in shape.order)).reshape(-1, *shape.stored)
        found[f"{name}.weight"] = stored[:, *(slice(size) for size in shape.used)]
        found[f"{name}.bias"] = layout.bias(flat, name)[:, : shape.used[0]]
    return found


def pack(layout: FlatLayout, weights: Weights) -> th.Tensor:
    """(P, n): the inverse of `unpack`."""
    first = next(iter(weights.values()))
    flat = first.new_zeros(len(first), layout.size)
    for name, shape in layout.shapes.items():
        stored = first.new_zeros(len(first), *shape.stored)
        stored[:, *(slice(size) for size in shape.used)] = weights[f"{name}.weight"]
        permuted = stored.reshape(-1, *(shape.axes[axis] for axis in shape.order))
        back = [1 + shape.order.index(axis) for axis in range(len(shape.order))]
        layout.weight(flat, name).copy_(permuted.permute(0, *back).reshape(-1, shape.inputs, shape.outputs))
        layout.bias(flat, name)[:, : shape.used[0]] = weights[f"{name}.bias"]
    return flat


def blocked_screens(screens: th.Tensor) -> th.Tensor:
    """(N, S, S) or (N, S, S, planes) uint8 → (N, planes, S/4, S/4, 16) uint8: the pixels of each 4×4 block side by side."""
    planes = screens[:, None] if screens.ndim == 3 else screens.permute(0, 3, 1, 2)
    blocks = planes.shape[-1] // 4
    split = planes.reshape(*planes.shape[:2], blocks, 4, blocks, 4)
    return split.permute(0, 1, 2, 4, 3, 5).reshape(*planes.shape[:2], blocks, blocks, 16).contiguous()


def plain_screens(blocked: th.Tensor) -> th.Tensor:
    """(N, planes, S/4, S/4, 16) → (N, planes, S, S)."""
    blocks = blocked.shape[2]
    split = blocked.reshape(*blocked.shape[:2], blocks, blocks, 4, 4)
    return split.permute(0, 1, 2, 4, 3, 5).reshape(*blocked.shape[:2], 4 * blocks, 4 * blocks)


def default_weights(layers: dict[str, nn.Conv2d | nn.Linear]) -> None:
    """Keep the weights that torch.nn has drawn."""


#: The scale of orthogonal weights in Stable-Baselines3: of hidden layers, of the logits, and of the value.
_HIDDEN_GAIN, _LOGITS_GAIN, _VALUE_GAIN = math.sqrt(2), 0.01, 1.0


@th.no_grad()
def orthogonal_weights(layers: dict[str, nn.Conv2d | nn.Linear]) -> None:
    """Set orthogonal weights and zero biases, as Stable-Baselines3 does for actor-critic networks.

    The last output of a layer "head" is the value, the others are the logits. Separate towers end in "policy_head" and
    "value_head".
    """
    gains = {"policy_head": _LOGITS_GAIN, "value_head": _VALUE_GAIN}
    for name, layer in layers.items():
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        if name == "head":
            nn.init.orthogonal_(layer.weight[:-1], _LOGITS_GAIN)
            nn.init.orthogonal_(layer.weight[-1:], _VALUE_GAIN)
        else:
            nn.init.orthogonal_(layer.weight, gains.get(name, _HIDDEN_GAIN))


def initial_weights(
    layout: FlatLayout, seeds: list[int], *, initialize: Initialize = default_weights, device: th.device | str = "cpu"
) -> th.Tensor:
    """(P, n) the weights before training; those of member p are drawn on the CPU from `seeds[p]`."""
    rows = []
    for seed in seeds:
        with th.random.fork_rng(devices=[]):
            th.manual_seed(seed)
            layers = {name: shape.module() for name, shape in layout.shapes.items()}
            initialize(layers)
            named = {f"{a}.{b}": w.detach()[None] for a, layer in layers.items() for b, w in layer.named_parameters()}
        rows.append(pack(layout, named))
    return th.cat(rows).to(device)
