"""The weights of MiniGrid's networks as one vector for each member.

The networks are `MiniGridCNN` and `MiniGridPaperCNN` of `sqirl.algorithms.networks`. Activations are (width, height, channels),
so the inputs of a convolution are ordered (column, row, channel), and those of the dense layer too. The planes of the input
and the outputs of the heads are padded to multiples of 4, because matrix products on a GPU are faster with rows of 16 bytes.
The weights of the padding are zero and stay zero, as their gradients do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sqirl.algorithms.population.layout import FlatLayout, LayerShape, linear_shape
from sqirl.errors import SqirlError

#: MiniGrid's codes: kinds of objects, colours, and states or directions.
CODES = (11, 6, 4)
_PADDED_TO = 4


@dataclass(frozen=True)
class Convolution:
    """A convolution with a square kernel, and ReLU."""

    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0

    def side(self, side: int) -> int:
        """The length of a side of the output, from that of the input."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Architecture:
    """Convolutions, a dense layer of `features`, and `hidden` layers before the heads.

    :param one_hot: codes become one plane for each value; otherwise they are divided by 255
    :param least_side: smaller grids are padded with zeros on the right and below
    """

    one_hot: bool
    convolutions: tuple[Convolution, ...]
    features: int
    hidden: tuple[int, ...] = ()
    least_side: int = 1

    @property
    def planes(self) -> int:
        """Planes of the input, the time included."""
        return (sum(CODES) if self.one_hot else len(CODES)) + 1


#: The networks of MiniGrid by their names in `sqirl.algorithms.networks.policy_arguments`.
ARCHITECTURES = {
    "minigrid": Architecture(True, (Convolution(32, 3, 1, 1), Convolution(64, 3, 2, 1)), 256),
    "minigrid-paper": Architecture(
        False, (Convolution(16, 2), Convolution(32, 2), Convolution(64, 2)), 512, (64, 64), least_side=4
    ),
}


@dataclass(frozen=True)
class Grid:
    """The input of a network: a grid of width×height cells of three codes, and the time.

    :param clock: the value of the time plane, 0 to 255, at each timestep from 0 to the horizon
    :param network: a name in `ARCHITECTURES`
    """

    width: int
    height: int
    clock: tuple[int, ...]
    network: str = "minigrid"

    def __post_init__(self) -> None:
        if self.network not in ARCHITECTURES:
            raise SqirlError(f"'{self.network}' is not a network for grids; those are {', '.join(ARCHITECTURES)}")

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.network]

    @property
    def padded_planes(self) -> int:
        return _padded(self.architecture.planes)

    @property
    def padded_sides(self) -> tuple[int, int]:
        least = self.architecture.least_side
        return max(self.width, least), max(self.height, least)


@dataclass(frozen=True)
class GridLayout(FlatLayout):
    """The flat vector of a MiniGrid network with `num_outputs` outputs.

    The hidden layers before the outputs are those of one head, or two towers, one for the policy and one for the value, if
    `actor_critic` is true and the architecture has such layers. Then `num_outputs` counts the logits and the value.
    """

    num_outputs: int
    grid: Grid
    actor_critic: bool = False

    @property
    def has_towers(self) -> bool:
        return self.actor_critic and bool(self.grid.architecture.hidden)

    @property
    def heads(self) -> dict[str, tuple[str, int]]:
        """The name of each head's last layer: the prefix of its hidden layers, and its number of outputs."""
        if self.has_towers:
            return {"policy_head": ("policy", self.num_outputs - 1), "value_head": ("value", 1)}
        return {"head": ("hidden", self.num_outputs)}

    @property
    def shapes(self) -> dict[str, LayerShape]:
        grid, network = self.grid, self.grid.architecture
        found, used, stored = {}, network.planes, grid.padded_planes
        width, height = grid.padded_sides
        for number, layer in enumerate(network.convolutions, start=1):
            kernel, outputs = layer.kernel, layer.outputs
            found[f"conv{number}"] = LayerShape(
                (kernel, kernel, stored, outputs), (3, 2, 0, 1), (outputs, stored, kernel, kernel),
                (outputs, used, kernel, kernel),
            )  # fmt: skip
            used = stored = outputs
            width, height = layer.side(width), layer.side(height)
        dense = (network.features, used * width * height)
        found["dense"] = LayerShape((width, height, used, network.features), (3, 2, 0, 1), dense, dense)
        return {**found, **dict(self._dense_shapes())}

    def _dense_shapes(self) -> Iterator[tuple[str, LayerShape]]:
        """The layers after the features: hidden layers first, then the heads."""
        sizes = [self.grid.architecture.features, *self.grid.architecture.hidden]
        for prefix, _ in self.heads.values():
            for number, (inputs, outputs) in enumerate(pairwise(sizes), start=1):
                yield f"{prefix}{number}", linear_shape(inputs, outputs, outputs)
        for name, (_, outputs) in self.heads.items():
            yield name, linear_shape(sizes[-1], outputs, _padded(outputs))


def _padded(count: int) -> int:
    return -(-count // _PADDED_TO) * _PADDED_TO
