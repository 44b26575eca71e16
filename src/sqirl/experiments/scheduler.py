"""The scheduler of a sweep: all searches side by side, their runs on a process pool or on a dask cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqirl.errors import WorkFailed, check_installed
from sqirl.experiments.search import Finding, Search, search
from sqirl.experiments.sweeps import Sweep, check_sweep
from sqirl.experiments.worker import perform_tasks, task_of
from sqirl.results.known_runs import KnownRuns, majority
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runs.store import RecordStore, default_folder, shipped_records
from sqirl.runtime.workers import WorkerPool, all_cores


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is."""

    searches: int
    searches_done: int
    runs_done: int
    runs_found: int  # of these, the ones that were there before
    runs_failed: int
    running: int
    seconds: float


#: Worker processes on a GPU unless another number is given: while one of them waits for Python, others use the device.
GPU_JOBS = 8


@dataclass(eq=False)
class OpenSearch:
    """A search and the runs that it waits for."""

    search: Search
    majority_first: bool = False  # run as many seeds as decide that a setting fails, then the others
    wanted: list[RunConfig] = field(default_factory=list)
    records: dict[RunConfig, RunRecord] = field(default_factory=dict)
    finding: Finding | None = None
    started: int = 0  # runs so far

    def advance(self) -> None:
        """Send the records to the search and receive the runs that it needs next."""
        try:
            reply = [self.records[config] for config in self.wanted if config in self.records]
            self.wanted = self.search.send(reply) if reply else next(self.search)
            self.records = {}
        except StopIteration as stop:
            self.finding, self.wanted = stop.value, []

    @property
    def missing(self) -> list[RunConfig]:
        """The runs that the search needs; none if a majority did not solve, because the others cannot change the median."""
        unsolved = [record for record in self.records.values() if record.error is None and record.complexity is None]
        if self.wanted and len(unsolved) >= majority(self.wanted):
            return []
        return [config for config in self.wanted if config not in self.records]

    @property
    def next_runs(self) -> list[RunConfig]:
        """The missing runs to start now."""
        first = self.wanted[: majority(self.wanted)] if self.majority_first else self.wanted
        missing = self.missing
        return [config for config in first if config in missing] or missing

    @property
    def solved(self) -> tuple[int, ...]:
        """The sample complexities of the runs that solved."""
        return tuple(record.complexity for record in self.records.values() if record.complexity is not None)

    def take(self, known: KnownRuns) -> int:
        """Answer from known records as long as they have the runs; returns how many runs were found."""
        found = 0
        while self.finding is None:
            answers = known.answers(self.wanted)
            for config in [config for config in self.missing if config in answers]:
                self.records[config] = answers[config]
                found += 1
            if self.missing:
                break
            self.advance()
        return found


