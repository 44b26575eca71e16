"""The weights of NatureCNN as one vector for each member, and as tensors of torch's shapes.

A population of P members keeps all weights in one tensor (P, n). Each layer is a matrix (inputs, outputs), outputs
contiguous, in the order in which the kernels multiply:

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
from collections.abc import Callable
from dataclasses import dataclass

import torch as th
from torch import nn
from torch.nn.functional import pad

from sqirl.errors import SqirlError

FEATURES = 512
#: Planes of pixels that the first layer's weights are made for.
MOST_PLANES = 4

#: Segments of the vector start at multiples of this, which is also the block of the optimizer.
ALIGNMENT = 512

Weights = dict[str, th.Tensor]
#: Sets the weights of the layers, which are in the order of `Layout.segments`, before training.
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
class Layout:
    """The flat vector of a NatureCNN with `num_outputs` outputs."""

    num_outputs: int
    picture: Picture = ATARI

    @property
    def padded_outputs(self) -> int:
        return 16 * math.ceil(self.num_outputs / 16)

    @property
    def segments(self) -> dict[str, Segment]:
        sizes = {
            "conv1": (MOST_PLANES * 64, 32), "conv2": (16 * 32, 64), "conv3": (9 * 64, 64),
            "dense": (self.picture.flat, FEATURES), "head": (FEATURES, self.padded_outputs),
        }  # fmt: skip
        found, start = {}, 0
        for name, (inputs, outputs) in sizes.items():
            found[name] = Segment(name, inputs, outputs, start)
            start = ALIGNMENT * math.ceil(found[name].end / ALIGNMENT)
        return found

    @property
    def size(self) -> int:
        """n, the length of the vector."""
        return ALIGNMENT * math.ceil(self.segments["head"].end / ALIGNMENT)

    @property
    def conv_size(self) -> int:
        """The length of the part that holds the convolutions; the dense layer starts there."""
        return self.segments["dense"].start

    def weight(self, flat: th.Tensor, name: str) -> th.Tensor:
        """(P, inputs, outputs) view of a layer's weights."""
        s = self.segments[name]
        return flat[:, s.start : s.bias_start].view(-1, s.inputs, s.outputs)

    def bias(self, flat: th.Tensor, name: str) -> th.Tensor:
        """(P, outputs) view of a layer's bias."""
        s = self.segments[name]
        return flat[:, s.bias_start : s.end]


def _axes(picture: Picture) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """The axes of each layer's weights in the flat vector; their order and final shape in torch (outputs first)."""
    side = picture.width3
    return {
        # (plane, block row, block column, row, column, output) -> (output, plane, height, width)
        "conv1": ((MOST_PLANES, 2, 2, 4, 4, 32), (5, 0, 1, 3, 2, 4), (32, MOST_PLANES, 8, 8)),
        # (block row, block column, row, column, channel, output) -> (output, channel, height, width)
        "conv2": ((2, 2, 2, 2, 32, 64), (5, 4, 0, 2, 1, 3), (64, 32, 4, 4)),
        "conv3": ((3, 3, 64, 64), (3, 2, 0, 1), (64, 64, 3, 3)),
        # (row, column, channel, output) -> (output, channel·row·column)
        "dense": ((side, side, 64, FEATURES), (3, 2, 0, 1), (FEATURES, picture.flat)),
    }


def unpack(layout: Layout, flat: th.Tensor) -> Weights:
    """The weights in torch's shapes, each with a leading axis P: `conv1.weight` (P, 32, 4, 8, 8), `conv1.bias` and so on.

    Differentiable: a gradient with respect to them becomes one with respect to `flat`.
    """
    found: Weights = {}
    for name, (axes, order, shape) in _axes(layout.picture).items():
        matrix = layout.weight(flat, name).reshape(-1, *axes)
        found[f"{name}.weight"] = matrix.permute(0, *(1 + axis for axis in order)).reshape(-1, *shape)
        found[f"{name}.bias"] = layout.bias(flat, name)
    found["conv1.weight"] = found["conv1.weight"][:, :, : layout.picture.inputs]
    count = layout.num_outputs
    found["head.weight"] = layout.weight(flat, "head")[..., :count].transpose(1, 2)
    found["head.bias"] = layout.bias(flat, "head")[..., :count]
    return found


def pack(layout: Layout, weights: Weights) -> th.Tensor:
    """(P, n): the inverse of `unpack`."""
    first = weights["head.bias"]
    flat = first.new_zeros(len(first), layout.size)
    missing = MOST_PLANES - layout.picture.inputs
    weights = {**weights, "conv1.weight": pad(weights["conv1.weight"], (0, 0, 0, 0, 0, missing))}
    for name, (axes, order, _) in _axes(layout.picture).items():
        permuted = weights[f"{name}.weight"].reshape(-1, *(axes[axis] for axis in order))
        back = [1 + order.index(axis) for axis in range(len(order))]
        layout.weight(flat, name).copy_(permuted.permute(0, *back).reshape(-1, *_matrix_shape(layout, name)))
        layout.bias(flat, name).copy_(weights[f"{name}.bias"])
    layout.weight(flat, "head")[..., : layout.num_outputs] = weights["head.weight"].transpose(1, 2)
    layout.bias(flat, "head")[..., : layout.num_outputs] = first
    return flat


def _matrix_shape(layout: Layout, name: str) -> tuple[int, int]:
    segment = layout.segments[name]
    return segment.inputs, segment.outputs


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


def initial_weights(
    layout: Layout, seeds: list[int], *, initialize: Initialize = default_weights, device: th.device | str = "cpu"
) -> th.Tensor:
    """(P, n) the weights before training; those of member p are drawn on the CPU from `seeds[p]`."""
    rows = []
    for seed in seeds:
        with th.random.fork_rng(devices=[]):
            th.manual_seed(seed)
            layers: dict[str, nn.Conv2d | nn.Linear] = {
                "conv1": nn.Conv2d(layout.picture.inputs, 32, 8, 4), "conv2": nn.Conv2d(32, 64, 4, 2),
                "conv3": nn.Conv2d(64, 64, 3),
                "dense": nn.Linear(layout.picture.flat, FEATURES), "head": nn.Linear(FEATURES, layout.num_outputs),
            }  # fmt: skip
            initialize(layers)
            named = {f"{a}.{b}": w.detach()[None] for a, layer in layers.items() for b, w in layer.named_parameters()}
        rows.append(pack(layout, named))
    return th.cat(rows).to(device)
