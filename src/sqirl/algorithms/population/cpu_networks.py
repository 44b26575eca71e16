"""MiniGrid's networks for P members on a CPU, with gradients written out.

A CPU spends its time on arithmetic, on copies, and on the calls of small operations. So each member evaluates the distinct
observations of its rows once. The layers are those of `GridNetworks`. Their gradients are written to their places in a vector
like that of the weights; autograd computes each in a tensor of its own and copies it. The tests compare the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from torch.autograd.function import once_differentiable

from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.grid_layout import Convolution, GridLayout
from sqirl.algorithms.population.grid_networks import GridNetworks, Layer
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
        distinct, place = self.distinct(keys)
        outputs: th.Tensor = _Outputs.apply(leaf, self, distinct)  # type: ignore[no-untyped-call]
        return leaf, _rows(outputs, place)

    def optimize(self, learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
        fused_adam(learner, gradient, settings)

    @th.no_grad()
    def forward(self, flat: th.Tensor, keys: th.Tensor) -> th.Tensor:
        distinct, place = self.distinct(keys)
        return _rows(super().forward(flat, distinct), place)

    def distinct(self, keys: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """((P, R', 2) the keys of each member's distinct observations, (P, R) which of them each row has), of keys (P, R, 2).

        R' is that of the member with the most; the others repeat one.
        """
        members, rows = keys.shape[:2]
        if rows == 1:
            return keys, th.zeros(members, 1, dtype=th.int64)
        parts = keys.numpy()
        numbers = parts[..., 0].astype(np.int64) * _CLOCK_VALUES + self._clock_values[parts[..., 1]]
        found = [np.unique(mine, return_index=True, return_inverse=True)[1:] for mine in numbers]
        first = np.zeros((members, max(len(rows_of) for rows_of, _ in found)), np.int64)
        for row, (rows_of, _) in zip(first, found, strict=True):
            row[: len(rows_of)] = rows_of
        return _rows(keys, th.from_numpy(first)), th.from_numpy(np.stack([place for _, place in found]))


def _rows(x: th.Tensor, place: th.Tensor) -> th.Tensor:
    """(P, R, …) the rows (P, R) of x (P, R', …)."""
    return x.gather(1, place[..., None].expand(-1, -1, x.shape[2]))


class _Outputs(th.autograd.Function):
    """(P, R, outputs) of the networks with weights (P, n) for keys (P, R, 2)."""

    @staticmethod
    def forward(ctx: Any, flat: th.Tensor, networks: CpuGridNetworks, keys: th.Tensor) -> th.Tensor:
        layers: list[Layer] = []
        outputs = networks.evaluate(flat.detach(), networks.observe(keys), layers.append)
        # Not the outputs: they refer to `ctx`, and a cycle keeps all layers in memory until Python looks for cycles
        ctx.layout, ctx.layers = networks.layout, {layer.name: layer for layer in layers}
        ctx.save_for_backward(flat)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: th.Tensor) -> tuple[th.Tensor, None, None]:
        (weights,) = ctx.saved_tensors
        return _Backward(ctx.layout, weights, ctx.layers).run(gradients[0]), None, None


class _Backward:
    """The gradient by the weights (P, n) of the networks of `layout`, from what their layers returned."""

    def __init__(self, layout: GridLayout, weights: th.Tensor, layers: dict[str, Layer]) -> None:
        self.layout, self.weights, self.layers = layout, weights, layers
        self.found = th.zeros_like(weights)  # it stays zero in the padding

    def run(self, of_outputs: th.Tensor) -> th.Tensor:
        """(P, n) from the gradient by the outputs (P, R, outputs)."""
        network, features = self.layout.grid.architecture, self.layers["dense"].outputs
        of_x = th.zeros_like(features)
        parts = th.split(of_outputs, [outputs for _, outputs in self.layout.heads.values()], dim=-1)
        for (head, (prefix, outputs)), part in zip(self.layout.heads.items(), parts, strict=True):
            hidden = [self.layers[f"{prefix}{number}"] for number in range(1, len(network.hidden) + 1)]
            x = hidden[-1].outputs if hidden else features
            self.layout.weight(self.found, head)[..., :outputs] = x.mT @ part
            self.layout.bias(self.found, head)[:, :outputs] = part.sum(1)
            of_features = part @ self.layout.weight(self.weights, head)[..., :outputs].mT
            for layer in reversed(hidden):
                of_features = self._through(layer, of_features)
            of_x += of_features
        of_x = self._through(self.layers["dense"], of_x)
        convolutions = [self.layers[f"conv{number}"] for number in range(1, len(network.convolutions) + 1)]
        for layer in reversed(convolutions[1:]):
            of_x = self._through(layer, of_x)
        self._write(convolutions[0], of_x)  # nothing is before the first layer
        return self.found

    def _through(self, layer: Layer, of_outputs: th.Tensor) -> th.Tensor:
        """The gradient by what the layer was given; that by its weights is written."""
        of_inputs = th.bmm(self._write(layer, of_outputs), self.layout.weight(self.weights, layer.name).mT)
        return of_inputs if layer.convolution is None else _unpatched(of_inputs, layer.convolution, layer.seen)

    def _write(self, layer: Layer, of_outputs: th.Tensor) -> th.Tensor:
        """Write the gradient by the layer's weights; returns that by its products, before ReLU."""
        of_products: th.Tensor = th.ops.aten.threshold_backward(
            of_outputs.reshape(layer.outputs.shape), layer.outputs, 0
        )
        th.bmm(layer.inputs.mT, of_products, out=self.layout.weight(self.found, layer.name))
        th.sum(of_products, 1, out=self.layout.bias(self.found, layer.name))
        return of_products


def _unpatched(x: th.Tensor, layer: Convolution, seen: tuple[int, ...]) -> th.Tensor:
    """(P, R, width, height, channels) the adjoint of `patches`: values of patches are added to where they came from."""
    width, height, channels = seen[2:]
    wide, high = layer.side(width), layer.side(height)
    parts = x.view(*seen[:2], wide, high, layer.kernel, layer.kernel, channels)
    pad, stride = layer.padding, layer.stride
    found = x.new_zeros(*seen[:2], width + 2 * pad, height + 2 * pad, channels)
    for column in range(layer.kernel):
        for row in range(layer.kernel):
            columns, lines = slice(column, column + stride * wide, stride), slice(row, row + stride * high, stride)
            found[:, :, columns, lines] += parts[:, :, :, :, column, row]
    return found[:, :, pad : pad + width, pad : pad + height]


def fused_adam(learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
    """One step of `torch.optim.Adam` for the members that are running, in one pass over memory.

    The gradient (P, n) is clipped in place.
    """
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
