"""Reads and writes MDP files in BRIDGE's .npz layout.

The arrays are `transitions[S, A]` (-1 ends the episode, state 0 is the start), `rewards[S, A]`, `screens[N, …]` and
`screen_mapping[S]`, as `np.load` reads them. Stochastic MDPs have the CSR arrays instead of `transitions`. One more entry,
`sqirl`, is a JSON text with name, horizon, depth, stickiness and provenance. Entries are LZMA-compressed with a fixed date, so
equal MDPs give equal bytes. A file gets its name only when it is complete.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.files import write_atomically
from sqirl.runtime.memory import available_memory

FORMAT = 1
#: Memory that reading a file takes, as a multiple of the size of its arrays: some are copied to another type.
MEMORY_FACTOR = 2
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip entry can have
_OUTCOMES = {
    "indptr": "indptr",
    "next_states": "next_states",
    "probabilities": "probabilities",
    "outcome_rewards": "rewards",
}
_ENTRIES = (
    "transitions", "rewards", *_OUTCOMES, "draws", "start_states", "start_probabilities", "start_seeds", "screens",
    "screen_mapping", "sqirl",
)  # fmt: skip
_UNREADABLE = "is not a readable MDP file (.npz)"
_ARRAY_MAGIC = b"\x93NUMPY"
_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def save(mdp: TabularMDP, path: str | Path) -> None:
    """Write `mdp` to `path`. The file is written completely or not at all."""
    path = Path(path)
    arrays: dict[str, NDArray[Any]] = {"rewards": _smallest_float(mdp.rewards)}
    if mdp.transitions is not None:
        arrays["transitions"] = np.asfortranarray(
            mdp.transitions
        )  # one action after the other: a fifth smaller when compressed
    else:
        assert mdp.outcomes is not None
        arrays |= {key: getattr(mdp.outcomes, name) for key, name in _OUTCOMES.items()}
        arrays |= {} if mdp.outcomes.draws is None else {"draws": mdp.outcomes.draws}
    if mdp.start_states.tolist() != [0]:
        arrays |= {"start_states": mdp.start_states, "start_probabilities": mdp.start_probabilities}
    if mdp.start_seeds is not None:
        arrays["start_seeds"] = mdp.start_seeds
    if mdp.screen_mapping is not None:
        arrays["screen_mapping"] = mdp.screen_mapping.astype(np.int32)
    if mdp.screens is not None:
        arrays["screens"] = mdp.screens
    metadata = {
        "format": FORMAT,
        "name": mdp.name,
        "horizon": mdp.horizon,
        "depth": mdp.depth,
        "stickiness": mdp.stickiness,
        "provenance": dict(mdp.provenance),
    }
    arrays["sqirl"] = np.array(json.dumps(metadata, sort_keys=True))
    write_atomically(path, _zipped(arrays))


def _zipped(arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        for key in sorted(arrays):
            entry = io.BytesIO()
            np.save(entry, arrays[key], allow_pickle=False)
            info = zipfile.ZipInfo(f"{key}.npy", _EPOCH)
            info.compress_type = zipfile.ZIP_LZMA
            archive.writestr(info, entry.getvalue())
    return buffer.getvalue()


def load(path: str | Path) -> TabularMDP:
    """Read an MDP. Raises `InvalidMDP` for any problem with the file. Entries that an MDP does not have are not read."""
    path = Path(path)
    if not path.is_file():
        raise InvalidMDP(f"no file '{path}'")
    try:
        arrays = _read(path)
    except InvalidMDP as error:
        raise InvalidMDP(f"'{path}' {error}") from error
    except Exception as error:  # of zipfile, zlib, lzma or numpy: the file cannot be read
        reason = str(error) or type(error).__name__
        raise InvalidMDP(f"'{path}' {_UNREADABLE}: {reason.splitlines()[0]}") from error
    missing = {"rewards"} - arrays.keys() or (
        {"transitions"} - arrays.keys() if "indptr" not in arrays else set(_OUTCOMES) - arrays.keys()
    )
    if missing:
        raise InvalidMDP(
            f"'{path}' has no {', '.join(sorted(missing))}; it has {', '.join(sorted(arrays)) or 'nothing'}"
        )
    return _from_arrays(arrays, path)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file that an MDP may have. Their sizes are checked before memory is taken."""
    with path.open("rb") as file:
        if file.read(len(_ARRAY_MAGIC)) == _ARRAY_MAGIC:
            raise InvalidMDP("is a single array, not an .npz with transitions and rewards")
        if not zipfile.is_zipfile(file):
            raise InvalidMDP(f"{_UNREADABLE}: it is not a zip archive")
        with zipfile.ZipFile(file) as archive:
            entries = {key: archive.NameToInfo[f"{key}.npy"] for key in _ENTRIES if f"{key}.npy" in archive.NameToInfo}
            needed, free = MEMORY_FACTOR * sum(entry.file_size for entry in entries.values()), available_memory()
            if free is not None and needed > free:
                raise InvalidMDP(f"needs about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free")
            return {key: _read_array(archive, entry) for key, entry in entries.items()}


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """The array of an entry. Numpy's own reader takes the memory that a header asks for before it reads the data."""
    with archive.open(entry) as stream:
        reader = _HEADER_READERS.get(np.lib.format.read_magic(stream))
        if reader is None:
            raise InvalidMDP(f"{_UNREADABLE}: '{entry.filename}' is in a format of numpy that is not known")
        shape, is_fortran, dtype = reader(stream)
        if dtype.hasobject:
            raise InvalidMDP(f"{_UNREADABLE}: '{entry.filename}' holds Python objects, but an MDP is made of numbers")
        size = math.prod(shape) * dtype.itemsize
        if size != entry.file_size - stream.tell():
            raise InvalidMDP(f"{_UNREADABLE}: '{entry.filename}' is not as long as its header says")
        return np.frombuffer(stream.read(size), dtype).reshape(shape, order="F" if is_fortran else "C")


