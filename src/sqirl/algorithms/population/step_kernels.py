"""Triton kernels: the loss of SQIRL, and Adam.

The dense layer holds 94 % of the weights. Its gradient is computed in the kernel of its Adam step and is not stored.
"""

from __future__ import annotations

import torch as th
import triton
import triton.language as tl

from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.sqirl.hyperparameters import LEAST_LOSS

_LEAST: tl.constexpr = tl.constexpr(LEAST_LOSS)


@triton.jit
def _power(base: tl.constexpr, exponent):
    """base ** exponent in float64, for int64 exponents below 2^31."""
    result = (exponent * 0 + 1).to(tl.float64)
    square = result * base
    for _ in range(31):
        result = tl.where((exponent & 1) == 1, result * square, result)
        square = square * square
        exponent = exponent >> 1
    return result


@triton.jit
def sqirl_loss(
    q, actions, rewards, returns, goes_on, averages, losses, average_steps, running, heads, dq, gamma, batch, rows,
    SMOOTHING: tl.constexpr, K: tl.constexpr, A: tl.constexpr, AP: tl.constexpr, OUTS: tl.constexpr, BB: tl.constexpr,
):  # fmt: skip
    """dq (P, B, OUTS): the gradient of each member's loss by its outputs q (P, R, OUTS); averages, losses and counts are updated.

    One program for each member. AP and BB are A and B rounded up to powers of two; columns of dq from K·A on are not written.
    """
    p = tl.program_id(0).to(tl.int64)
    b, a = tl.arange(0, BB), tl.arange(0, AP)
    live = b < batch
    q += p * rows * OUTS
    dq += p * batch * OUTS
    place = p * batch + b
    action = tl.load(actions + place, mask=live, other=0)
    reward = tl.load(rewards + place, mask=live, other=0.0)
    ahead = gamma * tl.load(goes_on + place, mask=live, other=0.0)
    target = tl.load(returns + place, mask=live, other=0.0)
    is_running = tl.load(running + p)
    count = tl.load(average_steps + p) + is_running
    tl.store(average_steps + p, count)
    correction = (1.0 - _power(SMOOTHING, count)).to(tl.float32)
    k = tl.load(heads + p)
    for j in tl.static_range(K):
        if j > 0:
            columns = (batch + b)[:, None] * OUTS + (j - 1) * A + a[None, :]
            following = tl.load(q + columns, mask=live[:, None] & (a[None, :] < A), other=float("-inf"))
            target = reward + ahead * tl.where(live, tl.max(following, 1), 0.0)
        predicted = tl.load(q + b * OUTS + j * A + action, mask=live, other=0.0)
        error = tl.where(live, predicted - target, 0.0)
        loss = tl.sum(error * error, 0) / batch
        old = tl.load(averages + p * K + j)
        average = tl.where(is_running == 1, SMOOTHING * old + (1.0 - SMOOTHING) * loss, old)
        tl.store(averages + p * K + j, average)
        tl.store(losses + p * K + j, loss)
        weight = tl.where(j < k, 2.0 / (tl.maximum(average / correction, _LEAST) * k * batch), 0.0)
        chosen = tl.where(action[:, None] == a[None, :], (weight * error)[:, None], 0.0)
        tl.store(dq + b[:, None] * OUTS + j * A + a[None, :], chosen, mask=live[:, None] & (a[None, :] < A))


@triton.jit
def adam_scalars(
    steps, running, rates, scalars, members, BETA1: tl.constexpr, BETA2: tl.constexpr, BLOCK: tl.constexpr
):
    """Count the step of each running member, and set its scalars (P, 3).

    They are the corrected learning rate, the correction of the root of the second moment, and 1, the factor of its gradient.
    """
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = p < members
    count = tl.load(steps + p, mask=live, other=1) + tl.load(running + p, mask=live, other=0)
    tl.store(steps + p, count, mask=live)
    rate = tl.load(rates + p, mask=live, other=0.0).to(tl.float64) / (1.0 - _power(BETA1, count))
    scale = 1.0 / tl.sqrt((1.0 - _power(BETA2, count)).to(tl.float32))
    tl.store(scalars + 3 * p, rate.to(tl.float32), mask=live)
    tl.store(scalars + 3 * p + 1, scale, mask=live)
    tl.store(scalars + 3 * p + 2, scale * 0.0 + 1.0, mask=live)


