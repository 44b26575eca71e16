"""Threads that work on blocks of states. Compiled code without a lock of Python runs in them at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

#: States that one thread takes at a time.
BLOCK = 1 << 14

Result = TypeVar("Result")


def is_one_block(num_states: int) -> bool:
    """Are so many states worked on by one thread?"""
    return numba.get_num_threads() == 1 or num_states <= BLOCK // 8


def in_threads(work: Callable[..., Result], states: NDArray[np.int32], *arguments: object) -> list[Result]:
    """The results of `work(block, *arguments)` for all blocks of the `states` (n,)."""
    return in_ranges(lambda first, last: work(states[first:last], *arguments), len(states))


def in_ranges(work: Callable[[int, int], Result], num_states: int) -> list[Result]:
    """The results of `work(first, last)` for all blocks of 0..num_states-1; `last` is the number after the last of a block."""
    if is_one_block(num_states):
        return [work(0, num_states)]
    threads = numba.get_num_threads()
    size = min(BLOCK, -(-num_states // threads))
    blocks = [(first, min(first + size, num_states)) for first in range(0, num_states, size)]
    return list(_pool(threads).map(lambda block: work(*block), blocks))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)
