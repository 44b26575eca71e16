"""MDP files: BRIDGE's .npz layout, read and written.

`transitions[S, A]` (-1 ends the episode, state 0 is the start), `rewards[S, A]`, `screens[N, …]`, `screen_mapping[S]`, as
`np.load` reads them; stochastic MDPs carry the CSR arrays instead of `transitions`. One more entry, `sqirl`, is a JSON
text with name, horizon, depth, stickiness and provenance. Entries are LZMA-compressed with a fixed date, so that equal
MDPs make equal bytes, and a file appears under its name only when it is complete.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

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
    """Write `mdp` to `path`; either the whole file is there afterwards or none."""
    path = Path(path)
    arrays: dict[str, np.ndarray] = {"rewards": _smallest_float(mdp.rewards)}
    if mdp.transitions is not None:
        arrays["transitions"] = np.asfortranarray(mdp.transitions)  # by action: a fifth smaller once compressed
    else:
        arrays |= {key: getattr(mdp.outcomes, name) for key, name in _OUTCOMES.items()}
    if mdp.start_states.tolist() != [0]:
        arrays |= {"start_states": mdp.start_states, "start_probabilities": mdp.start_probabilities}
    if mdp.screen_mapping is not None:
        arrays["screen_mapping"] = mdp.screen_mapping.astype(np.int32)
    if mdp.screens is not None:
        arrays["screens"] = mdp.screens
    facts = {
        "format": FORMAT,
        "name": mdp.name,
        "horizon": mdp.horizon,
        "depth": mdp.depth,
        "stickiness": mdp.stickiness,
        "provenance": dict(mdp.provenance),
    }
    arrays["sqirl"] = np.array(json.dumps(facts, sort_keys=True))
    write_atomically(path, _zipped(arrays))


def _zipped(arrays: dict[str, np.ndarray]) -> bytes:
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
    """Read an MDP; whatever is wrong with the file is one `InvalidMDP`."""
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
    except Exception as error:  # zipfile, zlib, lzma, numpy: all of them mean the same to the reader
        reason = str(error) or type(error).__name__
        raise InvalidMDP(f"'{path}' is not a readable MDP file (.npz): {reason.splitlines()[0]}") from error
    missing = {"rewards"} - arrays.keys() or (
        {"transitions"} - arrays.keys() if "indptr" not in arrays else set(_OUTCOMES) - arrays.keys()
    )
    if missing:
        raise InvalidMDP(
            f"'{path}' lacks {', '.join(sorted(missing))}; it holds {', '.join(sorted(arrays)) or 'nothing'}"
        )
    return _from_arrays(arrays, path)


def _from_arrays(arrays: dict[str, np.ndarray], path: Path) -> TabularMDP:
    try:
        fields = _facts(arrays, path)
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


def _facts(arrays: dict[str, np.ndarray], path: Path) -> dict[str, Any]:
    """The fields that the `sqirl` entry holds; a file without it is the authors'."""
    if "sqirl" not in arrays:
        return {"name": path.name.removesuffix(".npz")}
    facts = json.loads(str(arrays["sqirl"]))
    if not isinstance(facts, dict) or facts.get("format", 0) > FORMAT:
        raise InvalidMDP(f"its format is not one that this version reads ({FORMAT}); a newer sqirl may")
    for key, kind in _KINDS.items():
        if key in facts and (not isinstance(facts[key], kind) or isinstance(facts[key], bool)):
            raise InvalidMDP(f"its {key} is {facts[key]!r}, which makes no sense")
    return {key: facts[key] for key in _KINDS if key in facts}


def _smallest_float(table: np.ndarray) -> np.ndarray:
    """float32 where that loses nothing (the games' rewards are float32), else the table as it is."""
    short = table.astype(np.float32)
    return short if np.array_equal(short, table) else table
