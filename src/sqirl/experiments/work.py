"""One run as a job for a worker: nobody else does it at the same time, and whatever happens leaves a record or a checkpoint."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqirl.errors import SqirlError
from sqirl.mdp.files import try_to_lock
from sqirl.results.records import RecordStore, RunConfig, RunRecord

#: Seconds between two looks at a run that somebody else has in hand.
POLL_SECONDS = 0.5


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Hold the lock file while inside; the system lets go of it when a process dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
        if not try_to_lock(handle):
            os.close(handle)
            time.sleep(POLL_SECONDS)
            continue
        try:
            # The last holder may have removed the file that we opened: then this lock is of nothing
            if not path.exists() or os.stat(path).st_ino != os.fstat(handle).st_ino:
                continue
            yield
            path.unlink(missing_ok=True)
            return
        finally:
            os.close(handle)


def perform_job(config: dict[str, Any], folder: str, device: str = "cpu") -> dict[str, Any]:
    """The record of a run, as plain values: found, waited for, or made now. A run that fails is a record with its error."""
    import torch

    from sqirl.experiments.run import perform

    torch.set_num_threads(1)  # workers share the machine: two threads beside a busy core are slower than one
    run, store = RunConfig(**config), RecordStore(Path(folder))
    with claimed(store.folder / f"{run.digest}.lock"):
        try:
            return perform(run, store, device=device).to_dict()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            return _failed(run, store, error)
        except Exception as error:
            return _failed(run, store, error)


def _failed(config: RunConfig, store: RecordStore, error: Exception) -> dict[str, Any]:
    text = str(error) if isinstance(error, SqirlError) else f"{type(error).__name__}: {error}"
    record = RunRecord(config, error=text.splitlines()[0] if text else type(error).__name__)
    store.put(record)
    return record.to_dict()


def job_of(config: RunConfig) -> dict[str, Any]:
    return asdict(config)
