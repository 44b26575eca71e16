"""stdin, stdout and stderr as a command needs them: open, able to print every letter, and stderr never an end of the work."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqirl.errors import SqirlError
from sqirl.runtime.files import naming_the_file


def prepare_streams() -> None:
    """Raises `SqirlError` if stdout is closed: the result would be lost."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Letters that the encoding of the terminal lacks, such as H̄ in ASCII, are escaped; they must not end a command
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _Result(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Notes(sys.stderr)
    if sys.stdout is None:
        raise SqirlError("stdout is closed, so the result would be lost; redirect it to a file or to /dev/null")


def _open_closed_streams() -> None:
    """Open what was closed (`2>&-`), or the next file that is opened takes its number and gets what libraries print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    if sys.stderr is None:  # then `print` would write notes to stdout
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


class _Stream:
    """A stream that writes as another one does, but for its errors."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ReaderGone(Exception):
    """Who read stdout does not read it any more, as `| head` does. It is no error; click would end with exit code 1."""


@contextmanager
def _errors_of_stdout() -> Iterator[None]:
    try:
        with naming_the_file(Path("stdout")):
            yield
    except BrokenPipeError as error:
        raise ReaderGone from error


class _Result(_Stream):
    """stdout, whose errors say what could not be written."""

    def write(self, text: str) -> int:
        with _errors_of_stdout():
            return self._stream.write(text)

    def flush(self) -> None:
        with _errors_of_stdout():
            self._stream.flush()


class _Notes(_Stream):
    """stderr, where a full disk or a closed pipe loses notes and progress, but not the work."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def forget_output() -> None:
    """What waits in stdout cannot be written; Python would try it again at its end, and print a traceback."""
    try:
        sys.stdout.flush()
    except (OSError, ReaderGone):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
