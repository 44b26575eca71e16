"""Waiting for what another process or thread does, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds after which what has not happened will not happen.
PATIENCE = 120.0


def wait_until(happened: Callable[[], object], what: str, *, seconds: float = PATIENCE) -> None:
    """Return as soon as it has happened."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"after {seconds:g} s {what} has not happened"
        time.sleep(0.01)
