"""Triton kernels: random numbers, and minibatches drawn from replay buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th
import triton
import triton.language as tl

from sqirl.algorithms.population.draws import SAMPLES

if TYPE_CHECKING:
    from sqirl.algorithms.population.batch import DeviceBatch
    from sqirl.algorithms.population.replay import DeviceReplay


@triton.jit
def _bits_kernel(seeds, steps, step_stride, out, count, stream, BLOCK: tl.constexpr):
    p = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    step = tl.load(steps + p * step_stride)
    zero = i * 0
    c0, _, _, _ = tl.philox(tl.load(seeds + p).to(tl.uint64), i, zero + step.to(tl.int32), zero + stream, zero)
    tl.store(out + p.to(tl.int64) * count + i, c0.to(tl.uint32).to(tl.int64), mask=i < count)


def fill_bits(seeds: th.Tensor, stream: int, step: th.Tensor, count: int) -> th.Tensor:
    """(P, count) int64 in [0, 2^32); see `draws.bits`."""
    out = th.empty(len(seeds), count, dtype=th.int64, device=seeds.device)
    grid = (triton.cdiv(count, 256), len(seeds))
    _bits_kernel[grid](seeds, step, int(step.numel() > 1), out, count, stream, BLOCK=256)
    return out


@triton.jit
def _sample_kernel(
    seeds, steps, sizes, places, capacity,
    keys, next_keys, actions, rewards, returns, goes_on,
    out_keys, out_actions, out_rewards, out_returns, out_goes_on,
    size, rows, STREAM: tl.constexpr, K: tl.constexpr, NEXT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < size
    zero = i * 0
    step = tl.load(steps + p).to(tl.int32)
    c0, _, _, _ = tl.philox(tl.load(seeds + p).to(tl.uint64), i, zero + step, zero + STREAM, zero)
    held = tl.load(sizes + p)
    age = (c0.to(tl.uint32).to(tl.int64) * held) >> 32
    row = (tl.load(places + p) - held + capacity + age) % capacity + p.to(tl.int64) * (capacity + 1)
    out = p * size + i
    tl.store(out_actions + out, tl.load(actions + row, mask=live), mask=live)
    tl.store(out_rewards + out, tl.load(rewards + row, mask=live), mask=live)
    tl.store(out_returns + out, tl.load(returns + row, mask=live), mask=live)
    tl.store(out_goes_on + out, tl.load(goes_on + row, mask=live).to(tl.float32), mask=live)
    for part in tl.static_range(K):
        first = (p * rows + i) * K + part
        tl.store(out_keys + first, tl.load(keys + row * K + part, mask=live), mask=live)
        if NEXT:
            tl.store(out_keys + first + size * K, tl.load(next_keys + row * K + part, mask=live), mask=live)


def sample_replay(replay: DeviceReplay, batch: DeviceBatch, seeds: th.Tensor, steps: th.Tensor) -> None:
    """Fill the batch as `DeviceReplay.sample` says."""
    members, rows, key_length = batch.keys.shape
    _sample_kernel[(triton.cdiv(batch.size, 64), members)](
        seeds, steps, replay.sizes, replay.places, replay.capacity,
        replay.keys, replay.next_keys, replay.actions, replay.rewards, replay.returns, replay.goes_on,
        batch.keys, batch.actions, batch.rewards, batch.returns, batch.goes_on,
        batch.size, rows, STREAM=SAMPLES, K=key_length, NEXT=rows > batch.size, BLOCK=64, num_warps=2,
    )  # fmt: skip
