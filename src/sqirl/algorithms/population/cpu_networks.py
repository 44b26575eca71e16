"""MiniGrid's networks for P members on a CPU, with gradients written out.

A CPU multiplies the matrices of one member as fast as those of many, so the members are computed one after the other, each on
the distinct observations of its own rows. Layers are the matrix products of `GridNetworks`, which the tests compare with these.
Their gradients are written to their places in a vector like that of the weights: autograd would join them from many parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from torch.autograd.function import once_differentiable

from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.grid_layout import Convolution, GridLayout
from sqirl.algorithms.population.grid_networks import MOST_CELLS, GridNetworks, patches
from sqirl.algorithms.population.inputs import Inputs

#: The clock of an observation is a byte.
_CLOCK_VALUES = 256


class CpuGridNetworks(GridNetworks):
    """The networks of a `GridLayout` for P members on a CPU. Keys are (screen, timestep)."""

    def __init__(self, layout: GridLayout, screens: th.Tensor, inputs: Inputs | None = None) -> None:
        super().__init__(layout, screens, inputs)
        self._clock_values = np.array(layout.grid.clock)

    def copy(self) -> CpuGridNetworks:
        return CpuGridNetworks(self.layout, self.screens, self.inputs)

    def learn(self, flat: th.Tensor, keys: th.Tensor, learned: int) -> tuple[th.Tensor, th.Tensor]:
        """As in `TorchNetworks`. All rows carry a gradient: those after `learned` are mostly the same observations."""
        leaf = flat.detach().requires_grad_()
        outputs: th.Tensor = _Outputs.apply(leaf, self, keys)  # type: ignore[no-untyped-call]
        return leaf, outputs

    def optimize(self, learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
        fused_adam(learner, gradient, settings)

    @th.no_grad()
    def forward(self, flat: th.Tensor, keys: th.Tensor) -> th.Tensor:
        """(P, R, outputs) float32, without gradient; a limited number of rows at a time."""
        rows = max(1, MOST_CELLS // (self.layout.grid.width * self.layout.grid.height))
        found = []
        for weights, mine in zip(flat, keys, strict=True):
            distinct, place = self._distinct(mine)
            parts = [_Pass(self, weights, part).outputs for part in th.split(distinct, rows)]
            found.append((th.cat(parts) if len(parts) > 1 else parts[0])[place])
        return th.stack(found)

    def _distinct(self, keys: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """(a key of each distinct observation, the number of the observation of each row), of keys (R, 2)."""
        if len(keys) == 1:
            return keys, th.zeros(1, dtype=th.int64)
        rows = keys.numpy()
        numbers = rows[:, 0].astype(np.int64) * _CLOCK_VALUES + self._clock_values[rows[:, 1]]
        _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
        return keys[th.from_numpy(first)], th.from_numpy(place)

    def passed(self, flat: th.Tensor, keys: th.Tensor) -> list[tuple[_Pass, th.Tensor]]:
        """Of each member: its networks on its distinct observations, and the number of the observation of each row."""
        distinct = map(self._distinct, keys)
        return [(_Pass(self, weights, mine), place) for weights, (mine, place) in zip(flat, distinct, strict=True)]


class _Outputs(th.autograd.Function):
    """(P, R, outputs) of the networks with weights (P, n) for keys (P, R, 2)."""

    @staticmethod
    def forward(ctx: Any, flat: th.Tensor, networks: CpuGridNetworks, keys: th.Tensor) -> th.Tensor:
        ctx.passes = networks.passed(flat.detach(), keys)
        return th.stack([each.outputs[place] for each, place in ctx.passes])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: th.Tensor) -> tuple[th.Tensor, None, None]:
        of_weights = th.zeros(len(ctx.passes), ctx.passes[0][0].layout.size)
        for (each, place), of_rows, row in zip(ctx.passes, gradients[0], of_weights, strict=True):
            of_outputs = th.zeros_like(each.outputs).index_add_(0, place, of_rows)
            each.write_gradient(of_outputs, row)
        return of_weights, None, None


@dataclass(frozen=True, eq=False)
class _Layer:
    """A dense layer, or a convolution as one over the patches of its input."""

    name: str
    inputs: th.Tensor  # (R', inputs)
    outputs: th.Tensor  # (R', outputs), after ReLU
    convolution: Convolution | None = None
    seen: tuple[int, ...] = ()  # the shape (R, width, height, channels) that a convolution was given


class _Pass:
    """The networks of one member on R observations. `outputs` are (R, outputs)."""

    def __init__(self, networks: CpuGridNetworks, weights: th.Tensor, keys: th.Tensor) -> None:
        self.layout, self.weights = networks.layout, weights[None]
        architecture = self.layout.grid.architecture
        x = networks.observe(keys[None])[0]
        self.trunk: list[_Layer] = []  # up to the features
        for number, convolution in enumerate(architecture.convolutions, start=1):
            windows, seen = patches(x[None], convolution)[0], tuple(x.shape)
            made = self._layer(f"conv{number}", windows.flatten(0, 2), convolution, seen)
            self.trunk.append(made)
            x = made.outputs.view(*windows.shape[:3], -1)
        self.trunk.append(self._layer("dense", x.flatten(1)))
        self.hidden: dict[str, list[_Layer]] = {}  # of each head
        found = []
        for head, (prefix, outputs) in self.layout.heads.items():
            x, self.hidden[head] = self.trunk[-1].outputs, []
            for number in range(1, len(architecture.hidden) + 1):
                self.hidden[head].append(self._layer(f"{prefix}{number}", x))
                x = self.hidden[head][-1].outputs
            found.append(self._product(head, x)[:, :outputs])
        self.outputs = th.cat(found, dim=1) if len(found) > 1 else found[0]

    def _product(self, name: str, x: th.Tensor) -> th.Tensor:
        return th.addmm(self.layout.bias(self.weights, name)[0], x, self.layout.weight(self.weights, name)[0])

    def _layer(
        self, name: str, x: th.Tensor, convolution: Convolution | None = None, seen: tuple[int, ...] = ()
    ) -> _Layer:
        return _Layer(name, x, self._product(name, x).relu_(), convolution, seen)

    def write_gradient(self, of_outputs: th.Tensor, to: th.Tensor) -> None:
        """Write the gradient by the weights to (n,), from that by the outputs (R, outputs). The padding is left as it is."""
        of_features: th.Tensor | None = None
        parts = th.split(of_outputs, [outputs for _, outputs in self.layout.heads.values()], dim=1)
        for (head, hidden), part in zip(self.hidden.items(), parts, strict=True):
            x = (hidden or self.trunk)[-1].outputs
            outputs = part.shape[1]
            self.layout.weight(to[None], head)[0, :, :outputs] = x.t() @ part
            self.layout.bias(to[None], head)[0, :outputs] = part.sum(0)
            of_x = part @ self.layout.weight(self.weights, head)[0, :, :outputs].t()
            for layer in reversed(hidden):
                of_x = self._back(layer, of_x, to)
            of_features = of_x if of_features is None else of_features + of_x
        assert of_features is not None
        of_x = of_features
        for layer in reversed(self.trunk[1:]):
            of_x = self._back(layer, of_x, to)
        self._weigh(self.trunk[0], of_x, to)  # nothing is before the first layer

    def _back(self, layer: _Layer, of_outputs: th.Tensor, to: th.Tensor) -> th.Tensor:
        """The gradient by what the layer was given; that by its weights is written."""
        of_products = self._weigh(layer, of_outputs, to)
        of_inputs = of_products @ self.layout.weight(self.weights, layer.name)[0].t()
        return of_inputs if layer.convolution is None else _unpatched(of_inputs, layer.convolution, layer.seen)

    def _weigh(self, layer: _Layer, of_outputs: th.Tensor, to: th.Tensor) -> th.Tensor:
        """Write the gradient by the layer's weights; returns that by its products, before ReLU."""
        through: th.Tensor = th.ops.aten.threshold_backward(of_outputs.reshape(layer.outputs.shape), layer.outputs, 0)
        th.mm(layer.inputs.t(), through, out=self.layout.weight(to[None], layer.name)[0])
        th.sum(through, 0, out=self.layout.bias(to[None], layer.name)[0])
        return through


