"""The journal of a build on disk. Files are only appended to, so a build that is killed loses only the unfinished blocks.

Level d has one file, `rows_d`, with one block for each part of the level that was expanded: transitions and rewards, and the
keys and looks of the new states. The file of a last level of which only the rewards are known is `last_d`: a build with a
longer horizon does not take it, and expands the level again. A block is a header (a magic word, the length, a checksum),
numbers, and plain arrays. Nothing in a journal is executed when it is read. A block that is cut, damaged, or does not continue
the one before it ends its level: it is removed with all that follows in its file, and the build goes on from there.

States are not in the journal. They are played again from the starts (`sqirl.mdp.recover`), which also checks their keys.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import WorkFailed
from sqirl.runtime.files import naming_the_file, write_all, write_atomically
from sqirl.runtime.locks import try_to_lock

#: The version of the layout of a journal. Journals of other versions are refused.
FORMAT = 2
KEY_BYTES = 16
IDENTITY, STARTS, LOCK = "identity.json", "starts.json", "lock"

_MAGIC = b"sqirlrow"
_HEADER = struct.Struct("<8sQ16s")  # magic word, length of the rest, its checksum
_NUMBERS = struct.Struct("<6qd")  # first, known, n, A, m, bytes of a look, seconds


@dataclass(frozen=True, eq=False)
class Rows:
    """A finished block: n states with A actions were expanded, and m new states were discovered.

    :param first: the number of the first state of the block; the others follow it
    :param known: how many states were known before this block; the new ones have the next numbers
    :param transitions: numbers of the next states, -1 at the end of the game
    :param new_keys: 16 bytes for each new state
    :param new_looks: the looks of the new states, all of the same length
    :param seconds: processor time that the expansion took
    """

    first: int
    known: int
    transitions: NDArray[np.int32]  # (n, A)
    rewards: NDArray[np.float64]  # (n, A)
    new_keys: bytes
    new_looks: bytes
    seconds: float

    @property
    def num_new(self) -> int:
        return len(self.new_keys) // KEY_BYTES

    def has(self, shape: tuple[int, int] | None) -> bool:
        """Does the block have this number of actions, and looks of so many bytes?"""
        return shape is None or (
            self.transitions.shape[1] == shape[0] and len(self.new_looks) == self.num_new * shape[1]
        )

    def discoveries(self) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
        """(m,) the state and (m,) the action that first led to each new state; None if not every new state has one."""
        flat = self.transitions.ravel()
        places = np.flatnonzero(flat >= self.known)
        numbers, at = np.unique(flat[places], return_index=True)
        if not np.array_equal(numbers, np.arange(self.known, self.known + self.num_new)):
            return None
        parents, actions = np.divmod(places[at], self.transitions.shape[1])
        return (self.first + parents).astype(np.int32), actions.astype(np.int32)

    def to_bytes(self) -> bytes:
        """The block as it is in the file."""
        count, width = self.num_new, len(self.new_looks) // max(1, self.num_new)
        numbers = _NUMBERS.pack(self.first, self.known, *self.transitions.shape, count, width, self.seconds)
        parts = (numbers, self.transitions.astype("<i4").tobytes(), self.rewards.astype("<f8").tobytes())
        payload = b"".join([*parts, self.new_keys, self.new_looks])
        return _HEADER.pack(_MAGIC, len(payload), _checksum(payload)) + payload


@dataclass(frozen=True)
class Level:
    """A level of a build: `size` states with consecutive numbers."""

    number: int
    first_state: int
    size: int
    only_rewards: bool = False  # it is the last one, and where its actions lead is not known

    @property
    def file_name(self) -> str:
        return f"{'last' if self.only_rewards else 'rows'}_{self.number:04d}"

    def next(self, size: int) -> Level:
        return Level(self.number + 1, self.first_state + self.size, size)


class Journal:
    """The folder of one build.

    :param folder: where the files are; it is created if it does not exist
    :param identity: game, versions and seeds; a build with another identity is refused
    :param starts: the keys of the start states; a journal with other starts is refused
    :param shape: what every block has; see `read_blocks`
    """

    def __init__(self, folder: Path, identity: dict[str, Any], starts: list[bytes], shape: tuple[int, int]) -> None:
        self.folder, self.shape = folder, shape
        folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = lock_of(folder)  # the operating system releases the lock if the process dies
        wanted = {"journal": FORMAT, **identity}
        self._agree(
            IDENTITY, wanted, lambda found: f"'{folder}' holds {difference(known_format(folder, found), wanted)}"
        )
        self._agree(
            STARTS,
            [key.hex() for key in starts],
            lambda found: f"the game starts in other states than when the build in '{folder}' began",
        )

    def close(self) -> None:
        """Release the lock on the folder."""
        self._lock_file.close()

    def _agree(self, name: str, wanted: Any, refusal: Callable[[Any], str]) -> None:
        """Write a JSON file. If it is there and differs, raise `WorkFailed` with the text that `refusal` makes of its content."""
        path = self.folder / name
        if not path.exists():
            write_atomically(path, json.dumps(wanted, sort_keys=True).encode())
        elif (found := read_json(path)) != wanted:
            self.close()
            raise WorkFailed(f"{refusal(found)}; remove the folder to start again")

    def rows_path(self, level: Level) -> Path:
        return self.folder / level.file_name

    def read_rows(self, level: Level) -> Iterator[Rows]:
        """The blocks of a level, up to the first that is cut, damaged or out of place. That one and the rest are removed."""
        path = self.rows_path(level)
        if not path.exists():
            return
        good = 0
        with path.open("r+b") as file:
            for rows, end in read_blocks(file, level, self.shape):
                yield rows
                good = end
            if good < path.stat().st_size:
                file.truncate(good)

    def appender(self, level: Level) -> Appender:
        """Appends to a level whose blocks have been read."""
        return Appender(self.rows_path(level))


class Appender:
    """Writes blocks to a file. A block is on disk when `append` returns, unless the machine loses power."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Not buffered: after an error (a full disk) a buffer would be written later, while a resumed build uses the same file
        self._file = path.open("ab", buffering=0)

    def append(self, rows: Rows) -> None:
        with naming_the_file(self.path):
            write_all(self._file, rows.to_bytes())

    def close(self) -> None:
        with naming_the_file(self.path):
            os.fsync(self._file.fileno())
            self._file.close()


