"""Conducting a sweep: all searches side by side, their runs on a process pool or on a dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqirl.errors import WorkFailed
from sqirl.experiments.search import Finding, Search, search
from sqirl.experiments.sweeps import Sweep
from sqirl.experiments.work import job_of, perform_job
from sqirl.mdp.hands import Hands
from sqirl.results.known import KnownRuns
from sqirl.results.records import RecordStore, RunConfig, RunRecord


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


@dataclass(eq=False)
class _Dialogue:
    """A search and the runs that it waits for."""

    search: Search
    wanted: list[RunConfig] = field(default_factory=list)
    records: dict[RunConfig, RunRecord] = field(default_factory=dict)
    finding: Finding | None = None
    started: int = 0  # runs so far

    def advance(self) -> None:
        """Hand the records over and hear what is wanted next."""
        try:
            reply = [self.records[config] for config in self.wanted]
            self.wanted = self.search.send(reply) if reply else next(self.search)
            self.records = {}
        except StopIteration as stop:
            self.finding, self.wanted = stop.value, []

    @property
    def missing(self) -> list[RunConfig]:
        return [config for config in self.wanted if config not in self.records]


class Conductor:
    """Runs the searches of a sweep to their ends."""

    def __init__(
        self,
        sweep: Sweep,
        folder: Path,
        *,
        jobs: int = 1,
        cluster: str | None = None,
        device: str = "cpu",
        progress: Callable[[SweepProgress], None] | None = None,
        deadline: float | None = None,
        known: Iterable[RunRecord] = (),
    ) -> None:
        """`known` are records from elsewhere: what they tell is not run."""
        self.store, self.device = RecordStore(folder), device
        self.hands = Hands(jobs=jobs, cluster=cluster)
        self.progress, self.deadline = progress, deadline
        self.dialogues = [_Dialogue(search(sweep, env, name)) for env in sweep.envs for name in sweep.algorithms]
        self.known = KnownRuns(known)
        self._running: dict[Any, tuple[_Dialogue, RunConfig]] = {}
        self._done = self._found = self._failed = 0

    def run(self) -> list[Finding]:
        """All findings; runs that are recorded already are not run again."""
        began = time.monotonic()
        for record in self.store.all():
            self.known.add(record)
        try:
            for dialogue in self.dialogues:
                dialogue.advance()
                self._take_what_is_there(dialogue)
            while any(dialogue.finding is None for dialogue in self.dialogues):
                self._submit()
                self._tell(began)
                self._collect()
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise WorkFailed("the time limit has come; the same command goes on")
            self._tell(began)
        finally:
            self.hands.close()  # a run under way goes on from its checkpoint another time
        return [dialogue.finding for dialogue in self.dialogues if dialogue.finding is not None]

    def _take_what_is_there(self, dialogue: _Dialogue) -> None:
        """Answer from the store as long as it has the answers."""
        while dialogue.finding is None:
            for config in dialogue.missing:
                record = self.store.get(config) or self.known.answer(config)
                if record is not None and record.error is None:
                    dialogue.records[config] = record
                    self._done += 1
                    self._found += 1
            if dialogue.missing:
                return
            dialogue.advance()

    def _submit(self) -> None:
        """Keep the workers busy; the searches take turns, so that one with long runs holds up no other."""
        under_way = {config for _, config in self._running.values()}
        waiting = [
            (dialogue.started + place, number, dialogue, config)
            for number, dialogue in enumerate(self.dialogues)
            for place, config in enumerate(c for c in dialogue.missing if c not in under_way)
        ]
        room = max(0, self.hands.count + 1 - len(self._running))
        for _, _, dialogue, config in sorted(waiting, key=lambda turn: turn[:2])[:room]:
            self._running[self._start(config)] = dialogue, config
            dialogue.started += 1

    def _start(self, config: RunConfig) -> Any:
        return self.hands.submit(perform_job, job_of(config), str(self.store.folder.absolute()), self.device)

    def _collect(self) -> None:
        """Wait for a run to end, or a little while."""
        for future in self._ended():
            dialogue, config = self._running.pop(future)
            try:
                record = RunRecord.from_dict(future.result())
            except self.hands.deaths as error:
                # What was under way is submitted again, and goes on from its checkpoints
                self.hands.mourn(error, "the records so far are kept")
                if self.hands.cluster is None:  # a pool dies as a whole
                    self._running.clear()
                return
            if not self.store.path(config).is_file():
                self.store.put(record)  # a worker of a cluster may have a disk of its own
            self.hands.rejoice()
            self._done += 1
            self._failed += record.error is not None
            dialogue.records[config] = record
            self.known.add(record)
            if not dialogue.missing:
                dialogue.advance()
                self._take_what_is_there(dialogue)

    def _ended(self) -> Iterable[Any]:
        if self.hands.cluster is None:
            return wait(self._running, timeout=0.5, return_when=FIRST_COMPLETED).done
        time.sleep(0.05)
        return [future for future in self._running if future.done()]

    def _tell(self, began: float) -> None:
        if self.progress is not None:
            finished = sum(dialogue.finding is not None for dialogue in self.dialogues)
            self.progress(
                SweepProgress(
                    len(self.dialogues), finished, self._done, self._found, self._failed, len(self._running),
                    time.monotonic() - began,
                )
            )  # fmt: skip
