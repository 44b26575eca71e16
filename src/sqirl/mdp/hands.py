"""Who does the tasks: a pool of processes on this machine, or the workers of a dask cluster.

A worker that dies takes its pool with it (that is how process pools are); dask gives its tasks to others, and gives up a task
over which several died. Either way the task's future raises one of `Hands.deaths`, and whoever asked submits it again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any

from sqirl.errors import MissingExtra, SqirlError, WorkFailed

#: How often in a row workers may die without finishing a task.
MOST_DEATHS = 5
#: Seconds to wait for a pool whose workers were told to go; they go at once.
LONGEST_FAREWELL = 5.0


class Hands:
    """Started when they are first needed."""

    def __init__(self, *, jobs: int = 1, cluster: str | None = None) -> None:
        self.jobs, self.cluster = jobs, cluster
        self.deaths: tuple[type[Exception], ...] = (BrokenExecutor,)
        self._pool: ProcessPoolExecutor | None = None
        self._client: Any = None
        self._num_deaths = 0

    @property
    def count(self) -> int:
        return self.jobs if self.cluster is None else max(1, sum(self._connected().nthreads().values()))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A future, a pool's or dask's."""
        if self.cluster is not None:
            # Not through dask's executor: its futures wait for ever where a finished task is lost and then given up.
            # Not pure: a task that is submitted again must not be given the fate that it had before.
            return self._connected().submit(function, *arguments, pure=False)
        if self._pool is None:
            self._pool = process_pool(self.jobs)
        return self._pool.submit(function, *arguments)

    def mourn(self, error: Exception, kept: str) -> None:
        """A task came back with one of `deaths`: others take over, unless it happens again and again."""
        self._num_deaths += 1
        if self._num_deaths > MOST_DEATHS:
            raise WorkFailed(f"worker processes died {self._num_deaths} times in a row; {kept}") from error
        self._abandon_pool()

    def rejoice(self) -> None:
        """A task was finished."""
        self._num_deaths = 0

    def close(self) -> None:
        self._abandon_pool()
        if self._client is not None:
            self._client.close()

    def _abandon_pool(self) -> None:
        """Leave it at once: or leaving would wait for what its workers still have in hand, or are still starting."""
        if self._pool is None:
            return
        processes = list((self._pool._processes or {}).values())
        manager: Any = self._pool._executor_manager_thread
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if manager is not None:
            # Or Python's own leave of it, when all ends, may find its pipes half closed
            manager.join(timeout=LONGEST_FAREWELL)
        self._pool = None

    def _connected(self) -> Any:
        if self._client is None:
            assert self.cluster is not None
            self._client = connect(self.cluster)
            from distributed import KilledWorker  # what dask raises for a task that it gave up

            self.deaths = (BrokenExecutor, KilledWorker)
        return self._client


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


def all_cores() -> int:
    """The cores that this process may use."""
    affinity: Callable[[int], Any] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
