"""Ctrl-C that is never lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Seconds after which a lost Ctrl-C is sent again.
_AGAIN_AFTER = 0.05


def resend_lost_interrupts() -> None:
    """Send Ctrl-C again where it was lost.

    It raises `KeyboardInterrupt` in whatever Python code is being run. Where that was called by C, as the functions with which
    numba reads compiled code are, or is the end of an object (`__del__`), Python prints the exception and goes on.
    """
    if not isinstance(sys.unraisablehook, _Hook):
        sys.unraisablehook = _Hook(sys.unraisablehook)


class _Hook:
    """What is called with an exception that nobody can catch."""

    def __init__(self, before: Callable[[Any], Any]) -> None:
        self.before = before

    def __call__(self, lost: Any, /) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            self.before(lost)
            return
        timer = threading.Timer(_AGAIN_AFTER, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.daemon = True
        timer.start()
