"""Random numbers by Philox 4×32-10 on a CPU, compiled: the same as those of `draws.philox`."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.algorithms.population.draws import KEY_STEPS, MASK, MULTIPLIERS

_M0, _M1 = map(np.uint64, MULTIPLIERS)
_K0, _K1 = map(np.uint64, KEY_STEPS)
_MASK, _HALF = np.uint64(MASK), np.uint64(32)


@numba.njit(cache=True)
def compiled_bits(seeds: NDArray[np.int64], stream: int, steps: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Fill (P, count): number i of member p comes from (seeds[p], i, steps[p], stream)."""
    for p in range(out.shape[0]):
        seed, step = np.uint64(seeds[p]), np.uint64(steps[p % len(steps)])
        for i in range(out.shape[1]):
            c0, c1, c2, c3 = np.uint64(i), step & _MASK, np.uint64(stream), np.uint64(0)
            k0, k1 = seed & _MASK, seed >> _HALF
            for _ in range(10):
                first, second = c0 * _M0, c2 * _M1
                c0, c2 = (second >> _HALF) ^ c1 ^ k0, (first >> _HALF) ^ c3 ^ k1
                c1, c3 = second & _MASK, first & _MASK
                k0, k1 = (k0 + _K0) & _MASK, (k1 + _K1) & _MASK
            out[p, i] = np.int64(c0)
