"""Convert the journal of an unfinished build of sqirl 0.2 (format 1, pickles) to the format of today.

    python scripts/convert_journal.py ID OLD_FOLDER NEW_FOLDER

Only for journals that you made yourself. The pickles are read by an unpickler that knows numpy arrays and the one class that is
in them, and nothing else. `sqirl build ID --from NEW_FOLDER` then continues the build. The old folder is not changed.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.mdp.enumeration import Enumeration, Limits, journal_identity
from sqirl.mdp.journal import KEY_BYTES, Level, Rows

_HEADER = struct.Struct("<QI")  # length, checksum


class OldRows:
    """A block of format 1: transitions, rewards, new_keys, new_looks."""

    transitions: Any
    rewards: Any
    new_keys: bytes
    new_looks: bytes


_ARRAYS = {"_frombuffer", "_reconstruct", "ndarray", "dtype"}
_MODULES = {"numpy", "numpy._core.numeric", "numpy._core.multiarray", "numpy.core.numeric", "numpy.core.multiarray"}


class _Restricted(pickle.Unpickler):
    """Knows arrays and blocks, and refuses the rest."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("sqirl.mdp.journal", "Rows"):
            return OldRows
        if module in _MODULES and name in _ARRAYS:
            return super().find_class(module, name)
        raise SqirlError(f"the journal contains {module}.{name}, which no journal of sqirl does; it is not read")


def old_blocks(path: Path) -> Iterator[OldRows]:
    """The complete blocks of a file."""
    with path.open("rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload) != checksum:
                return
            block = _Restricted(io.BytesIO(payload)).load()
            if not isinstance(block, OldRows):
                raise SqirlError(f"'{path}' contains a {type(block).__name__}; it is not a journal of sqirl 0.2")
            yield block


def convert(env_id: str, old: Path, new: Path) -> int:
    """Write the journal of format 2, and return the number of states that are expanded in it."""
    description = describe(env_id)
    identity = json.loads((old / "identity.json").read_bytes())
    wanted = journal_identity(description, description.make_game(), identity.get("starts"))
    versions = {
        name: wanted.pop(name) for name in ("env", "sqirl")
    }  # the keys of the states show whether sqirl plays as before
    if {name: value for name, value in identity.items() if name not in versions} != wanted:
        raise SqirlError(f"'{old}' is a build of {identity}, but this machine has {wanted}; they must agree")
    if any(new.glob("rows_*")):
        raise SqirlError(f"'{new}' holds a journal already; name a new folder")
    build = Enumeration(description, new, Limits(1, 1, None), starts=identity.get("starts"))
    level, expanded, known = Level(0, 0, len(build.keys)), 0, len(build.keys)
    while level.size and (path := old / f"rows_{level.number:04d}").is_file():
        appender = build.journal.appender(level)
        for block in old_blocks(path):
            numbers = np.asarray(block.transitions).astype(np.int32)
            rewards = np.asarray(block.rewards, np.float64)
            appender.append(Rows(expanded, known, numbers, rewards, block.new_keys, block.new_looks, 0.0))
            expanded, known = expanded + len(numbers), known + len(block.new_keys) // KEY_BYTES
        appender.close()
        if expanded < level.first_state + level.size:
            break
        level = level.next(known - expanded)
    build.journal.close()
    return expanded


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("env_id")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    try:
        print(f"{convert(options.env_id, options.old, options.new):,} expanded states -> {options.new}")
    except SqirlError as error:
        sys.exit(f"convert_journal: {error}")