def _from_arrays(arrays: dict[str, NDArray[Any]], path: Path) -> TabularMDP:
    try:
        fields = _metadata(arrays, path)
        if ("start_states" in arrays) != ("start_probabilities" in arrays):
            raise InvalidMDP("start_states and start_probabilities belong together; give both or none")
        if "start_states" in arrays:
            fields |= {key: arrays[key] for key in ("start_states", "start_probabilities")}
        fields |= {key: arrays[key] for key in ("screens", "screen_mapping", "start_seeds") if key in arrays}
        if "indptr" in arrays:
            rows = [arrays[key] for key in _OUTCOMES]
            mdp = TabularMDP.stochastic(
                *rows, num_actions=int(arrays["rewards"].shape[1]), draws=arrays.get("draws"), **fields
            )
            replace(mdp, rewards=arrays["rewards"].astype(np.float64))  # checks them: they are means of the outcomes
            return mdp
        return TabularMDP.deterministic(arrays["transitions"], arrays["rewards"], **fields)
    except (InvalidMDP, ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidMDP(f"'{path}': {str(error).splitlines()[0]}") from error


_KINDS: dict[str, Any] = {
    "name": str,
    "horizon": int | None,
    "depth": int | None,
    "stickiness": float | int,
    "provenance": dict,
}


def _metadata(arrays: dict[str, NDArray[Any]], path: Path) -> dict[str, Any]:
    """The fields of the `sqirl` entry. A file without this entry is one of the paper's authors."""
    if "sqirl" not in arrays:
        return {"name": path.name.removesuffix(".npz")}
    metadata = json.loads(str(arrays["sqirl"]))
    if not isinstance(metadata, dict) or metadata.get("format", 0) > FORMAT:
        raise InvalidMDP(f"its format is not one that this version can read (at most {FORMAT}); install a newer sqirl")
    for key, kind in _KINDS.items():
        if key in metadata and (not isinstance(metadata[key], kind) or isinstance(metadata[key], bool)):
            raise InvalidMDP(f"its {key} is {metadata[key]!r}, which is not of the type {kind}")
    _check_facts(metadata.get("provenance", {}))
    return {key: metadata[key] for key in _KINDS if key in metadata}


def _check_facts(provenance: dict[str, Any]) -> None:
    """The facts of the provenance that answers are made of (`sqirl.mdp.scope`) are of the right types."""
    starts, held = provenance.get("starts"), provenance.get("held", [])
    known = {"draws": int, "complete": bool, "equally_likely": bool}
    if starts is not None and not (
        isinstance(starts, dict) and all(type(starts.get(key)) is kind for key, kind in known.items())
    ):
        raise InvalidMDP(
            f"its starts are {starts!r}, not the number of draws and whether they are complete and equally likely"
        )
    if not isinstance(held, list) or not all(isinstance(name, str) for name in held):
        raise InvalidMDP(f"its held attributes are {held!r}, not a list of names")


def _smallest_float(table: NDArray[np.float64]) -> NDArray[np.floating]:
    """The table (S, A) as float32 if that changes no value (the rewards of the games are float32), else unchanged."""
    short = table.astype(np.float32)
    return short if np.array_equal(short, table) else table