class Scheduler:
    """Runs the searches of a sweep to their ends."""

    def __init__(
        self,
        sweep: Sweep,
        folder: Path,
        *,
        jobs: int = 1,
        cluster: str | None = None,
        device: str = "cpu",
        members: int | None = None,
        progress: Callable[[SweepProgress], None] | None = None,
        deadline: float | None = None,
        known: Iterable[RunRecord] = (),
    ) -> None:
        """`known` are records from elsewhere: runs that they answer for are not run."""
        self.members, self.in_order = members, sweep.easiest_first
        self.store, self.device = RecordStore(folder), device
        self.pool = WorkerPool(jobs=jobs, cluster=cluster)
        self.progress, self.deadline = progress, deadline
        self.searches = [
            OpenSearch(search(sweep, env, name), sweep.expects_failures(env, name)) for env, name in sweep.cases()
        ]
        self.known = KnownRuns(known)
        self._running: dict[Any, tuple[OpenSearch, list[RunConfig]]] = {}
        self._done = self._found = self._failed = 0

    def run(self) -> list[Finding]:
        """All findings; runs that are recorded already are not run again."""
        began = time.monotonic()
        for record in self.store.all():
            self.known.add(record)
        try:
            for open_search in self.searches:
                open_search.advance()
                self._take_what_is_there(open_search)
            while any(open_search.finding is None for open_search in self.searches):
                self._submit()
                self._report(began)
                self._collect()
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise WorkFailed("the time limit is reached; run the same command again to continue")
            self._report(began)
        finally:
            self.pool.close()  # a run in progress is resumed from its checkpoint another time
        return [open_search.finding for open_search in self.searches if open_search.finding is not None]

    def _take_what_is_there(self, open_search: OpenSearch) -> None:
        found = open_search.take(self.known)
        self._done += found
        self._found += found

    def _submit(self) -> None:
        """Keep the workers busy. Searches take turns, so that one with long runs does not block the others, or come in order."""
        running = {config for _, configs in self._running.values() for config in configs}
        waiting = [
            (0 if self.in_order else open_search.started + place, number, open_search, configs)
            for number, open_search in enumerate(self.searches)
            for place, configs in enumerate(self._tasks([c for c in open_search.next_runs if c not in running]))
        ]
        room = max(0, self.pool.num_workers + 1 - len(self._running))
        for _, _, open_search, configs in sorted(waiting, key=lambda turn: turn[:2])[:room]:
            self._running[self._start(configs, open_search)] = open_search, configs
            open_search.started += len(configs)

    def _tasks(self, configs: list[RunConfig]) -> list[list[RunConfig]]:
        """The runs of one setting as tasks: as populations where they are trained so, else one by one.

        Workers on CPUs that would be idle take a part of a population. The parts depend on the sweep alone, so that a sweep
        that was stopped finds their checkpoints.
        """
        from sqirl.runs.perform import trains_together

        if not configs or not trains_together(configs[0], self.device):
            return [[config] for config in configs]
        parts = 1 if self.device.startswith("cuda") else max(1, self.pool.num_workers // len(self.searches))
        size = self.members or math.ceil(len(configs) / parts)
        return [configs[first : first + size] for first in range(0, len(configs), size)]

    def _start(self, configs: list[RunConfig], open_search: OpenSearch) -> Any:
        folder, tasks = str(self.store.folder.absolute()), [task_of(config) for config in configs]
        enough, solved = majority(open_search.wanted), open_search.solved
        sharing = self.pool.jobs if self.device.startswith("cuda") else 1  # a worker has a CPU core to itself
        return self.pool.submit(perform_tasks, tasks, folder, self.device, enough, solved, sharing)

    def _collect(self) -> None:
        """Wait until a run ends, at most for a short while."""
        for future in self._ended():
            open_search, configs = self._running.pop(future)
            try:
                records = [RunRecord.from_dict(plain) for plain in future.result()]
            except self.pool.failures as error:
                # Runs in progress are submitted again and resumed from their checkpoints
                self.pool.worker_failed(error, "the records so far are kept")
                if self.pool.cluster is None:  # a process pool breaks as a whole
                    self._running.clear()
                return
            self.pool.task_finished()
            for config, record in zip(configs, records, strict=True):
                if not self.store.path(record.config).is_file():
                    self.store.put(record)  # a worker of a cluster may have a disk of its own
                self._done += 1
                self._failed += record.error is not None
                self.known.add(record)
                if config in open_search.wanted:  # else it was decided without this run
                    open_search.records[config] = record
            if open_search.wanted and not open_search.missing:
                open_search.advance()
                self._take_what_is_there(open_search)

    def _ended(self) -> Iterable[Any]:
        if self.pool.cluster is None:
            return wait(self._running, timeout=0.5, return_when=FIRST_COMPLETED).done
        time.sleep(0.05)
        return [future for future in self._running if future.done()]

    def _report(self, began: float) -> None:
        if self.progress is not None:
            finished = sum(open_search.finding is not None for open_search in self.searches)
            self.progress(
                SweepProgress(
                    len(self.searches), finished, self._done, self._found, self._failed, len(self._running),
                    time.monotonic() - began,
                )
            )  # fmt: skip


def run_sweep(
    sweep: Sweep,
    *,
    folder: Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    device: str = "auto",
    members: int | None = None,
    shipped: bool = False,
    time_limit: float | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> list[Finding]:
    """The findings of a sweep, one for each environment and algorithm. If it was stopped, call it again to continue.

    :param folder: where the records are kept; the user's folder of runs if None
    :param jobs: worker processes; if None, all cores, or `GPU_JOBS` on a GPU
    :param cluster: address of a dask scheduler whose workers do the runs
    :param device: "auto", "cpu" or "cuda"
    :param members: runs that are trained as one population, at most; all seeds of a setting if None
    :param shipped: take the runs that come with the package as done
    :param time_limit: seconds after which it stops with `WorkFailed`
    :param progress: called a few times a second
    """
    check_sweep(sweep)
    if cluster is None:  # workers of a cluster have devices of their own
        check_installed("torch", "stable_baselines3")  # workers would find out one by one
        from sqirl.runs.device import check_device

        device = check_device(device)
    folder = folder or default_folder()
    RecordStore(folder).check()
    return Scheduler(
        sweep,
        folder,
        jobs=jobs or (GPU_JOBS if device.startswith("cuda") else all_cores()),
        cluster=cluster,
        device=device,
        members=members,
        progress=progress,
        deadline=None if time_limit is None else time.monotonic() + time_limit,
        known=shipped_records() if shipped else (),
    ).run()
