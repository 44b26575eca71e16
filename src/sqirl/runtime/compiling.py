"""A line when numba compiles: it takes half a minute, once on a machine, and no time limit knows of it."""

from __future__ import annotations

import sys
from typing import Any

_announced = False


def announce_compiling() -> None:
    """Print one line on stderr when a function is compiled for the first time in this process."""
    from numba.core import event

    class Announcer(event.Listener):
        def on_start(self, event: Any) -> None:
            global _announced
            if not _announced:
                _announced = True
                print("sqirl: compiling (once on this machine, about half a minute)", file=sys.stderr, flush=True)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
