"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from sqirl.errors import SqirlError


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Write `content` (or let it write itself, if it is large) to `path`; a reader or a crash never sees half of it.

    What is there stays what it is: a link goes on to point to its file, which is replaced, and a device or a FIFO is written to.
    """
    with naming_the_file(path):
        _write_atomically(_behind_links(path), content)


def _behind_links(path: Path) -> Path:
    """The file that a link points to. Raises `OSError` if links point to each other in a circle, as opening it would."""
    try:
        return path.resolve() if path.is_symlink() else path
    except RuntimeError as error:  # of Python 3.11 and 3.12
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error


def _write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            _write(file, content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as file:
            _write(file, content)
            file.flush()
            os.fsync(file.fileno())  # or a power cut may leave the name without the content
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _write(file: BinaryIO, content: bytes | Callable[[BinaryIO], None]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


@contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Add the path to an `OSError` that does not name a file, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_all(file: FileIO, data: bytes) -> None:
    """Write all of `data` to an unbuffered file. One call of `file.write` may write only a part."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _umask() -> int:
    """The bits that new files of this process do not have. Reading it takes setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def check_format(path: Path, formats: Sequence[str], what: str) -> None:
    """Raise `SqirlError` if no file of one of these formats can be written at `path`.

    :param formats: endings: '.png', '.svg'
    :param what: what the file holds, for the message: 'figures'
    """
    if path.is_dir():
        raise SqirlError(f"'{path}' is a folder; give the name of a file that ends in {' or '.join(formats)}")
    if path.suffix not in formats:
        ending = f"ends in '{path.suffix}'" if path.suffix else "has no ending"
        raise SqirlError(f"'{path}' {ending}; {what} are written as {' or '.join(formats)}")
    check_writable(path)


def check_writable(path: Path) -> None:
    """Raise `SqirlError` if no file can be written at `path`: called before hours of work, not after them."""
    if path.is_dir():
        raise SqirlError(f"'{path}' is a folder; give the name of a file")
    if path.parent.is_file():
        raise SqirlError(f"'{path.parent}' is a file; give the name of a folder")
    try:
        path = _behind_links(path)
        if path.exists() and not path.is_file():  # a device or a FIFO is written to
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SqirlError(f"'{path}' cannot be written: {error.strerror}") from error


#: The longest name of a file without its ending; most file systems allow 255 bytes.
LONGEST_NAME = 120


def safe_file_name(name: str) -> str:
    """`name` as the name of a file: the characters that separate folders and modules become underscores.

    A name with other special characters, or a long one, gets a digest at its end, so that two names never share a file.
    """
    plain = name.replace("/", "_").replace(":", "_")
    safe = re.sub(r"[^\w.+-]+", "_", plain)
    if safe == plain and len(safe) <= LONGEST_NAME:
        return safe
    return f"{safe[:LONGEST_NAME].rstrip('_')}-{blake2b(name.encode(), digest_size=4).hexdigest()}"
