"""One run as a task for a worker. Whatever happens, it leaves a record or a checkpoint."""

from __future__ import annotations

import errno
import importlib
from pathlib import Path
from typing import Any

from sqirl.errors import SqirlError
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runs.store import RecordStore


def task_of(config: RunConfig) -> dict[str, Any]:
    """The run as plain values, and the module that registers its algorithm, for a worker that has not imported it."""
    return {"config": config.to_dict(), "module": type(config.spec).__module__}


def perform_task(task: dict[str, Any], folder: str, device: str = "cpu") -> dict[str, Any]:
    """The record of a run, as plain values: stored, waited for, or made now. A run that fails is a record with its error."""
    import torch

    from sqirl.runs.run import perform

    torch.set_num_threads(1)  # workers share the machine: two threads beside a busy core are slower than one
    importlib.import_module(task["module"])
    config, store = RunConfig.from_dict(task["config"]), RecordStore(Path(folder))
    try:
        return perform(config, store, device=device).to_dict()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        return _failed(config, store, error)
    except Exception as error:
        return _failed(config, store, error)


def _failed(config: RunConfig, store: RecordStore, error: Exception) -> dict[str, Any]:
    text = str(error) if isinstance(error, SqirlError) else f"{type(error).__name__}: {error}"
    record = RunRecord(config, error=text.splitlines()[0] if text else type(error).__name__)
    store.put(record)
    return record.to_dict()
