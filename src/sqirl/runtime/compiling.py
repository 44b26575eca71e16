"""Numba compiles when a kind of MDP is analysed for the first time on a machine. This takes half a minute."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any


def announce_compiling() -> None:
    """Print one line on stderr when a function is compiled for the first time in this process."""
    _listener().announces = True


def seconds_of_compiling() -> float:
    """How long functions have been compiled since the first call of this function or of `announce_compiling`."""
    seconds: float = _listener().seconds
    return seconds


@cache
def _listener() -> Any:
    """What numba tells when it begins and ends to compile. Its module is imported here because it is slow to import."""
    from numba.core import event

    class Listener(event.Listener):
        announces = False
        depth = 0  # compiling one function may compile others
        began = 0.0
        seconds = 0.0

        def on_start(self, event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                self.began = time.monotonic()
            if self.announces:
                self.announces = False
                line = "sqirl: compiling, which takes about half a minute the first time for this kind of MDP"
                print(line, file=sys.stderr, flush=True)

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.monotonic() - self.began

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    return listener
