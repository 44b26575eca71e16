"""MiniGrid's networks for P members on a CPU, with gradients written out.

The time of a CPU goes into arithmetic and into the calls of small operations. So each member evaluates the distinct observations
of its rows once. Layers are the batched matrix products of `GridNetworks`, which the tests compare with these. Their gradients
are written to their places in a vector like that of the weights: autograd would join them from many parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from torch.autograd.function import once_differentiable

from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.grid_layout import Convolution, GridLayout
from sqirl.algorithms.population.grid_networks import GridNetworks, patches
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
        ctx.evaluation = _Evaluation(networks, flat.detach(), keys)
        outputs: th.Tensor = ctx.evaluation.outputs
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: th.Tensor) -> tuple[th.Tensor, None, None]:
        return ctx.evaluation.gradient(gradients[0]), None, None


@dataclass(frozen=True, eq=False)
class _Layer:
    """A dense layer, or a convolution as one over the patches of its input."""

    name: str
    inputs: th.Tensor  # (P, R', inputs)
    outputs: th.Tensor  # (P, R', outputs), after ReLU
    convolution: Convolution | None = None
    seen: tuple[int, ...] = ()  # the shape (P, R, width, height, channels) that a convolution was given


class _Evaluation:
    """The networks with weights (P, n) on the keys (P, R, 2): their `outputs` (P, R, outputs), and what each layer was given."""

    def __init__(self, networks: CpuGridNetworks, weights: th.Tensor, keys: th.Tensor) -> None:
        self.layout, self.weights = networks.layout, weights
        architecture = self.layout.grid.architecture
        x = networks.observe(keys)
        self.trunk: list[_Layer] = []  # up to the features
        for number, convolution in enumerate(architecture.convolutions, start=1):
            windows, seen = patches(x, convolution), tuple(x.shape)
            self.trunk.append(self._layer(f"conv{number}", windows.flatten(1, 3), convolution, seen))
            x = self.trunk[-1].outputs.view(*windows.shape[:4], -1)
        self.trunk.append(self._layer("dense", x.flatten(2)))
        self.hidden: dict[str, list[_Layer]] = {}  # of each head
        found = []
        for head, (prefix, outputs) in self.layout.heads.items():
            x, self.hidden[head] = self.trunk[-1].outputs, []
            for number in range(1, len(architecture.hidden) + 1):
                self.hidden[head].append(self._layer(f"{prefix}{number}", x))
                x = self.hidden[head][-1].outputs
            found.append(self._product(head, x)[..., :outputs])
        self.outputs = th.cat(found, dim=-1)

    def _product(self, name: str, x: th.Tensor) -> th.Tensor:
        return th.baddbmm(self.layout.bias(self.weights, name)[:, None], x, self.layout.weight(self.weights, name))

    def _layer(
        self, name: str, x: th.Tensor, convolution: Convolution | None = None, seen: tuple[int, ...] = ()
    ) -> _Layer:
        return _Layer(name, x, self._product(name, x).relu_(), convolution, seen)

    def gradient(self, of_outputs: th.Tensor) -> th.Tensor:
        """(P, n) the gradient by the weights, from that by the outputs (P, R, outputs). It is zero in the padding."""
        found, of_x = th.zeros_like(self.weights), th.zeros_like(self.trunk[-1].outputs)
        parts = th.split(of_outputs, [outputs for _, outputs in self.layout.heads.values()], dim=-1)
        for (head, hidden), part in zip(self.hidden.items(), parts, strict=True):
            x, outputs = (hidden or self.trunk)[-1].outputs, part.shape[-1]
            self.layout.weight(found, head)[..., :outputs] = x.mT @ part
            self.layout.bias(found, head)[:, :outputs] = part.sum(1)
            of_features = part @ self.layout.weight(self.weights, head)[..., :outputs].mT
            for layer in reversed(hidden):
                of_features = self._back(layer, of_features, found)
            of_x += of_features
        for layer in reversed(self.trunk[1:]):
            of_x = self._back(layer, of_x, found)
        self._weigh(self.trunk[0], of_x, found)  # nothing is before the first layer
        return found

    def _back(self, layer: _Layer, of_outputs: th.Tensor, found: th.Tensor) -> th.Tensor:
        """The gradient by what the layer was given; that by its weights is written."""
        through = self._weigh(layer, of_outputs, found)
        of_inputs = th.bmm(through, self.layout.weight(self.weights, layer.name).mT)
        return of_inputs if layer.convolution is None else _unpatched(of_inputs, layer.convolution, layer.seen)

    def _weigh(self, layer: _Layer, of_outputs: th.Tensor, found: th.Tensor) -> th.Tensor:
        """Write the gradient by the layer's weights; returns that by its products, before ReLU."""
        through: th.Tensor = th.ops.aten.threshold_backward(of_outputs.reshape(layer.outputs.shape), layer.outputs, 0)
        th.bmm(layer.inputs.mT, through, out=self.layout.weight(found, layer.name))
        th.sum(through, 1, out=self.layout.bias(found, layer.name))
        return through


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
