"""A build on disk: append-only, so that whatever kills it loses at most the blocks in flight.

Level d has two files. `rows_d` is a journal of finished blocks: their transitions and rewards, and the keys and looks
of the states that they discovered. `states_(d+1)` holds those states, packed, which are the frontier of the next level;
it is deleted once that level is done. A journal entry is a length, a checksum and a pickle, and it is written after the
states it speaks of. On opening, a torn entry at the end is cut off, and the states file is cut back to what the last
whole entry vouches for.
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

from sqirl.errors import WorkFailed
from sqirl.runtime.files import write_atomically
from sqirl.runtime.locks import try_to_lock

_HEADER = struct.Struct("<QI")  # length, checksum


@dataclass(frozen=True, eq=False)
class Rows:
    """A finished block: the rows of its states, and what it discovered."""

    transitions: np.ndarray  # (n, A) int64 global state numbers, -1 at an end
    rewards: np.ndarray  # (n, A) float64
    new_keys: bytes  # 16 bytes for each state discovered
    new_looks: bytes  # one look for each, all of the same length
    sizes: np.ndarray  # (m,) int64 packed size of each state discovered


class Journal:
    """The folder of one build."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._claim(identity)

    def _lock(self) -> None:
        """Keep other builds out of the folder until `close`; the system lets go of it when the process dies."""
        self._held = (self.folder / "lock").open("w")
        if not try_to_lock(self._held.fileno()):
            raise WorkFailed(f"another build is at work in '{self.folder}'; wait for it, or stop it")

    def close(self) -> None:
        """Let others in."""
        self._held.close()

    def _claim(self, identity: dict[str, Any]) -> None:
        """Refuse to go on with a build of another game, version or seed."""
        path = self.folder / "identity.json"
        text = json.dumps(identity, sort_keys=True)
        if path.exists() and path.read_text() != text:
            raise WorkFailed(
                f"'{self.folder}' holds a build of {path.read_text()}, not of {text}; remove the folder to start anew"
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
        """The whole entries of a level; a torn end is removed."""
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
        """Go on writing a level whose states file should hold `known_bytes` by now."""
        return Appender(self, level, known_bytes)

    def frontier(self, level: int, sizes: np.ndarray, skip: int) -> Iterator[bytes]:
        """The packed states of a level from the `skip`th on, read as they are asked for."""
        with self.states_path(level).open("rb") as file:
            file.seek(int(sizes[:skip].sum()))
            for size in sizes[skip:].tolist():
                yield file.read(size)

    def forget_states(self, level: int) -> None:
        self.states_path(level).unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.iterdir())


class Appender:
    """Writes the blocks of one level: first the states, then the entry that vouches for them."""

    def __init__(self, journal: Journal, level: int, known_bytes: int) -> None:
        states_path = journal.states_path(level + 1)
        states_path.touch()
        if states_path.stat().st_size < known_bytes:
            raise WorkFailed(
                f"'{states_path}' is shorter than its journal says, as after a power cut; "
                f"remove '{journal.folder}' and build anew"
            )
        os.truncate(states_path, known_bytes)
        # Not buffered: what a full disk refused would be written later, behind the back of the build that goes on
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
    """All of it: the system may take only a part at a time."""
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