def read_blocks(file: BinaryIO, level: Level, shape: tuple[int, int] | None = None) -> Iterator[tuple[Rows, int]]:
    """The good blocks of a level from an open file, each with the position of its end.

    :param shape: the number of actions and the bytes of a look that every block must have; None takes any
    """
    first, known, end = level.first_state, level.first_state + level.size, level.first_state + level.size
    position = 0
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    while (rows := _read_block(file, size - position)) is not None:
        count = len(rows.transitions)
        in_place = (rows.first, rows.known) == (first, known) and first + count <= end
        if not in_place or not rows.has(shape) or rows.discoveries() is None:
            return
        first, known, position = first + count, known + rows.num_new, file.tell()
        yield rows, position


def _read_block(file: BinaryIO, left: int) -> Rows | None:
    """The next block; None if it is cut or damaged. The file has `left` more bytes, so no more than that is read."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, length, checksum = _HEADER.unpack(header)
    if magic != _MAGIC or not _NUMBERS.size <= length <= left - _HEADER.size:
        return None
    payload = file.read(length)
    return _parse(payload) if len(payload) == length and _checksum(payload) == checksum else None


def _parse(payload: bytes) -> Rows | None:
    """The block in a payload; None if its numbers do not fit its length."""
    first, known, n, actions, count, width, seconds = _NUMBERS.unpack_from(payload)
    if min(n, actions) < 1 or min(first, known, count, width) < 0 or not 0 <= seconds < math.inf:
        return None
    lengths = (_NUMBERS.size, 4 * n * actions, 8 * n * actions, KEY_BYTES * count, width * count)
    if sum(lengths) != len(payload):
        return None
    pieces = [payload[start:end] for start, end in itertools.pairwise(itertools.accumulate(lengths))]
    transitions = np.frombuffer(pieces[0], "<i4").reshape(n, actions)
    rewards = np.frombuffer(pieces[1], "<f8").reshape(n, actions)
    if transitions.min() < -1 or transitions.max() >= known + count:
        return None
    return Rows(first, known, transitions.astype(np.int32), rewards.astype(np.float64), pieces[2], pieces[3], seconds)


def _checksum(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=16).digest()


def lock_of(folder: Path) -> IO[str]:
    """The open lock file of a journal, locked until it is closed. Raises `WorkFailed` if another build has the lock."""
    file = (folder / LOCK).open("w")
    if not try_to_lock(file.fileno()):
        file.close()
        raise WorkFailed(f"another build is running in '{folder}'; wait until it is done, or stop it")
    return file


def remove_journal(folder: Path) -> None:
    """Delete a journal, unless another build is running in it. Its name is free at once, so a kill leaves no half of it."""
    removed = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)  # what a kill has left
    if not folder.exists():
        return
    try:
        with lock_of(folder):
            folder.rename(removed)
    except WorkFailed:
        return
    shutil.rmtree(removed, ignore_errors=True)


def read_json(path: Path) -> Any:
    """The content of a JSON file of a journal; None if it is damaged."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def known_format(where: Path, identity: Any) -> dict[str, Any]:
    """The identity of a journal. Raises `WorkFailed` if it is not one, or one of another format."""
    if not isinstance(identity, dict):
        raise WorkFailed(f"'{where}' is not the journal of a build, or it is damaged; remove it to start again")
    if identity.get("journal") != FORMAT:
        raise WorkFailed(
            f"'{where}' is a journal of another version of sqirl; finish it with that version, convert it with "
            "scripts/convert_journal.py if it is your own, or remove it to start again"
        )
    return identity


def difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """In which facts two identities differ, in words."""
    keys = [key for key in sorted(found.keys() | wanted.keys()) if found.get(key) != wanted.get(key)]
    facts = [f"{key} {_shown(found.get(key))}, not {_shown(wanted.get(key))}" for key in keys]
    return f"a build of {'; '.join(facts)}"


def _shown(value: Any) -> str:
    text = "unknown" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