def _unpatched(x: th.Tensor, layer: Convolution, seen: tuple[int, ...]) -> th.Tensor:
    """The adjoint of `patches`: each value of the patches (R·width'·height', …) is added to where it came from (R, width, …)."""
    rows, width, height, channels = seen
    wide, high = layer.side(width), layer.side(height)
    parts = x.view(rows, wide, high, layer.kernel, layer.kernel, channels)
    pad, stride = layer.padding, layer.stride
    found = x.new_zeros(rows, width + 2 * pad, height + 2 * pad, channels)
    for column in range(layer.kernel):
        for row in range(layer.kernel):
            columns, lines = slice(column, column + stride * wide, stride), slice(row, row + stride * high, stride)
            found[:, columns, lines] += parts[:, :, :, column, row]
    return found[:, pad : pad + width, pad : pad + height].contiguous()


def fused_adam(learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
    """One step of `torch.optim.Adam` for the members that are running, by the gradient (P, n), in one pass over memory."""
    learner.steps += learner.running
    for p in learner.running.nonzero()[:, 0].tolist():
        scale = None
        if settings.max_norm is not None:  # as torch's clip_grad_norm_; Adam divides the gradient by it
            scale = ((th.linalg.vector_norm(gradient[p]) + 1e-6) / settings.max_norm).clamp(min=1.0)
        th._fused_adam_(
            [learner.flat[p]], [gradient[p]], [learner.first[p]], [learner.second[p]], [], [learner.steps[p].float()],
            lr=float(learner.rates[p]), beta1=settings.beta1, beta2=settings.beta2, weight_decay=0.0,
            eps=settings.epsilon, amsgrad=False, maximize=False, grad_scale=scale, found_inf=None,
        )  # fmt: skip