@triton.jit
def _adam(flat, first, second, copy, place, g, in_first_layer, scalars, BETA1, BETA2, EPSILON, COPY: tl.constexpr):
    """Adam for the weights at `place` with gradient g; the 16-bit copy is updated, which is float16 in the first layer."""
    rate, scale, clip = tl.load(scalars), tl.load(scalars + 1), tl.load(scalars + 2)
    m, v, w = tl.load(first + place), tl.load(second + place), tl.load(flat + place)
    m = BETA1 * m + ((1.0 - BETA1) * clip) * g
    v = BETA2 * v + ((1.0 - BETA2) * clip * clip) * g * g
    w -= rate * m / (tl.sqrt(v) * scale + EPSILON)
    tl.store(first + place, m)
    tl.store(second + place, v)
    tl.store(flat + place, w)
    if COPY:
        half, brain = w.to(tl.float16).to(tl.int16, bitcast=True), w.to(tl.bfloat16).to(tl.int16, bitcast=True)
        tl.store(copy + place, tl.where(in_first_layer, half, brain))


@triton.jit
def _summed(partial, place, offset, split_stride, splits1, splits2, splits3, END1: tl.constexpr, END2: tl.constexpr,
            BLOCK: tl.constexpr):  # fmt: skip
    """(BLOCK,) the sum over splits of a block of the convolutions' gradients; layers end at END1 and END2."""
    splits = tl.where(offset < END1, splits1, tl.where(offset < END2, splits2, splits3))
    total = tl.zeros((BLOCK,), tl.float32)
    for s in range(splits):
        total += tl.load(partial + s * split_stride + place)
    return total


