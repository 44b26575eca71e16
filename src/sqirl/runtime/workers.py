"""A pool of workers: processes on this machine, or the workers of a dask cluster.

When a worker process dies, Python's process pool breaks as a whole. dask gives the task to another worker, and gives up after
several of them died. In both cases the future of the task raises one of `WorkerPool.failures`; the caller then calls
`worker_failed` and submits the task again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any

from sqirl.errors import MissingExtra, SqirlError, WorkFailed

#: The most worker processes of one machine.
MAX_JOBS = 1024
#: How often in a row workers may die without finishing a task.
MAX_FAILURES = 5
#: Seconds to wait until the processes of a terminated pool have ended. They end at once.
SHUTDOWN_SECONDS = 5.0


class WorkerPool:
    """Runs tasks on `jobs` processes, started at the first task, or on the dask cluster at the address `cluster`."""

    def __init__(self, *, jobs: int = 1, cluster: str | None = None) -> None:
        if not 1 <= jobs <= MAX_JOBS:
            raise SqirlError(f"{jobs} jobs are outside 1..{MAX_JOBS}; take about as many as there are cores")
        self.jobs, self.cluster = jobs, cluster
        self.failures: tuple[type[Exception], ...] = (BrokenExecutor,)
        self._pool: ProcessPoolExecutor | None = None
        self._client: Any = None
        self._failures_in_a_row = 0
        if cluster is not None:
            self._connected()  # a wrong address is told before any work is done

    @property
    def num_workers(self) -> int:
        return self.jobs if self.cluster is None else max(1, sum(self._connected().nthreads().values()))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A future of the process pool or of dask."""
        if self.cluster is not None:
            # Not through dask's executor: its futures wait for ever when a finished task is lost and then given up.
            # Not pure: a task that is submitted again must run again.
            return self._connected().submit(function, *arguments, pure=False)
        if self._pool is None:
            self._pool = process_pool(self.jobs)
        return self._pool.submit(function, *arguments)

    def worker_failed(self, error: Exception, kept: str) -> None:
        """Call this when a task raised one of `failures`: workers are restarted, at most MAX_FAILURES times in a row."""
        self._failures_in_a_row += 1
        if self._failures_in_a_row > MAX_FAILURES:
            raise WorkFailed(f"worker processes died {self._failures_in_a_row} times in a row; {kept}") from error
        self._terminate_pool()

    def task_finished(self) -> None:
        """Call this when a task has returned its result."""
        self._failures_in_a_row = 0

    def close(self) -> None:
        self._terminate_pool()
        if self._client is not None:
            self._client.close()

    def _terminate_pool(self) -> None:
        """End the processes at once: a plain shutdown would wait for the tasks that they are working on."""
        if self._pool is None:
            return
        processes = list((self._pool._processes or {}).values())
        manager: Any = self._pool._executor_manager_thread
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if manager is not None:
            # At exit Python closes the pipes of the pool; they must not be half closed by then
            manager.join(timeout=SHUTDOWN_SECONDS)
        self._pool = None

    def _connected(self) -> Any:
        if self._client is None:
            assert self.cluster is not None
            self._client = connect(self.cluster)
            from distributed import KilledWorker  # raised for a task that dask has given up

            self.failures = (BrokenExecutor, KilledWorker)
        return self._client


def process_pool(jobs: int) -> ProcessPoolExecutor:
    """Worker processes that end when this process ends, however it ends.

    They are spawned, not forked: a fork of a process with threads (of numba, of the emulator) may hang.
    """
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Without this a worker of a killed process would wait for its next task for ever."""
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
        return Client(address, timeout=10)  # type: ignore[no-untyped-call,unused-ignore]
    except (OSError, ValueError) as error:
        raise SqirlError(
            f"no dask scheduler answers at '{address}' ({error}); start one with: dask scheduler"
        ) from error


def all_cores() -> int:
    """The cores that this process may use."""
    affinity: Callable[[int], Any] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
