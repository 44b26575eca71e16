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


@triton.jit
def _append_kernel(
    sizes, places, capacity, keys, next_keys, actions, rewards, goes_on,
    new_keys, new_next_keys, new_actions, new_rewards, new_goes_on, num, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    live = i < num
    first = tl.load(places + p)
    row = (first + i) % capacity + p.to(tl.int64) * (capacity + 1)
    new = p * num + i
    tl.store(actions + row, tl.load(new_actions + new, mask=live), mask=live)
    tl.store(rewards + row, tl.load(new_rewards + new, mask=live), mask=live)
    tl.store(goes_on + row, tl.load(new_goes_on + new, mask=live).to(tl.uint8), mask=live)
    for part in tl.static_range(K):
        tl.store(keys + row * K + part, tl.load(new_keys + new * K + part, mask=live), mask=live)
        tl.store(next_keys + row * K + part, tl.load(new_next_keys + new * K + part, mask=live), mask=live)
    tl.store(places + p, (first + num) % capacity)
    tl.store(sizes + p, tl.minimum(tl.load(sizes + p) + num, capacity))


def append_to_replay(
    replay: DeviceReplay, keys: th.Tensor, after: th.Tensor, actions: th.Tensor, rewards: th.Tensor, goes_on: th.Tensor
) -> None:
    """Append one transition of every lane, as `DeviceReplay.append` says."""
    members, num = actions.shape
    block = triton.next_power_of_2(num)
    _append_kernel[(members,)](
        replay.sizes, replay.places, replay.capacity, replay.keys, replay.next_keys, replay.actions, replay.rewards,
        replay.goes_on, keys, after, actions, rewards, goes_on, num, K=keys.shape[-1], BLOCK=block,
        num_warps=max(1, min(4, block // 32)),
    )  # fmt: skip


def sample_replay(replay: DeviceReplay, batch: DeviceBatch, seeds: th.Tensor, steps: th.Tensor) -> None:
    """Fill the batch as `DeviceReplay.sample` says."""
    members, rows, key_length = batch.keys.shape
    _sample_kernel[(triton.cdiv(batch.size, 64), members)](
        seeds, steps, replay.sizes, replay.places, replay.capacity,
        replay.keys, replay.next_keys, replay.actions, replay.rewards, replay.returns, replay.goes_on,
        batch.keys, batch.actions, batch.rewards, batch.returns, batch.goes_on,
        batch.size, rows, STREAM=SAMPLES, K=key_length, NEXT=rows > batch.size, BLOCK=64, num_warps=2,
    )  # fmt: skip
