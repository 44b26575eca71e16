"""Triton kernels: the backward pass of the dense layer, and the head with its backward pass.

The forward product of the dense layer is `torch.bmm`; its bias and ReLU are applied in the kernel of the head.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def head_forward(
    features, weights, out, rows, member_stride, DENSE_BIAS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    F: tl.constexpr, OUTS: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """features (P, R, F) become relu(features + dense bias) in place; out (P, R, OUTS) float32 = features * w + b.

    WIDE is OUTS rounded up to a power of two.
    """
    p = tl.program_id(1).to(tl.int64)
    features += p * rows * F
    out += p * rows * OUTS
    weights += p * member_stride
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    live = m < rows
    o = tl.arange(0, WIDE)
    acc = tl.zeros((BM, WIDE), tl.float32)
    for first in range(0, F, BK):
        k = first + tl.arange(0, BK)
        place = features + m[:, None] * F + k[None, :]
        bias = tl.load(weights + DENSE_BIAS + k).to(tl.float32)
        x = tl.maximum(tl.load(place, mask=live[:, None], other=0.0).to(tl.float32) + bias[None, :], 0.0)
        x = x.to(features.dtype.element_ty)
        tl.store(place, x, mask=live[:, None])
        w = tl.load(weights + WEIGHT + k[:, None] * OUTS + o[None, :], mask=o[None, :] < OUTS, other=0.0)
        acc = tl.dot(x, w, acc, input_precision=PRECISION)
    acc += tl.load(weights + BIAS + o, mask=o < OUTS, other=0.0).to(tl.float32)[None, :]
    tl.store(out + m[:, None] * OUTS + o[None, :], acc, mask=live[:, None] & (o[None, :] < OUTS))


@triton.jit
def head_backward(
    features, dout, weights, dfeatures, grad, batch, rows, member_stride,
    DENSE_BIAS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    F: tl.constexpr, OUTS: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BF: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient dfeatures (P, B, F) of the features before their ReLU, from dout (P, B, OUTS) float32.

    The gradients of the head's weights and bias and of the dense layer's bias are written to grad (P, n). One program computes
    BF features of one member.
    """
    tile, p = tl.program_id(0), tl.program_id(1).to(tl.int64)
    features += p * rows * F
    dfeatures += p * batch * F
    dout += p * batch * OUTS
    weights += p * member_stride
    grad += p * member_stride
    f, o = tile * BF + tl.arange(0, BF), tl.arange(0, WIDE)
    wide = o < OUTS
    w = tl.load(weights + WEIGHT + f[:, None] * OUTS + o[None, :], mask=wide[None, :], other=0.0)
    dw = tl.zeros((BF, WIDE), tl.float32)
    dense_bias = tl.zeros((BF,), tl.float32)
    bias = tl.zeros((WIDE,), tl.float32)
    for first in range(0, batch, BM):
        m = first + tl.arange(0, BM)
        live = m < batch
        place = m[:, None] * F + f[None, :]
        x = tl.load(features + place, mask=live[:, None], other=0.0)
        g = tl.load(dout + m[:, None] * OUTS + o[None, :], mask=live[:, None] & wide[None, :], other=0.0)
        bias += tl.sum(g, 0)
        g = g.to(x.dtype)
        dw = tl.dot(tl.trans(x), g, dw, input_precision=PRECISION)
        dx = tl.where(x > 0, tl.dot(g, tl.trans(w), input_precision=PRECISION), 0.0)
        dense_bias += tl.sum(dx, 0)
        tl.store(dfeatures + place, dx.to(x.dtype), mask=live[:, None])
    tl.store(grad + WEIGHT + f[:, None] * OUTS + o[None, :], dw, mask=wide[None, :])
    tl.store(grad + DENSE_BIAS + f, dense_bias)
    if tile == 0:
        tl.store(grad + BIAS + o, bias, mask=wide)


@triton.jit
def dense_input_grad(
    dy, weights, h, dx, batch, rows, member_stride, WEIGHT: tl.constexpr, INS: tl.constexpr, F: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dx (P, B, INS): the gradient of the dense layer's input before its ReLU, whose output is h (P, R, INS)."""
    p = tl.program_id(2).to(tl.int64)
    dy += p * batch * F
    dx += p * batch * INS
    h += p * rows * INS
    weights += p * member_stride + WEIGHT
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    i = tl.program_id(0) * BN + tl.arange(0, BN)
    live, used = m < batch, i < INS
    acc = tl.zeros((BM, BN), tl.float32)
    for first in tl.range(0, F, BK, num_stages=STAGES):
        k = first + tl.arange(0, BK)
        g = tl.load(dy + m[:, None] * F + k[None, :], mask=live[:, None], other=0.0)
        w = tl.load(weights + i[:, None] * F + k[None, :], mask=used[:, None], other=0.0)
        acc = tl.dot(g, tl.trans(w), acc, input_precision=PRECISION)
    place = m[:, None] * INS + i[None, :]
    inside = live[:, None] & used[None, :]
    active = tl.load(h + place, mask=inside, other=0.0) > 0
    tl.store(dx + place, tl.where(active, acc, 0.0).to(dx.dtype.element_ty), mask=inside)
