"""Training one network fast on a GPU: weights as flat vectors, a copy of them in bfloat16, and Adam in one kernel.

On another device the copy is in float32 and no CUDA graph is captured, so that tests compare the same code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.optim.adam import adam

from sqirl.algorithms.population.graph import captured

#: On a GPU: take only kernels whose results do not depend on time or on the order in which threads finish. Else the fastest
#: ones are chosen by trying them out, and the same seed gives the same run only up to rounding, which then grows.
REPEATABLE = False
#: On a GPU: fuse the small kernels of a gradient step with `torch.compile`, unless `REPEATABLE`.
COMPILED = True
#: Convolutions in bfloat16 use tensor cores only if the number of their input planes is a multiple of this.
PLANES = 8


def compute_type(device: th.device) -> th.dtype:
    """The precision that networks compute in."""
    return th.bfloat16 if device.type == "cuda" else th.float32


def pictures(observations: th.Tensor, dtype: th.dtype) -> th.Tensor:
    """(n, C, H, W) bytes → numbers in [0, 1], channels last in memory."""
    return observations.to(dtype, memory_format=th.channels_last).div_(255)


def padded(planes: th.Tensor) -> th.Tensor:
    """(n, C, H, W) with zeros added, so that C is a multiple of `PLANES`."""
    return nn.functional.pad(planes, (0, 0, 0, 0, 0, -planes.shape[1] % PLANES))


def precise_linear(layer: Any, x: th.Tensor) -> th.Tensor:
    """The layer in float32: bfloat16 has three digits, and the values of two actions often differ in the third."""
    return nn.functional.linear(x.float(), layer.weight, layer.bias)


@contextmanager
def chosen_convolutions() -> Iterator[None]:
    """As `REPEATABLE` says."""
    cudnn = th.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = REPEATABLE, not REPEATABLE
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before


def as_graph(step: Callable[[], object], device: th.device, *, kept: Sequence[th.Tensor] = ()) -> Callable[[], object]:
    """On a GPU the function as one CUDA graph, captured with the tensors of `kept` left as they are. Elsewhere itself."""
    if device.type != "cuda":
        return step
    with chosen_convolutions():
        return captured(step, kept=kept, warm_up=3)


class Evaluation:
    """A network as a function of its weights, by name, and of (n, C, H, W) bytes.

    If its first convolution takes the pictures themselves, zeros are added to their planes and to its weights.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._fused: tuple[tuple[int, ...], Callable[..., Any]] | None = None

    def __call__(self, weights: dict[str, th.Tensor], observations: th.Tensor) -> Any:
        shape = observations.shape
        first = next(tensor for tensor in weights.values() if tensor.ndim == 4)
        seen = pictures(padded(observations) if first.shape[1] == shape[1] else observations, first.dtype)
        if self._fused is not None and shape == self._fused[0] and th.is_grad_enabled():
            return self._fused[1](weights, seen)
        return self._plain(weights, seen)

    def _plain(self, weights: dict[str, th.Tensor], seen: th.Tensor) -> Any:
        name, first = next((name, tensor) for name, tensor in weights.items() if tensor.ndim == 4)
        if first.shape[1] < seen.shape[1]:
            weights = {**weights, name: padded(first)}
        return functional_call(self.network, weights, (seen,))

    def fuse(self, weights: dict[str, th.Tensor], shape: tuple[int, ...]) -> None:
        """Compile the network and its gradient for (n, C, H, W) bytes of this shape; where that fails, nothing changes."""
        device = next(iter(weights.values())).device
        if not COMPILED or REPEATABLE or device.type != "cuda" or (self._fused is not None and self._fused[0] == shape):
            return
        try:
            # Without the option it would choose channels first for so few channels
            fused = th.compile(self._plain, dynamic=False, fullgraph=True, options={"force_layout_optimization": True})
            self._fused = shape, fused
            # Every model of a process is one more version of the same function
            with th.enable_grad(), chosen_convolutions(), th._dynamo.config.patch(recompile_limit=1000):
                found = self(weights, th.zeros(shape, dtype=th.uint8, device=device))
                outputs = found if isinstance(found, tuple) else (found,)
                th.autograd.grad([output.sum() for output in outputs], list(weights.values()))
        except Exception as error:  # there is no Triton or no C compiler, or torch cannot compile it
            self._fused = None
            warnings.warn(f"gradient steps are not compiled: {str(error)[:300]}", stacklevel=2)


