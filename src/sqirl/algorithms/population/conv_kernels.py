"""Triton kernels: the convolutions of NatureCNN as matrix products whose left operand is gathered and not stored.

The grid of every kernel is (tiles, …, P): each member has its own weights. Activations are channels last. With the blocked
layouts of `layout.py` every convolution has stride 1. Operands have the type of the activations (bfloat16 or float32), sums are
float32.

Names: P members, R images of each member (rows), of which the first B are trained on; M output positions over all images of a
member; C input channels, N output channels.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Pixels are multiplied by this.
_SCALE: tl.constexpr = tl.constexpr(1 / 255)


@triton.jit
def _pixels(words, dtype: tl.constexpr):
    """(…, 2, 2) numbers 0..255 from words (…) of four bytes, without the conversion instructions, which are slow.

    float16: a byte in the last bits of 2^10, minus 2^10. bfloat16: a byte in the last bits of the float32 2^23, minus 2^23; the
    upper 16 bits of the result are exact.
    """
    if dtype == tl.float16:
        a, b, c, d = tl.inline_asm_elementwise(
            """{
            .reg .b32 x, y, z;
            mov.b32 z, 0x64006400;
            prmt.b32 x, $4, 0x64646464, 0x4140;
            prmt.b32 y, $4, 0x64646464, 0x4342;
            sub.f16x2 x, x, z;
            sub.f16x2 y, y, z;
            mov.b32 {$0, $1}, x;
            mov.b32 {$2, $3}, y;
            }""",
            "=h,=h,=h,=h,r", [words], dtype=(tl.int16, tl.int16, tl.int16, tl.int16), is_pure=True, pack=1,
        )  # fmt: skip
    elif dtype == tl.bfloat16:
        a, b, c, d = tl.inline_asm_elementwise(
            """{
            .reg .b32 x, y, z, w;
            prmt.b32 x, $4, 0x4B000000, 0x7440;
            prmt.b32 y, $4, 0x4B000000, 0x7441;
            prmt.b32 z, $4, 0x4B000000, 0x7442;
            prmt.b32 w, $4, 0x4B000000, 0x7443;
            sub.f32 x, x, 0f4B000000;
            sub.f32 y, y, 0f4B000000;
            sub.f32 z, z, 0f4B000000;
            sub.f32 w, w, 0f4B000000;
            prmt.b32 x, x, y, 0x7632;
            prmt.b32 z, z, w, 0x7632;
            mov.b32 {$0, $1}, x;
            mov.b32 {$2, $3}, z;
            }""",
            "=h,=h,=h,=h,r", [words], dtype=(tl.int16, tl.int16, tl.int16, tl.int16), is_pure=True, pack=1,
        )  # fmt: skip
    else:
        a, b, c, d = words & 255, (words >> 8) & 255, (words >> 16) & 255, (words >> 24) & 255
    pairs = tl.join(tl.join(a, c), tl.join(b, d))  # the last axis but one: first or second pair
    return pairs.to(dtype, bitcast=dtype.primitive_bitwidth == 16)


@triton.jit
def _corner(m, BLOCKS: tl.constexpr, W1: tl.constexpr):
    """The word of a plane at which the patch of output position m starts; positions are ordered (W1, W1, 2, 2)."""
    r = m % (4 * W1 * W1)
    block = r // 4
    row = 2 * (block // W1) + (r % 4) // 2
    column = 2 * (block % W1) + r % 2
    return (row * BLOCKS + column) * 4


@triton.jit
def _patches(
    screens, keys, m, live, plane, K: tl.constexpr, PLANES: tl.constexpr, INPUTS: tl.constexpr, BLOCKS: tl.constexpr,
    W1: tl.constexpr, FS: tl.constexpr,
):  # fmt: skip
    """(BM, FS, 16) words: the inputs of the first layer at the output positions m, in planes plane..plane+FS-1."""
    f = plane + tl.arange(0, FS)
    seen = live[:, None] & (f < INPUTS)[None, :]
    key = tl.load(keys + ((m // (4 * W1 * W1)) * K)[:, None] + (f // PLANES)[None, :], mask=seen, other=0)
    number = key.to(tl.int64) * PLANES + (f % PLANES)[None, :]  # (BM, FS)
    i = tl.arange(0, 16)
    inside = (i // 8) * (BLOCKS * 4) + i % 8  # two block rows of two blocks
    corner = _corner(m, BLOCKS, W1)
    where = number[:, :, None] * (BLOCKS * BLOCKS * 4) + (corner[:, None, None] + inside[None, None, :])
    return tl.load(screens + where, mask=seen[:, :, None], other=0)


@triton.jit
def _plane(
    screens, keys, m, corner, live, PLANE: tl.constexpr, K: tl.constexpr, PLANES: tl.constexpr, INPUTS: tl.constexpr,
    BLOCKS: tl.constexpr, W1: tl.constexpr,
):  # fmt: skip
    """(BM, 16) words of one plane at the output positions m."""
    seen = live & (PLANE < INPUTS)
    key = tl.load(keys + (m // (4 * W1 * W1)) * K + PLANE // PLANES, mask=seen, other=0)
    number = key.to(tl.int64) * PLANES + PLANE % PLANES
    word = tl.arange(0, 16)
    inside = (word // 8) * (BLOCKS * 4) + word % 8  # two block rows of two blocks
    where = number[:, None] * (BLOCKS * BLOCKS * 4) + (corner[:, None] + inside[None, :])
    return tl.load(screens + where, mask=seen[:, None], other=0)


@triton.jit
def _plane_weights(weights, PLANE: tl.constexpr):
    """(64, 32) the first layer's weights for one plane, in the order of `_add_plane`."""
    # In the product, number 16·s + 8·h + 2·t + e is pixel 4·s + 2·h + e of block t
    k, n = tl.arange(0, 64), tl.arange(0, 32)
    order = ((k % 8) // 2) * 16 + (k // 16) * 4 + ((k % 16) // 8) * 2 + k % 2
    return tl.load(weights + (PLANE * 64 + order)[:, None] * 32 + n[None, :])


@triton.jit
def _add_plane(words, w, acc, num_warps: tl.constexpr, PRECISION: tl.constexpr):
    """acc + pixels · w; the positions come in the order (…, 2, warps, 8) and are multiplied as (…, warps, 2, 8)."""
    rows: tl.constexpr = words.shape[0]
    x = tl.reshape(_pixels(words, w.dtype), (rows // (16 * num_warps), 2, num_warps, 8, 4, 4, 2, 2))
    x = tl.reshape(tl.permute(x, (0, 2, 1, 3, 5, 6, 4, 7)), (rows, 64))
    return tl.dot(x, w, acc, input_precision=PRECISION)


@triton.jit
def conv1_forward(
    screens, keys, weights, out, rows, member_stride, BIAS: tl.constexpr, K: tl.constexpr, PLANES: tl.constexpr,
    INPUTS: tl.constexpr, BLOCKS: tl.constexpr, W1: tl.constexpr,
    BM: tl.constexpr, num_warps: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out (P, R, W1·W1·4, 32) = relu(screens/255 * w + b), from screens as words of four pixels.

    A thread loads 16 bytes of one output position, a block of 4×4 pixels. The order of positions and of pixels in the matrix
    product is chosen so that these 16 are the operands that the tensor cores read from this thread: no shared memory is needed.
    All loads are issued first, because they do not depend on each other.
    """
    p = tl.program_id(1).to(tl.int64)
    keys += p * rows * K
    weights += p * member_stride
    positions: tl.constexpr = 4 * W1 * W1
    out += p * rows * (positions * 32)
    start = tl.program_id(0) * BM
    i = tl.arange(0, BM)
    span: tl.constexpr = 16 * num_warps
    m = start + (i // span) * span + ((i // 8) % num_warps) * 16 + ((i // (8 * num_warps)) % 2) * 8 + i % 8
    live = m < rows * positions
    corner = _corner(m, BLOCKS, W1)
    x0 = _plane(screens, keys, m, corner, live, 0, K, PLANES, INPUTS, BLOCKS, W1)
    x1 = _plane(screens, keys, m, corner, live, 1, K, PLANES, INPUTS, BLOCKS, W1)
    x2 = _plane(screens, keys, m, corner, live, 2, K, PLANES, INPUTS, BLOCKS, W1)
    x3 = _plane(screens, keys, m, corner, live, 3, K, PLANES, INPUTS, BLOCKS, W1)
    w0, w1 = _plane_weights(weights, 0), _plane_weights(weights, 1)
    w2, w3 = _plane_weights(weights, 2), _plane_weights(weights, 3)
    acc = tl.zeros((BM, 32), tl.float32)
    acc = _add_plane(x0, w0, acc, num_warps, PRECISION)
    acc = _add_plane(x1, w1, acc, num_warps, PRECISION)
    acc = _add_plane(x2, w2, acc, num_warps, PRECISION)
    acc = _add_plane(x3, w3, acc, num_warps, PRECISION)
    n = tl.arange(0, 32)
    bias = tl.load(weights + BIAS + n).to(tl.float32)
    y = tl.maximum(acc * _SCALE + bias[None, :], 0.0)
    place = start + i
    tl.store(
        out + place[:, None] * 32 + n[None, :], y.to(out.dtype.element_ty), mask=(place < rows * positions)[:, None]
    )


@triton.jit
def conv_forward(
    x, weights, out, rows, member_stride, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    IW: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, KW: tl.constexpr, N: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out (P, R, OW·OW, N) = relu(x (P, R, IW·IW, C) * w + b)."""
    p = tl.program_id(1).to(tl.int64)
    x += p * rows * (IW * IW * C)
    out += p * rows * (OW * OW * N)
    weights += p * member_stride
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    live = m < rows * (OW * OW)
    r = m % (OW * OW)
    corner = ((m // (OW * OW)) * (IW * IW) + (r // OW) * IW + r % OW) * C
    n, c = tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((BM, N), tl.float32)
    per_tap: tl.constexpr = C // BK
    for i in tl.range(0, KW * KW * per_tap, num_stages=STAGES):
        tap = i // per_tap
        shift = ((tap // KW) * IW + tap % KW) * C + (i % per_tap) * BK
        a = tl.load(x + shift + corner[:, None] + c[None, :], mask=live[:, None], other=0.0)
        w = tl.load(weights + WEIGHT + (i * BK + c)[:, None] * N + n[None, :])
        acc = tl.dot(a, w, acc, input_precision=PRECISION)
    bias = tl.load(weights + BIAS + n).to(tl.float32)
    y = tl.maximum(acc + bias[None, :], 0.0)
    tl.store(out + m[:, None] * N + n[None, :], y.to(out.dtype.element_ty), mask=live[:, None])


@triton.jit
def conv_input_grad(
    dy, weights, h, dx, batch, rows, member_stride, WEIGHT: tl.constexpr,
    IW: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, KW: tl.constexpr, N: tl.constexpr,
    BM: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dx (P, B, IW·IW, C): the gradient of the layer's input before its ReLU, whose output is h (P, R, IW·IW, C)."""
    p = tl.program_id(1).to(tl.int64)
    dy += p * batch * (OW * OW * N)
    dx += p * batch * (IW * IW * C)
    h += p * rows * (IW * IW * C)
    weights += p * member_stride
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    live = m < batch * (IW * IW)
    image, r = m // (IW * IW), m % (IW * IW)
    row, column = r // IW, r % IW
    corner = image * (OW * OW) + row * OW + column
    n, c = tl.arange(0, N), tl.arange(0, C)
    acc = tl.zeros((BM, C), tl.float32)
    for tap in tl.range(0, KW * KW, num_stages=STAGES):
        kh, kw = tap // KW, tap % KW
        inside = (row >= kh) & (row < kh + OW) & (column >= kw) & (column < kw + OW) & live
        place = (corner - kh * OW - kw) * N
        g = tl.load(dy + place[:, None] + n[None, :], mask=inside[:, None], other=0.0)
        w = tl.load(weights + WEIGHT + (tap * C + c)[:, None] * N + n[None, :])
        acc = tl.dot(g, tl.trans(w), acc, input_precision=PRECISION)
    place = m[:, None] * C + c[None, :]
    active = tl.load(h + place, mask=live[:, None], other=0.0) > 0
    tl.store(dx + place, tl.where(active, acc, 0.0).to(dx.dtype.element_ty), mask=live[:, None])


@triton.jit
def conv1_weight_grad(
    screens, keys, dy, partial, batch, rows, positions, split_stride, member_stride, BIAS: tl.constexpr,
    K: tl.constexpr, PLANES: tl.constexpr, INPUTS: tl.constexpr, BLOCKS: tl.constexpr, W1: tl.constexpr,
    BM: tl.constexpr, FS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """partial (S, P, …): each split's sum over its `positions` of the gradient of the first layer's weights and bias.

    The next positions are loaded into registers while these are multiplied. Asynchronous copies were slower.
    """
    plane, split, p = tl.program_id(0) * FS, tl.program_id(1), tl.program_id(2).to(tl.int64)
    keys += p * rows * K
    count: tl.constexpr = 4 * W1 * W1
    dy += p * batch * (count * 32)
    partial += split * split_stride + p * member_stride
    n = tl.arange(0, 32)
    acc = tl.zeros((FS * 64, 32), tl.float32)
    total = tl.zeros((BM, 32), tl.float32)
    end = tl.minimum((split + 1) * positions, batch * count)
    m = split * positions + tl.arange(0, BM)
    x = _patches(screens, keys, m, m < end, plane, K, PLANES, INPUTS, BLOCKS, W1, FS)
    g = tl.load(dy + m[:, None] * 32 + n[None, :], mask=(m < end)[:, None], other=0.0)
    for _ in tl.range(split * positions, end, BM, num_stages=1):
        a, b = tl.reshape(_pixels(x, g.dtype), (BM, FS * 64)), g
        m += BM
        x = _patches(screens, keys, m, m < end, plane, K, PLANES, INPUTS, BLOCKS, W1, FS)
        g = tl.load(dy + m[:, None] * 32 + n[None, :], mask=(m < end)[:, None], other=0.0)
        acc = tl.dot(tl.trans(a), b, acc, input_precision=PRECISION)
        total += b.to(tl.float32)
    k = plane * 64 + tl.arange(0, FS * 64)
    tl.store(partial + k[:, None] * 32 + n[None, :], acc * _SCALE)
    if plane == 0:
        tl.store(partial + BIAS + n, tl.sum(total, 0))


@triton.jit
def _weight_sums(
    x, dy, start, end, inside, used, IW: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, N: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, WITH_BIAS: tl.constexpr, STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """((BK, N), (N,)) sums over positions start..end-1 of x^T·dy, and of dy if WITH_BIAS."""
    n = tl.arange(0, N)
    acc = tl.zeros((BK, N), tl.float32)
    total = tl.zeros((BM, N), tl.float32)
    for first in tl.range(start, end, BM, num_stages=STAGES):
        m = first + tl.arange(0, BM)
        live = m < end
        r = m % (OW * OW)
        corner = ((m // (OW * OW)) * (IW * IW) + (r // OW) * IW + r % OW) * C
        inner = live[:, None] & used[None, :]
        a = tl.load(x + corner[:, None] + inside[None, :], mask=inner, other=0.0)
        g = tl.load(dy + m[:, None] * N + n[None, :], mask=live[:, None], other=0.0)
        acc = tl.dot(tl.trans(a), g, acc, input_precision=PRECISION)
        if WITH_BIAS:
            total += g.to(tl.float32)
    return acc, tl.sum(total, 0)


@triton.jit
def conv_weight_grad(
    x, dy, partial, batch, rows, positions, split_stride, member_stride, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    IW: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, KW: tl.constexpr, N: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """partial (S, P, …): each split's sum over its `positions` of the gradient of a layer's weights and bias.

    x (P, R, IW·IW, C) is the layer's input, dy (P, B, OW·OW, N) the gradient of its output before the ReLU.
    """
    tile, split, p = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    x += p * rows * (IW * IW * C)
    dy += p * batch * (OW * OW * N)
    partial += split * split_stride + p * member_stride
    n = tl.arange(0, N)
    k = tile * BK + tl.arange(0, BK)
    used = k < KW * KW * C
    tap = k // C
    inside = ((tap // KW) * IW + tap % KW) * C + k % C
    start = split * positions
    end = tl.minimum(start + positions, batch * (OW * OW))
    place = partial + WEIGHT + k[:, None] * N + n[None, :]
    if tile == 0:
        acc, total = _weight_sums(x, dy, start, end, inside, used, IW, C, OW, N, BM, BK, True, STAGES, PRECISION)
        tl.store(place, acc, mask=used[:, None])
        tl.store(partial + BIAS + n, total)
    else:
        acc, _ = _weight_sums(x, dy, start, end, inside, used, IW, C, OW, N, BM, BK, False, STAGES, PRECISION)
        tl.store(place, acc, mask=used[:, None])
