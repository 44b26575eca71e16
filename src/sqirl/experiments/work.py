"""One run as a job for a worker: whatever happens leaves a record or a checkpoint."""

from __future__ import annotations

import errno
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqirl.errors import SqirlError
from sqirl.results.records import RecordStore, RunConfig, RunRecord


def perform_job(config: dict[str, Any], folder: str, device: str = "cpu") -> dict[str, Any]:
    """The record of a run, as plain values: found, waited for, or made now. A run that fails is a record with its error."""
    import torch

    from sqirl.experiments.run import perform

    torch.set_num_threads(1)  # workers share the machine: two threads beside a busy core are slower than one
    run, store = RunConfig(**config), RecordStore(Path(folder))
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
