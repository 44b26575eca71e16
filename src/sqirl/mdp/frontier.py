"""Expands the frontier of a build, in this process or by a pool of workers. Blocks are returned in the order of the states.

The frontier is the set of states of the current level. When a worker dies, its blocks are submitted again, so the result does not
depend on the workers.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqirl.envs.description import describe
from sqirl.envs.game import Game
from sqirl.mdp.expand import Block
from sqirl.runtime.workers import WorkerPool

#: Seconds of work in one block for a worker: much longer than its transfer, much shorter than a level.
BLOCK_SECONDS = 0.5
#: The same in this process, where nothing is transferred. The limits of a build are checked after each block. Procgen steps
#: 64 games at once, so a block should have many times as many actions to take.
OWN_BLOCK_SECONDS = 0.1
LARGEST_BLOCK = 4096
#: A level with less work than this is expanded in this process: starting worker processes would take longer.
POOL_WORTHWHILE_SECONDS = 3.0

_games: dict[str, Game] = {}


#: What makes a block of states: `expand`, or for the last level `expand_last`.
Expansion = Callable[[Game, Sequence[bytes]], Block]


def expand_named(name: str, packed_states: list[bytes], expansion: Expansion) -> Block:
    """The expansion of a block in a worker process. The game is made at the first call with its name."""
    if name not in _games:
        _games[name] = describe(name).make_game()
    return expansion(_games[name], packed_states)


class FrontierExpander:
    """Expands frontiers in this process or with workers.

    :param game: the game in this process
    :param name: a name that describes the game in other processes
    :param jobs: number of worker processes; only this process is used if there is no name
    :param cluster: address of a dask scheduler; its workers are used instead of processes
    """

    def __init__(self, game: Game, name: str | None, *, jobs: int = 1, cluster: str | None = None) -> None:
        self._game, self._name = game, name
        self.jobs = jobs if name is not None else 1
        self._pool = WorkerPool(jobs=self.jobs, cluster=cluster)
        self._seconds_per_state = 0.0

    def expand_all(self, packed_states: Iterator[bytes], count: int, expansion: Expansion) -> Iterator[Block]:
        """The blocks of a frontier of `count` states, in order."""
        alone = self.jobs == 1 and self._pool.cluster is None
        if alone or self._name is None or not self._seconds_per_state:
            yield from self._expand_in_process(packed_states, POOL_WORTHWHILE_SECONDS if not alone else None, expansion)
        work = count * self._seconds_per_state
        if not alone and work > POOL_WORTHWHILE_SECONDS:
            yield from self._expand_in_workers(packed_states, count, expansion)
        else:
            yield from self._expand_in_process(packed_states, None, expansion)

    def _block_size(self, seconds: float) -> int:
        wanted = int(seconds / self._seconds_per_state) if self._seconds_per_state else 1
        return max(1, min(wanted, LARGEST_BLOCK))

    def _expand_in_process(
        self, packed_states: Iterator[bytes], limit: float | None, expansion: Expansion
    ) -> Iterator[Block]:
        """Expand in this process for at most `limit` seconds. The iterator then still holds the other states."""
        began = time.monotonic()
        while limit is None or time.monotonic() - began < limit:
            started = time.perf_counter()
            batch = list(itertools.islice(packed_states, self._block_size(OWN_BLOCK_SECONDS)))
            if not batch:
                return
            block = expansion(self._game, batch)
            self._seconds_per_state = (time.perf_counter() - started) / len(batch)
            yield block

    def _expand_in_workers(self, packed_states: Iterator[bytes], count: int, expansion: Expansion) -> Iterator[Block]:
        """Expand in the pool of workers. At most two blocks for each worker are submitted at a time."""
        workers = self._pool.num_workers
        size = min(self._block_size(BLOCK_SECONDS), -(-count // (2 * workers)))
        batches = iter(lambda: list(itertools.islice(packed_states, size)), [])
        waiting: deque[list[bytes]] = deque()
        futures: deque[Any] = deque()  # of the first blocks in `waiting`
        while True:
            waiting.extend(itertools.islice(batches, 2 * workers - len(waiting)))
            if not waiting:
                return
            try:
                for batch in itertools.islice(waiting, len(futures), None):
                    futures.append(self._pool.submit(expand_named, self._name, batch, expansion))
                block = futures[0].result()
            except self._pool.failures as error:
                self._pool.worker_failed(error, "what is built so far is kept")
                futures.clear()  # all waiting blocks are submitted again, in the same order
                continue
            self._pool.task_finished()
            waiting.popleft()
            futures.popleft()
            yield block

    def close(self) -> None:
        self._pool.close()
