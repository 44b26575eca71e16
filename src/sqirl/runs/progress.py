"""How far a run is, and how often it says so and saves itself."""

from __future__ import annotations

from dataclasses import dataclass

from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point

#: Seconds between checkpoints unless another number is given: a killed run loses no more than that.
CHECKPOINT_SECONDS = 60.0
#: Seconds between two reports of progress.
PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    config: RunConfig
    steps: int
    steps_per_second: float
    last: Point | None
    optimal_return: float | None
    random_return: float | None = None
