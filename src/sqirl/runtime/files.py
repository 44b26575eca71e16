"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from sqirl.errors import SqirlError

#: The pickle protocol of checkpoints: torch's default cannot write strings of more than 4 GiB.
PICKLE_PROTOCOL = 4


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Write `content` (or let it write itself, if it is large) to `path`; a reader or a crash never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or a power cut may leave the name without the content
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Raise `SqirlError` if no file can be written at `path`: called before hours of work, not after them."""
    if path.is_dir():
        raise SqirlError(f"'{path}' is a folder; give the name of a file")
    if path.parent.is_file():
        raise SqirlError(f"'{path.parent}' is a file; give the name of a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SqirlError(f"'{path}' cannot be written: {error.strerror}") from error


def safe_file_name(name: str) -> str:
    """`name` as the name of a file: the characters that separate folders and modules become underscores."""
    return name.replace("/", "_").replace(":", "_")
