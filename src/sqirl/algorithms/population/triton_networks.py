"""The networks of a population by Triton kernels: forward pass, backward pass and Adam over buffers that are allocated once.

Every method only launches kernels, so any sequence of calls can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch as th
import triton
from torch import cuda

from sqirl.algorithms.population import conv_kernels, dense_kernels, step_kernels
from sqirl.algorithms.population.batch import AdamSettings, Learner, Loss
from sqirl.algorithms.population.layout import ALIGNMENT, FEATURES, Layout, Picture
from sqirl.algorithms.population.tuning import Tuning, tuning_for
from sqirl.errors import SqirlError


def _shapes(picture: Picture, key_length: int) -> dict[int, dict[str, int]]:
    """The arguments of the convolutions' kernels: sides of inputs and outputs, channels, side of a filter, outputs."""
    first = {"K": key_length, "PLANES": picture.planes, "INPUTS": picture.inputs, "BLOCKS": picture.blocks}
    return {
        1: {**first, "W1": picture.width1},
        2: {"IW": picture.width1, "C": 128, "OW": picture.width2, "KW": 2, "N": 64},
        3: {"IW": picture.width2, "C": 64, "OW": picture.width3, "KW": 3, "N": 64},
    }


@dataclass(frozen=True)
class Size:
    """P members, R observations of each, of which the first B are learned from."""

    members: int
    rows: int
    batch: int


def _power_of_two(number: int, least: int = 16) -> int:
    return max(least, 1 << (number - 1).bit_length())


