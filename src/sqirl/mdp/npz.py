"""Reads and writes MDP files in BRIDGE's .npz layout.

The arrays are `transitions[S, A]` (-1 ends the episode, state 0 is the start), `rewards[S, A]`, `screens[N, …]` and
`screen_mapping[S]`, as `np.load` reads them. Stochastic MDPs have the CSR arrays instead of `transitions`. One more entry,
`sqirl`, is a JSON text with name, horizon, depth, stickiness and provenance. Entries are LZMA-compressed with a fixed date, so
equal MDPs give equal bytes. A file gets its name only when it is complete.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.files import write_atomically

FORMAT = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip entry can have
_OUTCOMES = {
    "indptr": "indptr",
    "next_states": "next_states",
    "probabilities": "probabilities",
    "outcome_rewards": "rewards",
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
        arrays |= {key: getattr(mdp.outcomes, name) for key, name in _OUTCOMES.items()}
    if mdp.start_states.tolist() != [0]:
        arrays |= {"start_states": mdp.start_states, "start_probabilities": mdp.start_probabilities}
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
    """Read an MDP. Raises `InvalidMDP` for any problem with the file."""
    path = Path(path)
    if not path.is_file():
        raise InvalidMDP(f"no file '{path}'")
    try:
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise InvalidMDP(f"'{path}' is a single array, not an .npz with transitions and rewards")
        with opened as archive:
            arrays = {key: archive[key] for key in archive.files if key not in ("states", "state_lengths")}
    except InvalidMDP:
        raise
    except Exception as error:  # of zipfile, zlib, lzma or numpy: the file cannot be read
        reason = str(error) or type(error).__name__
        raise InvalidMDP(f"'{path}' is not a readable MDP file (.npz): {reason.splitlines()[0]}") from error
    missing = {"rewards"} - arrays.keys() or (
        {"transitions"} - arrays.keys() if "indptr" not in arrays else set(_OUTCOMES) - arrays.keys()
    )
    if missing:
        raise InvalidMDP(
            f"'{path}' has no {', '.join(sorted(missing))}; it has {', '.join(sorted(arrays)) or 'nothing'}"
        )
    return _from_arrays(arrays, path)


def _from_arrays(arrays: dict[str, NDArray[Any]], path: Path) -> TabularMDP:
    try:
        fields = _metadata(arrays, path)
        if "start_states" in arrays and "start_probabilities" in arrays:
            fields["start_states"] = arrays["start_states"].astype(np.int32, casting="same_kind")
            fields["start_probabilities"] = arrays["start_probabilities"].astype(float, casting="same_kind")
        fields |= {key: arrays[key] for key in ("screens", "screen_mapping") if key in arrays}
        if "indptr" in arrays:
            rows = [arrays[key] for key in _OUTCOMES]
            return TabularMDP.stochastic(*rows, num_actions=int(arrays["rewards"].shape[1]), **fields)
        return TabularMDP.deterministic(arrays["transitions"], arrays["rewards"], **fields)
    except (InvalidMDP, ValueError, TypeError, IndexError, AttributeError) as error:
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
    return {key: metadata[key] for key in _KINDS if key in metadata}


def _smallest_float(table: NDArray[np.float64]) -> NDArray[np.floating]:
    """The table (S, A) as float32 if that changes no value (the rewards of the games are float32), else unchanged."""
    short = table.astype(np.float32)
    return short if np.array_equal(short, table) else table
