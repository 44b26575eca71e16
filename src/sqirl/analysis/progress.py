"""How far an analysis is, and how long it will take. The work is counted in (state, action, column) triples of backward steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class AnalysisProgress:
    """How far an analysis is. The search for k may add work later, so the share and the time left are estimates."""

    stage: str
    share: float
    seconds_left: float | None  # None before the first step
    num_bytes: int  # the memory of the largest pass


class Meter:
    """Counts the work that is done, and reports it."""

    def __init__(self, report: Callable[[AnalysisProgress], None] | None = None) -> None:
        self._report = report
        self._began = time.monotonic()
        self._total, self._done = 0.0, 0.0
        self._stage, self.num_bytes = "starting", 0

    def expect(self, work: float) -> None:
        """So much more work is to come."""
        self._total += work

    def enter(self, stage: str) -> None:
        """A new part of the analysis begins."""
        self._stage = stage
        self.advance(0)

    def advance(self, work: float) -> None:
        """So much work was done."""
        if self._report is None:
            return
        self._done += work
        self._total = max(self._total, 1.05 * self._done)
        share = self._done / self._total if self._total else 0.0
        elapsed = time.monotonic() - self._began
        left = elapsed * (1 - share) / share if share else None
        self._report(AnalysisProgress(self._stage, share, left, self.num_bytes))


#: Reports to nobody.
SILENT = Meter()