class TritonNetworks:
    """NatureCNNs of P members on the screens (N, planes, S/4, S/4, 16) of one table."""

    def __init__(
        self, layout: Layout, screens: th.Tensor, size: Size, *, key_length: int, dtype: th.dtype = th.bfloat16,
        precision: str = "ieee", tuning: Tuning | None = None,
    ) -> None:  # fmt: skip
        """`precision` is that of float32 products: "ieee", or "tf32x3", which uses tensor cores and is nearly as exact."""
        self.layout, self.size, self.key_length = layout, size, key_length
        self.screens = screens.view(th.int32)  # (N, planes, S/4, S/4, 4) words of four pixels
        self.shapes, picture = _shapes(layout.picture, key_length), layout.picture
        self.inputs = picture.flat  # of the dense layer
        self.dtype, self.device = dtype, screens.device
        self.tuning = tuning or tuning_for(size.members, dtype)
        self.precision = precision
        members, rows = size.members, size.rows
        self.h1 = self._buffer(members, rows, picture.width1**2, 128)  # blocks of (2, 2, 32)
        self.h2 = self._buffer(members, rows, picture.width2**2, 64)
        self.h3 = self._buffer(members, rows, self.inputs)
        self.features = self._buffer(members, rows, FEATURES)
        self.out = th.empty(members, rows, layout.padded_outputs, device=self.device)
        #: (P, n) the weights that the kernels read: a copy in `dtype` that Adam updates.
        self.copy: th.Tensor | None = None
        if size.batch:
            self._make_backward_buffers()

    def _buffer(self, *shape: int) -> th.Tensor:
        return th.empty(shape, dtype=self.dtype, device=self.device)

    def _make_backward_buffers(self) -> None:
        members, batch, n = self.size.members, self.size.batch, self.layout.size
        self.dout = th.zeros(members, batch, self.layout.padded_outputs, device=self.device)
        self.dfeatures = self._buffer(members, batch, FEATURES)
        self.dh3, self.dh2, self.dh1 = (self._buffer(members, batch, *h.shape[2:]) for h in (self.h3, self.h2, self.h1))
        self.splits = tuple(min(s, batch) for s in (self.tuning.splits1, self.tuning.splits2, self.tuning.splits3))
        self.partial = th.zeros(max(self.splits), members, self.layout.conv_size, device=self.device)
        self.grad = th.zeros(members, n, device=self.device)
        # Of the two streams this one has priority: the last kernel of the backward pass depends on all of its kernels
        self.urgent = cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
        self.scalars = th.zeros(members, 3, device=self.device)
        chunks, pairs = self._square_parts()
        self.squares = th.zeros(members, self.layout.conv_size // ALIGNMENT + chunks * pairs, device=self.device)
        self.norms = th.zeros(members, device=self.device)

    # Weights ---------------------------------------------------------------------------------------------------------

    def load(self, flat: th.Tensor) -> None:
        """Read the weights (P, n) from now on; float32 weights are not copied.

        With bfloat16 the weights of the first layer are float16, because its inputs are bytes: their conversion to float16
        takes half as many instructions.
        """
        if self.dtype == th.float32:
            self.copy = flat
            return
        if self.copy is None:
            self.copy = th.empty_like(flat, dtype=self.dtype)
        self.copy.copy_(flat)
        end = self.layout.segments["conv2"].start
        self.copy.view(th.float16)[:, :end] = flat[:, :end]

    def acting(self, rows: int) -> TritonNetworks:
        """Networks that read the same weights and evaluate `rows` observations of each member; they do not learn."""
        other = self._of_rows(rows)
        other.copy = self._weights()
        return other

    def separate(self, rows: int, flat: th.Tensor) -> TritonNetworks:
        """Networks with the weights (P, n) given that evaluate `rows` observations of each member; they do not learn."""
        other = self._of_rows(rows)
        other.load(flat)
        return other

    def _of_rows(self, rows: int) -> TritonNetworks:
        return TritonNetworks(
            self.layout, self.screens, replace(self.size, rows=rows, batch=0), key_length=self.key_length,
            dtype=self.dtype, precision=self.precision, tuning=self.tuning,
        )  # fmt: skip

    def _weights(self) -> th.Tensor:
        if self.copy is None:
            raise SqirlError("the networks have no weights yet; call load(flat) first")
        return self.copy

    def _bits(self) -> th.Tensor:
        """The copy as Adam writes it."""
        return self._weights() if self.dtype == th.float32 else self._weights().view(th.int16)

    # Forward ---------------------------------------------------------------------------------------------------------

    def forward(self, keys: th.Tensor) -> th.Tensor:
        """(P, R, padded outputs) float32 for the observations that the keys (P, R, K) name."""
        self.conv1(keys)
        self.conv(2)
        self.conv(3)
        self.dense()
        self.head()
        return self.out

    def outputs(self, keys: th.Tensor) -> th.Tensor:
        """(P, R, outputs) float32: a view of a buffer that the next call overwrites."""
        return self.forward(keys)[..., : self.layout.num_outputs]

    def conv1(self, keys: th.Tensor) -> None:
        w, meta = self._weights(), self.tuning.conv1
        w = w if self.dtype == th.float32 else w.view(th.float16)
        tiles = triton.cdiv(self.size.rows * 4 * self.shapes[1]["W1"] ** 2, meta["BM"])
        conv_kernels.conv1_forward[(tiles, self.size.members)](
            self.screens, keys, w, self.h1, self.size.rows, w.stride(0),
            BIAS=self.layout.segments["conv1"].bias_start, PRECISION=self.precision, **self.shapes[1], **meta,
        )  # fmt: skip

    def conv(self, number: int) -> None:
        """The second or third convolution."""
        w = self._weights()
        shape, x, out, meta = (
            (self.shapes[2], self.h1, self.h2, self.tuning.conv2)
            if number == 2
            else (self.shapes[3], self.h2, self.h3, self.tuning.conv3)
        )
        segment = self.layout.segments[f"conv{number}"]
        tiles = triton.cdiv(self.size.rows * shape["OW"] ** 2, meta["BM"])
        conv_kernels.conv_forward[(tiles, self.size.members)](
            x, w, out, self.size.rows, w.stride(0),
            WEIGHT=segment.start, BIAS=segment.bias_start, PRECISION=self.precision, **shape, **meta,
        )  # fmt: skip

    def dense(self) -> None:
        th.bmm(self.h3, self.layout.weight(self._weights(), "dense"), out=self.features)

    def head(self) -> None:
        w, meta, s = self._weights(), self.tuning.head, self.layout.segments
        outputs = self.layout.padded_outputs
        dense_kernels.head_forward[(triton.cdiv(self.size.rows, meta["BM"]), self.size.members)](
            self.features, w, self.out, self.size.rows, w.stride(0),
            DENSE_BIAS=s["dense"].bias_start, WEIGHT=s["head"].start, BIAS=s["head"].bias_start,
            F=FEATURES, OUTS=outputs, WIDE=_power_of_two(outputs), PRECISION=self.precision, **meta,
        )  # fmt: skip

    # Backward --------------------------------------------------------------------------------------------------------

    def step(self, learner: Learner, keys: th.Tensor, settings: AdamSettings) -> None:
        """One step of Adam for the running members, from `dout` (P, B, padded outputs).

        The gradient of the dense layer is computed in the kernel of its Adam step. That kernel is limited by memory
        bandwidth and the convolutions are not, so they run at the same time.
        """
        step_kernels.adam_scalars[(triton.cdiv(self.size.members, 128),)](
            learner.steps, learner.running, learner.rates, self.scalars, self.size.members,
            BLOCK=128, BETA1=settings.beta1, BETA2=settings.beta2,
        )  # fmt: skip
        if settings.max_norm is None:
            self.backward(keys, beside=lambda: self._dense_weight_grad(learner, settings, fused=True))
        else:
            self.backward(keys, beside=self._dense_squares)
            self._sum_splits()
            self._scale_gradients(settings.max_norm)
            self._dense_weight_grad(learner, settings, fused=True)
        self._adam_outside_dense(learner, settings)

    def backward(self, keys: th.Tensor, beside: Callable[[], None] | None = None) -> None:
        """All gradients but that of the dense layer's weights, from `dout`; `beside` is launched to run at the same time."""
        self.head_backward()
        self.dense_input_grad()
        current, urgent = cuda.current_stream(), self.urgent
        urgent.wait_stream(current)
        with cuda.stream(urgent):
            self.conv_input_grad(3)
            second_is_known = urgent.record_event()
            self.conv_input_grad(2)
            self.conv1_weight_grad(keys)
        self.conv_weight_grad(3)
        current.wait_event(second_is_known)
        self.conv_weight_grad(2)
        if beside is not None:
            beside()
        current.wait_stream(urgent)

    def head_backward(self) -> None:
        w, s = self._weights(), self.layout.segments
        outputs, meta = self.layout.padded_outputs, self.tuning.head_backward
        dense_kernels.head_backward[(FEATURES // meta["BF"], self.size.members)](
            self.features, self.dout, w, self.dfeatures, self.grad, self.size.batch, self.size.rows, w.stride(0),
            DENSE_BIAS=s["dense"].bias_start, WEIGHT=s["head"].start, BIAS=s["head"].bias_start,
            F=FEATURES, OUTS=outputs, WIDE=_power_of_two(outputs), PRECISION=self.precision, **meta,
        )  # fmt: skip

    def dense_input_grad(self) -> None:
        w, meta = self._weights(), self.tuning.dense_input_grad
        grid = (triton.cdiv(self.inputs, meta["BN"]), triton.cdiv(self.size.batch, meta["BM"]), self.size.members)
        dense_kernels.dense_input_grad[grid](
            self.dfeatures, w, self.h3, self.dh3, self.size.batch, self.size.rows, w.stride(0),
            WEIGHT=self.layout.segments["dense"].start, INS=self.inputs, F=FEATURES, PRECISION=self.precision, **meta,
        )  # fmt: skip

    def conv_input_grad(self, number: int) -> None:
        """The gradient of the input of the second or third convolution."""
        w = self._weights()
        shape, dy, h, dx, meta = (
            (self.shapes[2], self.dh2, self.h1, self.dh1, self.tuning.conv2_input_grad)
            if number == 2
            else (self.shapes[3], self.dh3, self.h2, self.dh2, self.tuning.conv3_input_grad)
        )
        tiles = triton.cdiv(self.size.batch * shape["IW"] ** 2, meta["BM"])
        conv_kernels.conv_input_grad[(tiles, self.size.members)](
            dy, w, h, dx, self.size.batch, self.size.rows, w.stride(0),
            WEIGHT=self.layout.segments[f"conv{number}"].start, PRECISION=self.precision, **shape, **meta,
        )  # fmt: skip

    def conv_weight_grad(self, number: int) -> None:
        """The gradients of the weights and the bias of the second or third convolution, one for each split."""
        shape, x, dy, meta = (
            (self.shapes[2], self.h1, self.dh2, self.tuning.conv2_weight_grad)
            if number == 2
            else (self.shapes[3], self.h2, self.dh3, self.tuning.conv3_weight_grad)
        )
        segment, splits = self.layout.segments[f"conv{number}"], self.splits[number - 1]
        positions = triton.cdiv(self.size.batch * shape["OW"] ** 2, splits)
        grid = (triton.cdiv(segment.inputs, meta["BK"]), splits, self.size.members)
        conv_kernels.conv_weight_grad[grid](
            x, dy, self.partial, self.size.batch, self.size.rows, positions, *self.partial.stride()[:2],
            WEIGHT=segment.start, BIAS=segment.bias_start, PRECISION=self.precision, **shape, **meta,
        )  # fmt: skip

    def conv1_weight_grad(self, keys: th.Tensor) -> None:
        meta, splits = self.tuning.conv1_weight_grad, self.splits[0]
        conv_kernels.conv1_weight_grad[(4 // meta["FS"], splits, self.size.members)](
            self.screens, keys, self.dh1, self.partial, self.size.batch, self.size.rows,
            triton.cdiv(self.size.batch * 4 * self.shapes[1]["W1"] ** 2, splits), *self.partial.stride()[:2],
            BIAS=self.layout.segments["conv1"].bias_start, PRECISION=self.precision, **self.shapes[1], **meta,
        )  # fmt: skip

    def descend(self, learner: Learner, keys: th.Tensor, loss: Loss, settings: AdamSettings) -> None:
        """One step of Adam on the losses (P,) that `loss` computes from the outputs (P, B, outputs)."""
        out = self.outputs(keys)[:, : self.size.batch].detach().requires_grad_()
        self.dout[..., : self.layout.num_outputs] = th.autograd.grad(loss(out).sum(), out)[0]
        self.step(learner, keys, settings)

    # Adam ------------------------------------------------------------------------------------------------------------

    def whole_gradient(self, learner: Learner) -> th.Tensor:
        """(P, n) the gradient after `backward`; gradient steps do not need it."""
        self._dense_weight_grad(learner, AdamSettings(), fused=False)
        self._sum_splits()
        return self.grad

    def _sum_splits(self) -> None:
        step_kernels.sum_splits[(self.layout.conv_size // ALIGNMENT, self.size.members)](
            self.partial, self.grad, self.squares, *self.partial.stride()[:2], self.grad.stride(0),
            self.squares.stride(0), *self.splits, **self._ends(), BLOCK=ALIGNMENT,
        )  # fmt: skip

    def _dense_squares(self) -> None:
        """The sums of squares of the dense layer's gradient, without the gradient itself."""
        first, (chunks, pairs), meta = (
            self.layout.conv_size // ALIGNMENT,
            self._square_parts(),
            self.tuning.dense_squares,
        )
        step_kernels.dense_squares[(chunks, pairs, self.size.members)](
            self.h3, self.dfeatures, self.squares, self.size.batch, self.size.rows, self.squares.stride(0),
            FIRST=first, INS=self.inputs, F=FEATURES, CHUNK=self.inputs // chunks, PRECISION=self.precision, **meta,
        )  # fmt: skip

    def _scale_gradients(self, max_norm: float) -> None:
        """Set the factor by which the gradient of each member is multiplied, so that its norm is at most `max_norm`."""
        step_kernels.clip_scales[(self.size.members,)](
            self.squares, self.grad, self.norms, self.scalars, self.squares.shape[1], self.grad.stride(0),
            self.squares.stride(0), TAIL=self.layout.segments["dense"].bias_start, END=self.layout.size,
            MAX_NORM=max_norm, BLOCK=triton.next_power_of_2(self.squares.shape[1]),
        )  # fmt: skip

    def _square_parts(self) -> tuple[int, int]:
        """(chunks of the dense layer's inputs, pairs of tiles of samples): each combination is one program."""
        meta = self.tuning.dense_squares
        chunks = next(number for number in (7, 4, 2, 1) if self.inputs % (number * meta["BK"]) == 0)
        return chunks, triton.cdiv(self.size.batch, meta["BM"]) ** 2

    def _ends(self) -> dict[str, int]:
        segments = self.layout.segments
        return {"END1": segments["conv2"].start, "END2": segments["conv3"].start}

    def _adam_meta(self, settings: AdamSettings) -> dict[str, object]:
        return {
            "BETA1": settings.beta1, "BETA2": settings.beta2, "EPSILON": settings.epsilon,
            "COPY": self.dtype != th.float32,
        }  # fmt: skip

    def _dense_weight_grad(self, learner: Learner, settings: AdamSettings, *, fused: bool) -> None:
        meta = self.tuning.dense_weight_grad
        grid = (FEATURES // meta["BF"], self.inputs // meta["BI"], self.size.members)
        step_kernels.dense_weight_grad[grid](
            self.h3, self.dfeatures, self.grad, learner.flat, learner.first, learner.second, self._bits(),
            self.scalars, learner.running, self.size.batch, self.size.rows, self.grad.stride(0),
            WEIGHT=self.layout.segments["dense"].start, INS=self.inputs, F=FEATURES, ADAM=fused,
            PRECISION=self.precision, **self._adam_meta(settings), **meta,
        )  # fmt: skip

    def _adam_outside_dense(self, learner: Learner, settings: AdamSettings) -> None:
        tail = self.layout.segments["dense"].bias_start
        blocks = (self.layout.conv_size + self.layout.size - tail) // ALIGNMENT
        step_kernels.adam_outside_dense[(blocks, self.size.members)](
            learner.flat, learner.first, learner.second, self.grad, self._bits(), self.partial, self.scalars,
            learner.running, *self.partial.stride()[:2], self.grad.stride(0), *self.splits, **self._ends(),
            SUMMED=settings.max_norm is not None,
            CONV=self.layout.conv_size, TAIL=tail, BLOCK=ALIGNMENT, **self._adam_meta(settings),
        )  # fmt: skip
