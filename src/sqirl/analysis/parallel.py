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


def is_one_block(states: NDArray[np.int32]) -> bool:
    """Are these states worked on by one thread?"""
    return numba.get_num_threads() == 1 or len(states) <= BLOCK // 8


def in_threads(work: Callable[..., Result], states: NDArray[np.int32], *arguments: object) -> list[Result]:
    """The results of `work(block, *arguments)` for all blocks of the `states` (n,)."""
    if is_one_block(states):
        return [work(states, *arguments)]
    threads = numba.get_num_threads()
    size = min(BLOCK, -(-len(states) // threads))
    blocks = [states[first : first + size] for first in range(0, len(states), size)]
    return list(_pool(threads).map(lambda block: work(block, *arguments), blocks))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)
