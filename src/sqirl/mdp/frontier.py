"""Expanding the frontier of a build: in this process or by a pool of workers, always in the order of the states.

When a worker dies, the blocks that it had are submitted again, so the result does not depend on which worker died when.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from sqirl.envs.description import describe
from sqirl.envs.game import Game
from sqirl.mdp.expand import Block, expand
from sqirl.runtime.workers import WorkerPool

#: Seconds of work that a block should hold: long beside its transfer to a worker, short beside a level.
BLOCK_SECONDS = 0.5
#: The same in this process, where nothing is transferred and limits should take effect soon.
OWN_BLOCK_SECONDS = 0.02
LARGEST_BLOCK = 4096
#: A level with less work than this is done here: starting processes would take longer.
POOL_WORTHWHILE_SECONDS = 3.0

_games: dict[str, Game] = {}


def expand_named(name: str, packed_states: list[bytes]) -> Block:
    """`expand` in a worker process, which makes the game when it first meets its name."""
    if name not in _games:
        _games[name] = describe(name).make_game()
    return expand(_games[name], packed_states)


class FrontierExpander:
    """Expands frontiers with all workers; `name` must describe the game in other processes."""

    def __init__(self, game: Game, name: str | None, *, jobs: int = 1, cluster: str | None = None) -> None:
        self._game, self._name = game, name
        self.jobs = jobs if name is not None else 1
        self._pool = WorkerPool(jobs=self.jobs, cluster=cluster)
        self._seconds_per_state = 0.0

    def expand_all(self, packed_states: Iterator[bytes], count: int) -> Iterator[Block]:
        """The blocks of a frontier of `count` states, in order."""
        alone = self.jobs == 1 and self._pool.cluster is None
        if alone or self._name is None or not self._seconds_per_state:
            yield from self._expand_here(packed_states, POOL_WORTHWHILE_SECONDS if not alone else None)
        work = count * self._seconds_per_state
        if not alone and work > POOL_WORTHWHILE_SECONDS:
            yield from self._expand_there(packed_states, count)
        else:
            yield from self._expand_here(packed_states, None)

    def _block_size(self, seconds: float) -> int:
        wanted = int(seconds / self._seconds_per_state) if self._seconds_per_state else 1
        return max(1, min(wanted, LARGEST_BLOCK))

    def _expand_here(self, packed_states: Iterator[bytes], limit: float | None) -> Iterator[Block]:
        """In this process, at most for `limit` seconds: what is left of the iterator is left."""
        began = time.monotonic()
        while limit is None or time.monotonic() - began < limit:
            started = time.perf_counter()
            batch = list(itertools.islice(packed_states, self._block_size(OWN_BLOCK_SECONDS)))
            if not batch:
                return
            block = expand(self._game, batch)
            self._seconds_per_state = (time.perf_counter() - started) / len(batch)
            yield block

    def _expand_there(self, packed_states: Iterator[bytes], count: int) -> Iterator[Block]:
        """In other processes, with a bounded number of blocks under way."""
        workers = self._pool.num_workers
        size = min(self._block_size(BLOCK_SECONDS), -(-count // (2 * workers)))
        batches = iter(lambda: list(itertools.islice(packed_states, size)), [])
        waiting: deque[list[bytes]] = deque()
        futures: deque[Any] = deque()  # a pool's or dask's, of the first so many that wait
        while True:
            waiting.extend(itertools.islice(batches, 2 * workers - len(waiting)))
            if not waiting:
                return
            try:
                for batch in itertools.islice(waiting, len(futures), None):
                    futures.append(self._pool.submit(expand_named, self._name, batch))
                block = futures[0].result()
            except self._pool.failures as error:
                self._pool.worker_failed(error, "what is built so far is kept")
                futures.clear()  # all that waits is submitted again, in the same order
                continue
            self._pool.task_finished()
            waiting.popleft()
            futures.popleft()
            yield block

    def close(self) -> None:
        self._pool.close()
