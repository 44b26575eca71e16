"""Random numbers by Philox 4×32-10: functions of (seed, stream, step, index), equal on every device.

The step is a tensor, so a CUDA graph that increments it draws new numbers at each replay.
"""

from __future__ import annotations

import torch as th

from sqirl.algorithms.population.devices import has_triton

#: The constants of Philox.
MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)

#: Streams: each purpose has its own, so that no two purposes share numbers.
SAMPLES, STICKY, ACTIONS, SHUFFLES, EXPLORES = range(5)


def philox(seed: th.Tensor, counters: tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor]) -> list[th.Tensor]:
    """Four int64 tensors of numbers in [0, 2^32), from int64 seeds that are not negative and four counters; all broadcast."""
    c0, c1, c2, c3 = (c & MASK for c in counters)
    k0, k1 = seed & MASK, (seed >> 32) & MASK
    for _ in range(10):
        # A product of two 32-bit numbers may be negative as an int64; the mask removes the copies of its sign bit
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c2 = ((second >> 32) & MASK) ^ c1 ^ k0, ((first >> 32) & MASK) ^ c3 ^ k1
        c1, c3 = second & MASK, first & MASK
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return [c0, c1, c2, c3]


def bits(seeds: th.Tensor, stream: int, step: th.Tensor, count: int) -> th.Tensor:
    """(P, count) int64 in [0, 2^32): number i of member p comes from (seeds[p], i, step, stream)."""
    if has_triton(seeds.device):
        from sqirl.algorithms.population.draw_kernels import fill_bits

        return fill_bits(seeds, stream, step, count)
    if seeds.device.type == "cpu":
        from sqirl.algorithms.population.cpu_draws import compiled_bits

        found = th.empty(len(seeds), count, dtype=th.int64)
        compiled_bits(seeds.numpy(), stream, step.reshape(-1).numpy(), found.numpy())
        return found
    index = th.arange(count, device=seeds.device)
    steps = step.reshape(-1, 1)
    zero = th.zeros_like(index)
    return philox(seeds[:, None], (index[None], steps, zero + stream, zero))[0]


def uniforms(seeds: th.Tensor, stream: int, step: th.Tensor, count: int) -> th.Tensor:
    """(P, count) float32 in [0, 1), multiples of 2^-24."""
    return (bits(seeds, stream, step, count) >> 8).to(th.float32) * 2.0**-24


def integers(seeds: th.Tensor, stream: int, step: th.Tensor, count: int, below: th.Tensor | int) -> th.Tensor:
    """(P, count) int64 in [0, below); `below` is a number or (P, 1)."""
    return (bits(seeds, stream, step, count) * below) >> 32
