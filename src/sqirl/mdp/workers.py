"""Who expands the blocks of a level: this process, a pool of processes, or a dask cluster; always in the order of the blocks.

A worker that dies takes its pool with it (that is how process pools are); dask gives its blocks to others, and gives up a
block over which several died. The pool is then made anew and the blocks that were under way are done again, so the result
does not depend on who died when.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any

from sqirl.envs.game import Game
from sqirl.envs.resolve import resolve
from sqirl.errors import MissingExtra, SqirlError, WorkFailed
from sqirl.mdp.expand import Block, expand

#: Seconds of work that a block should hold: long beside the hand-over to a worker, short beside a level.
BLOCK_SECONDS = 0.5
#: The same in this process, where there is nothing to hand over and limits should strike soon.
OWN_BLOCK_SECONDS = 0.02
LARGEST_BLOCK = 4096
#: A level with less work than this is done here: starting processes would take longer.
POOL_WORTHWHILE_SECONDS = 3.0
#: How often a pool may break in a row without finishing a block.
MOST_BREAKS = 5

_games: dict[str, Game] = {}


def expand_named(name: str, packed_states: list[bytes]) -> Block:
    """`expand` in a worker process, which makes the game when it first meets its name."""
    if name not in _games:
        _games[name] = resolve(name).make_game()
    return expand(_games[name], packed_states)


class Workers:
    """Expands frontiers with as many hands as there are; `name` must resolve to the game in other processes."""

    def __init__(self, game: Game, name: str | None, *, jobs: int = 1, cluster: str | None = None) -> None:
        self._game, self._name = game, name
        self.jobs = jobs if name is not None else 1
        self._cluster = cluster
        self._client: Any = None  # of the cluster
        self._pool: ProcessPoolExecutor | None = None
        self._deaths: tuple[type[Exception], ...] = (BrokenExecutor,)  # what comes of a block whose worker died
        self._seconds_per_state = 0.0

    def expand_all(self, packed_states: Iterator[bytes], count: int) -> Iterator[Block]:
        """The blocks of a frontier of `count` states, in order."""
        alone = self.jobs == 1 and self._cluster is None
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
        hands = self._hands()
        size = min(self._block_size(BLOCK_SECONDS), -(-count // (2 * hands)))
        batches = iter(lambda: list(itertools.islice(packed_states, size)), [])
        waiting: deque[list[bytes]] = deque()
        futures: deque[Any] = deque()  # a pool's or dask's, of the first so many that wait
        breaks = 0
        while True:
            waiting.extend(itertools.islice(batches, 2 * hands - len(waiting)))
            if not waiting:
                return
            try:
                for batch in itertools.islice(waiting, len(futures), None):
                    futures.append(self._submit(batch))
                block = futures[0].result()
            except self._deaths as error:
                breaks += 1
                if breaks > MOST_BREAKS:
                    raise WorkFailed(
                        f"worker processes died {breaks} times in a row; what is built so far is kept"
                    ) from error
                self._abandon_pool()
                futures.clear()  # all that waits is submitted again, in the same order
                continue
            breaks = 0
            waiting.popleft()
            futures.popleft()
            yield block

    def _submit(self, batch: list[bytes]) -> Any:
        assert self._name is not None
        if self._cluster is not None:
            # Not through dask's executor: its futures wait for ever where a finished block is lost and then given up.
            # Not pure: a block that is submitted again must not be given the fate that it had before.
            return self._connected().submit(expand_named, self._name, batch, pure=False)
        if self._pool is None:
            self._pool = process_pool(self.jobs)
        return self._pool.submit(expand_named, self._name, batch)

    def _hands(self) -> int:
        return self.jobs if self._cluster is None else max(1, sum(self._connected().nthreads().values()))

    def _connected(self) -> Any:
        """The client of the cluster."""
        if self._client is None:
            assert self._cluster is not None
            self._client = connect(self._cluster)
            self._deaths = (BrokenExecutor, killed_worker())
        return self._client

    def _abandon_pool(self) -> None:
        if self._pool is not None:
            abandon(self._pool)
        self._pool = None

    def close(self) -> None:
        self._abandon_pool()
        if self._client is not None:
            self._client.close()


def process_pool(jobs: int) -> ProcessPoolExecutor:
    """Worker processes that leave when this one does, however it ends.

    Not forked: a fork of a process with threads (numba's, the emulator's) may never come to life.
    """
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_with_parent)


def _leave_with_parent() -> None:
    """A worker of a killed process would wait for its next task for ever, with all that it has loaded."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def abandon(pool: ProcessPoolExecutor) -> None:
    """Leave a pool at once: or leaving would wait for what its workers still have in hand, or are still starting."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def connect(address: str) -> Any:
    """A client of the dask cluster whose scheduler listens at `address`."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtra("dask.distributed", "cluster") from error
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise SqirlError(
            f"no dask scheduler answers at '{address}' ({error}); start one with: dask scheduler"
        ) from error


def killed_worker() -> type[Exception]:
    """What dask raises for a block over which more workers died than it allows."""
    from distributed import KilledWorker

    killed: type[Exception] = KilledWorker
    return killed


def all_cores() -> int:
    """The cores that this process may use."""
    affinity: Callable[[int], Any] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
