"""The journal of a build on disk. Files are only appended to, so a build that is killed loses only the unfinished blocks.

Level d has two files. `rows_d` has one entry for each finished block: its transitions and rewards, and the keys and looks of the
new states. `states_(d+1)` holds these new states, packed. They are the frontier of the next level, and the file is deleted when
that level is complete. An entry is a length, a checksum and a pickle. It is written after its states. When a build is resumed, an
incomplete entry at the end of `rows_d` is removed, and so are the states that belong to no complete entry.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import WorkFailed
from sqirl.runtime.files import write_atomically
from sqirl.runtime.locks import try_to_lock

_HEADER = struct.Struct("<QI")  # length, checksum


@dataclass(frozen=True, eq=False)
class Rows:
    """The journal entry of a finished block of n states, in which m new states were discovered."""

    transitions: NDArray[np.int64]  # (n, A) numbers of the next states, -1 at the end of the game
    rewards: NDArray[np.float64]  # (n, A)
    new_keys: bytes  # 16 bytes for each new state
    new_looks: bytes  # the looks of the new states, all of the same length
    sizes: NDArray[np.int64]  # (m,) packed size of each new state


class Journal:
    """The folder of one build.

    :param folder: where the files are; it is created if it does not exist
    :param identity: game, versions and seeds; a build with another identity is refused
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._check_identity(identity)

    def _lock(self) -> None:
        """Lock the folder until `close`. The operating system releases the lock if the process dies."""
        self._lock_file = (self.folder / "lock").open("w")
        if not try_to_lock(self._lock_file.fileno()):
            raise WorkFailed(f"another build is running in '{self.folder}'; wait until it is done, or stop it")

    def close(self) -> None:
        """Release the lock on the folder."""
        self._lock_file.close()

    def _check_identity(self, identity: dict[str, Any]) -> None:
        """Raise `WorkFailed` if the folder holds a build of another game, version or seed."""
        path = self.folder / "identity.json"
        text = json.dumps(identity, sort_keys=True)
        if path.exists() and path.read_text() != text:
            raise WorkFailed(
                f"'{self.folder}' holds a build of {path.read_text()}, not of {text}; remove the folder to start again"
            )
        if not path.exists():
            write_atomically(path, text.encode())

    def rows_path(self, level: int) -> Path:
        return self.folder / f"rows_{level:04d}"

    def states_path(self, level: int) -> Path:
        return self.folder / f"states_{level:04d}"

    def write_start(self, packed: bytes) -> None:
        """The frontier of level 0 is the start state."""
        self.states_path(0).write_bytes(packed)

    def read_rows(self, level: int) -> Iterator[Rows]:
        """The complete entries of a level. An incomplete entry at the end is removed from the file."""
        path = self.rows_path(level)
        if not path.exists():
            return
        with path.open("r+b") as file:
            while True:
                position = file.tell()
                entry = _read_entry(file)
                if entry is None:
                    file.truncate(position)
                    return
                yield entry

    def appender(self, level: int, known_bytes: int) -> Appender:
        """Appends to a level. `known_bytes` is the size of its new states in the complete entries."""
        return Appender(self, level, known_bytes)

    def frontier(self, level: int, sizes: NDArray[np.int64], skip: int) -> Iterator[bytes]:
        """The packed states of a level without the first `skip`, read one by one. `sizes` (n,) are their packed sizes."""
        with self.states_path(level).open("rb") as file:
            file.seek(int(sizes[:skip].sum()))
            for size in sizes[skip:].tolist():
                yield file.read(size)

    def remove_states(self, level: int) -> None:
        """Delete the states of a complete level."""
        self.states_path(level).unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.iterdir())


class Appender:
    """Writes the blocks of one level: for each block first its new states, then its entry."""

    def __init__(self, journal: Journal, level: int, known_bytes: int) -> None:
        states_path = journal.states_path(level + 1)
        states_path.touch()
        if states_path.stat().st_size < known_bytes:
            raise WorkFailed(
                f"'{states_path}' has fewer than the {known_bytes} bytes that its journal expects, as after a power failure; "
                f"remove '{journal.folder}' and build again"
            )
        os.truncate(states_path, known_bytes)
        # Not buffered: after an error (a full disk) a buffer would be written later, while a resumed build uses the same files
        self._states = states_path.open("ab", buffering=0)
        self._rows = journal.rows_path(level).open("ab", buffering=0)

    def append(self, rows: Rows, packed_states: list[bytes]) -> None:
        _write(self._states, b"".join(packed_states))
        payload = pickle.dumps(rows, protocol=pickle.HIGHEST_PROTOCOL)
        _write(self._rows, _HEADER.pack(len(payload), zlib.crc32(payload)) + payload)

    def close(self) -> None:
        for file in (self._states, self._rows):
            os.fsync(file.fileno())
            file.close()


def _write(file: FileIO, data: bytes) -> None:
    """Write all of `data`. One call of `file.write` may write only a part."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _read_entry(file: BinaryIO) -> Rows | None:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    payload = file.read(length)
    if len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    entry: Rows = pickle.loads(payload)
    return entry