class FlatWeights:
    """The parameters of a network, moved into one float32 vector `flat`; their gradient is `gradient`.

    The parameters of convolutions lie channels last. Those named in `precise` are at the end of the vector; they are never
    rounded. Parameters may have a leading population dimension of 1 (`stacked`).
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, precise: Collection[str], stacked: bool) -> None:
        self.names = sorted(parameters, key=lambda name: name in precise)  # a stable sort
        self.parameters = [parameters[name] for name in self.names]
        self._shapes = [p.shape[1:] if stacked else p.shape for p in self.parameters]
        self.num_rounded = sum(parameters[name].numel() for name in self.names if name not in precise)
        size = sum(parameter.numel() for parameter in self.parameters)
        self.flat = th.empty(size, device=self.parameters[0].device)
        self.gradient = th.zeros_like(self.flat)
        self._leading = (None,) if stacked else (...,)
        for parameter, place in zip(self.parameters, self.views(self.flat), strict=True):
            place.copy_(parameter.detach().reshape(place.shape))
            parameter.data = place[self._leading]

    def views(self, *vectors: th.Tensor) -> list[th.Tensor]:
        """The weights in their shapes; the vectors have as many numbers together as there are weights."""
        parts, rest = [], list(vectors)
        for shape in self._shapes:
            if not len(rest[0]):
                rest.pop(0)
            part, rest[0] = rest[0][: shape.numel()], rest[0][shape.numel() :]
            if len(shape) == 4:
                outputs, inputs, height, width = shape
                parts.append(part.view(outputs, height, width, inputs).permute(0, 3, 1, 2))
            else:
                parts.append(part.view(shape))
        return parts

    def parameter_views(self, flat: th.Tensor) -> list[th.Tensor]:
        """As `views`, in the shapes of the parameters."""
        return [view[self._leading] for view in self.views(flat)]


class WorkingCopy:
    """Weights in the precision of the network; those that are precise stay in float32."""

    def __init__(self, weights: FlatWeights, dtype: th.dtype) -> None:
        self._rounded = weights.flat[: weights.num_rounded].to(dtype, copy=True)
        self._precise = weights.flat[weights.num_rounded :].clone()
        views = weights.views(self._rounded, self._precise)
        self.tensors = {n: view.detach().requires_grad_() for n, view in zip(weights.names, views, strict=True)}

    @th.no_grad()
    def load(self, flat: th.Tensor) -> None:
        """Copy all weights from a float32 vector."""
        split = len(self._rounded)
        self._rounded.copy_(flat[:split])
        self._precise.copy_(flat[split:])


class FlatAdam:
    """One step of an optimizer's Adam on flat weights, as one kernel that a CUDA graph can hold.

    The moments stay the optimizer's own state, as views of two vectors, so checkpoints are those of the plain class.
    """

    def __init__(self, weights: FlatWeights, optimizer: th.optim.Optimizer) -> None:
        if type(optimizer) is not th.optim.Adam:
            raise TypeError(f"{type(optimizer).__name__} is not Adam")
        group = optimizer.param_groups[0]
        self.weights, self._eps, self._betas = weights, float(group["eps"]), group["betas"]
        self.rate = th.tensor(float(group["lr"]), device=weights.flat.device)
        self.first, self.second = th.zeros_like(weights.flat), th.zeros_like(weights.flat)
        self.step = th.zeros((), device=weights.flat.device)
        self._steps = th.zeros(len(weights.parameters), device=weights.flat.device)  # one for each parameter
        self._adopt(optimizer)

    @th.no_grad()
    def _adopt(self, optimizer: th.optim.Optimizer) -> None:
        firsts, seconds = self.weights.parameter_views(self.first), self.weights.parameter_views(self.second)
        for place, parameter in enumerate(self.weights.parameters):
            known = optimizer.state[parameter]
            if known:
                firsts[place].copy_(known["exp_avg"])
                seconds[place].copy_(known["exp_avg_sq"])
                self.step.fill_(float(known["step"]))
            optimizer.state[parameter] = {
                "step": self._steps[place], "exp_avg": firsts[place], "exp_avg_sq": seconds[place]
            }  # fmt: skip
        self._steps.copy_(self.step.expand_as(self._steps))

    @property
    def tensors(self) -> tuple[th.Tensor, ...]:
        """All that a step changes, for `as_graph`."""
        return self.weights.flat, self.first, self.second, self.step, self._steps

    @th.no_grad()
    def descend(self, loss: th.Tensor, copy: WorkingCopy, *, max_norm: float | None = None) -> None:
        """The gradient of the loss by the working copy, one step on the weights, and the copy made new."""
        found = th.autograd.grad(loss, list(copy.tensors.values()))
        places = self.weights.views(self.weights.gradient)
        for dtype in {gradient.dtype for gradient in found}:  # one kernel for each precision
            chosen = [place for place, gradient in enumerate(found) if gradient.dtype == dtype]
            th._foreach_copy_([places[i] for i in chosen], [found[i] for i in chosen])
        gradient = self.weights.gradient
        if max_norm is not None:  # as torch's clip_grad_norm_
            gradient.mul_((max_norm / (gradient.norm() + 1e-6)).clamp(max=1.0))
        adam(
            [self.weights.flat], [gradient], [self.first], [self.second], [], [self.step],
            fused=True, capturable=gradient.is_cuda, lr=self.rate, beta1=self._betas[0], beta2=self._betas[1],
            eps=self._eps, weight_decay=0.0, amsgrad=False, maximize=False,
        )  # fmt: skip
        self._steps.copy_(self.step.expand_as(self._steps))
        copy.load(self.weights.flat)


class GreedyActions:
    """The actions with the highest scores by a network, for any vector of weights.

    Captured for numbers of pictures that are powers of two; other numbers are filled up.

    :param scores: (weights, (n, C, H, W) bytes) → (n, A)
    """

    def __init__(
        self,
        scores: Callable[[dict[str, th.Tensor], th.Tensor], th.Tensor],
        weights: FlatWeights,
        shape: tuple[int, ...],
    ) -> None:
        self._scores, self._shape, self._device = scores, shape, weights.flat.device
        self._copy = WorkingCopy(weights, compute_type(self._device))
        self._made: dict[int, tuple[th.Tensor, th.Tensor, Callable[[], object]]] = {}

    def __call__(self, flat: th.Tensor, observations: th.Tensor) -> NDArray[np.int64]:
        """(n,) actions for (n, C, H, W) bytes."""
        count = len(observations)
        seen, best, run = self._of_size(1 << (count - 1).bit_length())
        seen[:count].copy_(observations)
        self._copy.load(flat)
        run()
        actions: NDArray[np.int64] = best[:count].cpu().numpy()
        return actions

    def _of_size(self, size: int) -> tuple[th.Tensor, th.Tensor, Callable[[], object]]:
        if size not in self._made:
            seen = th.zeros((size, *self._shape), dtype=th.uint8, device=self._device)
            best = th.zeros(size, dtype=th.int64, device=self._device)

            @th.no_grad()
            def run() -> None:
                best.copy_(self._scores(self._copy.tensors, seen).argmax(-1))

            self._made[size] = seen, best, as_graph(run, self._device)
        return self._made[size]
