"""Runs as tasks for a worker. Whatever happens, they leave records or checkpoints."""

from __future__ import annotations

import errno
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqirl.algorithms.registry import algorithm_names, register
from sqirl.errors import SqirlError, WorkFailed, one_line
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runs.store import RecordStore


def task_of(config: RunConfig) -> dict[str, Any]:
    """The run as plain values, and the module that registers its algorithm, for a worker that has not imported it."""
    spec = type(config.spec)
    return {"config": config.to_dict(), "module": spec.__module__, "spec": spec.__qualname__}


def perform_tasks(
    tasks: list[dict[str, Any]],
    folder: str,
    device: str = "cpu",
    enough: int | None = None,
    solved: Sequence[int] = (),
    sharing: int = 1,
) -> list[dict[str, Any]]:
    """The records of runs, as plain values: stored, waited for, or made now. A run that fails is a record with its error.

    :param tasks: one run, or several that differ in their seeds alone and are trained as a population
    :param enough: see `perform_together`
    :param solved: see `perform_together`
    :param sharing: workers that use the device at the same time
    """
    import torch

    from sqirl.runs.perform import perform_all

    torch.set_num_threads(1)  # workers share the machine: two threads beside a busy core are slower than one
    for task in tasks:
        _know_algorithm(task)
    configs, store = [RunConfig.from_dict(task["config"]) for task in tasks], RecordStore(Path(folder))
    try:
        records = perform_all(configs, store, device=device, enough=enough, solved=solved, sharing=sharing)
        return [record.to_dict() for record in records]
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        return [_failed(config, store, error) for config in configs]
    except Exception as error:
        return [_failed(config, store, error) for config in configs]


def _know_algorithm(task: dict[str, Any]) -> None:
    """Import the module of the algorithm's spec, and register the spec if the module does not do it."""
    try:
        module = importlib.import_module(task["module"])
        if task["config"]["algorithm"] not in algorithm_names():
            register(getattr(module, task["spec"])())
    except (ImportError, AttributeError) as error:
        raise WorkFailed(f"a worker cannot import the spec of {task['config']['algorithm']}: {error}") from error


def _failed(config: RunConfig, store: RecordStore, error: Exception) -> dict[str, Any]:
    text = str(error) if isinstance(error, SqirlError) else f"{type(error).__name__}: {error}"
    record = RunRecord(config, error=one_line(text) or type(error).__name__)
    try:
        found = store.get(config)
    except SqirlError:  # a file that is no record: it is the user's, and may be of a newer version
        return record.to_dict()
    if found is not None and found.error is None:  # one of several runs, which was over before the others failed
        return found.to_dict()
    store.put(record)
    return record.to_dict()