@triton.jit
def sum_splits(
    partial, grad, squares, split_stride, partial_stride, member_stride, squares_stride, splits1, splits2, splits3,
    END1: tl.constexpr, END2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """grad (P, n): the convolutions' gradients, summed over the splits of partial (S, P, conv_size).

    The sum of squares of each program is written to squares (P, …).
    """
    block, p = tl.program_id(0), tl.program_id(1).to(tl.int64)
    offset = block * BLOCK
    place = offset + tl.arange(0, BLOCK)
    total = _summed(
        partial + p * partial_stride, place, offset, split_stride, splits1, splits2, splits3, END1, END2, BLOCK
    )
    tl.store(grad + p * member_stride + place, total)
    tl.store(squares + p * squares_stride + block, tl.sum(total * total, 0))


@triton.jit
def dense_squares(
    x, dy, squares, batch, rows, squares_stride, FIRST: tl.constexpr, INS: tl.constexpr, F: tl.constexpr,
    CHUNK: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Parts of the sum of squares of the dense layer's gradient, which is not stored; written to squares (P, …) from FIRST on.

    ‖x^T·dy‖² is the sum over all pairs of samples of (x_a·x_b)(dy_a·dy_b). A program computes one tile of pairs and CHUNK inputs.
    """
    chunk, pair, p = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    x += p * rows * INS
    dy += p * batch * F
    tiles = tl.cdiv(batch, BM)
    a = (pair // tiles) * BM + tl.arange(0, BM)
    b = (pair % tiles) * BM + tl.arange(0, BM)
    first, second = (a < batch)[:, None], (b < batch)[:, None]
    of_dy = tl.zeros((BM, BM), tl.float32)
    for start in range(0, F, BK):
        k = start + tl.arange(0, BK)[None, :]
        left = tl.load(dy + a[:, None] * F + k, mask=first, other=0.0)
        right = tl.load(dy + b[:, None] * F + k, mask=second, other=0.0)
        of_dy = tl.dot(left, tl.trans(right), of_dy, input_precision=PRECISION)
    of_x = tl.zeros((BM, BM), tl.float32)
    for start in range(0, CHUNK, BK):
        k = chunk * CHUNK + start + tl.arange(0, BK)[None, :]
        left = tl.load(x + a[:, None] * INS + k, mask=first, other=0.0)
        right = tl.load(x + b[:, None] * INS + k, mask=second, other=0.0)
        of_x = tl.dot(left, tl.trans(right), of_x, input_precision=PRECISION)
    place = FIRST + pair * tl.num_programs(0) + chunk
    tl.store(squares + p * squares_stride + place, tl.sum(tl.sum(of_x * of_dy, 1), 0))


@triton.jit
def clip_scales(
    squares, grad, norms, scalars, parts, member_stride, squares_stride, TAIL: tl.constexpr, END: tl.constexpr,
    MAX_NORM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """norms (P,) of the gradients, from `parts` sums of squares and from grad between TAIL and END; sets the factors."""
    p = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    found = tl.load(squares + p * squares_stride + i, mask=i < parts, other=0.0)
    for start in range(TAIL, END, BLOCK):
        g = tl.load(grad + p * member_stride + start + i, mask=start + i < END, other=0.0)
        found += g * g
    norm = tl.sqrt(tl.sum(found, 0))
    tl.store(norms + p, norm)
    tl.store(scalars + 3 * p + 2, tl.minimum(MAX_NORM / (norm + 1e-6), 1.0))


@triton.jit
def adam_outside_dense(
    flat, first, second, grad, copy, partial, scalars, running, split_stride, partial_stride, member_stride,
    splits1, splits2, splits3, SUMMED: tl.constexpr, END1: tl.constexpr, END2: tl.constexpr, CONV: tl.constexpr,
    TAIL: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr, COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Adam for all weights but the dense layer's.

    The gradient of the first CONV weights is the sum over the splits, or is read from grad if SUMMED; that of the weights from
    TAIL on is read from grad.
    """
    p = tl.program_id(1).to(tl.int64)
    if tl.load(running + p) == 0:
        return
    offset = tl.program_id(0) * BLOCK
    base = p * member_stride
    inside = tl.arange(0, BLOCK)
    if offset < CONV:
        place = offset + inside
        if SUMMED:
            g = tl.load(grad + base + place)
        else:
            g = _summed(
                partial + p * partial_stride, place, offset, split_stride, splits1, splits2, splits3, END1, END2, BLOCK
            )
        half = offset < END1
        _adam(flat, first, second, copy, base + place, g, half, scalars + 3 * p, BETA1, BETA2, EPSILON, COPY)
    else:
        tail = base + TAIL + (offset - CONV) + inside
        g = tl.load(grad + tail)
        _adam(flat, first, second, copy, tail, g, False, scalars + 3 * p, BETA1, BETA2, EPSILON, COPY)


@triton.jit
def dense_weight_grad(
    x, dy, grad, flat, first, second, copy, scalars, running, batch, rows, member_stride,
    WEIGHT: tl.constexpr, INS: tl.constexpr, F: tl.constexpr, ADAM: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr, COPY: tl.constexpr,
    BM: tl.constexpr, BI: tl.constexpr, BF: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of the dense layer's weights (INS, F), x^T·dy from x (P, R, INS) and dy (P, B, F).

    It is written to grad, or used by Adam in this kernel.
    """
    p = tl.program_id(2).to(tl.int64)
    if ADAM and tl.load(running + p) == 0:
        return
    x += p * rows * INS
    dy += p * batch * F
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    f = tl.program_id(0) * BF + tl.arange(0, BF)
    acc = tl.zeros((BI, BF), tl.float32)
    for start in range(0, batch, BM):
        m = start + tl.arange(0, BM)
        live = m < batch
        a = tl.load(x + m[:, None] * INS + i[None, :], mask=live[:, None], other=0.0)
        g = tl.load(dy + m[:, None] * F + f[None, :], mask=live[:, None], other=0.0)
        acc = tl.dot(tl.trans(a), g, acc, input_precision=PRECISION)
    place = p * member_stride + WEIGHT + i[:, None] * F + f[None, :]
    if ADAM:
        _adam(flat, first, second, copy, place, acc, False, scalars + 3 * p, BETA1, BETA2, EPSILON, COPY)
    else:
        tl.store(grad + place, acc)


@triton.jit
def adam_of_gradient(
    flat, first, second, grad, scalars, running, size, BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Adam for the weights (P, size) of running members by their gradients (P, size)."""
    p = tl.program_id(1).to(tl.int64)
    if tl.load(running + p) == 0:
        return
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live, place = offset < size, p * size + offset
    rate, scale, clip = tl.load(scalars + 3 * p), tl.load(scalars + 3 * p + 1), tl.load(scalars + 3 * p + 2)
    g = tl.load(grad + place, mask=live, other=0.0)
    m = tl.load(first + place, mask=live, other=0.0)
    v = tl.load(second + place, mask=live, other=0.0)
    w = tl.load(flat + place, mask=live, other=0.0)
    m = BETA1 * m + ((1.0 - BETA1) * clip) * g
    v = BETA2 * v + ((1.0 - BETA2) * clip * clip) * g * g
    tl.store(first + place, m, mask=live)
    tl.store(second + place, v, mask=live)
    tl.store(flat + place, w - rate * m / (tl.sqrt(v) * scale + EPSILON), mask=live)


def adam_by_gradient(learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
    """One step of Adam for the members that are running, by the gradient (P, n), as `plain.adam` makes it."""
    members, size = gradient.shape
    scalars = th.empty(members, 3, device=gradient.device)
    betas = {"BETA1": settings.beta1, "BETA2": settings.beta2}
    adam_scalars[(triton.cdiv(members, 128),)](
        learner.steps, learner.running, learner.rates, scalars, members, BLOCK=128, **betas
    )
    if settings.max_norm is not None:
        norms = th.linalg.vector_norm(gradient, dim=1)
        scalars[:, 2] = (settings.max_norm / (norms + 1e-6)).clamp(max=1.0)
    adam_of_gradient[(triton.cdiv(size, 1024), members)](
        learner.flat, learner.first, learner.second, gradient.contiguous(), scalars, learner.running, size,
        EPSILON=settings.epsilon, BLOCK=1024, **betas,
    )  # fmt: skip
