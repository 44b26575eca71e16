"""The command `sqirl`. It is outside the package, so that Ctrl-C is one line already while the package is imported."""

import os
import signal

_STOPPED = b"sqirl: interrupted before anything was done\n"
#: The exit code of an interrupted command, as in `sqirl.cli.main`.
_INTERRUPTED = 2


def _stop(number: int, frame: object) -> None:
    os.write(2, _STOPPED)
    os._exit(_INTERRUPTED)


def run() -> None:
    """Import the package and run the command line."""
    before = signal.signal(signal.SIGINT, _stop)
    from sqirl.cli.main import run

    signal.signal(signal.SIGINT, before)
    run()
