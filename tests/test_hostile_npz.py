"""Files that are no MDPs, or that are damaged or made to do harm: one line that names the file, and nothing is run or filled."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqirl.errors import InvalidMDP
from sqirl.mdp import npz
from sqirl.mdp.store import open_mdp, user_folder
from sqirl.mdp.tabular import TabularMDP

TABLE: dict[str, Any] = {"transitions": np.array([[0, 1], [1, -1]]), "rewards": np.array([[0.0, 0.0], [0.0, 1.0]])}
RANDOM: dict[str, Any] = {
    "indptr": np.array([0, 2, 3]), "next_states": np.array([0, -1, 0]), "probabilities": np.array([0.5, 0.5, 1.0]),
    "outcome_rewards": np.array([1.0, 0.0, 0.0]), "rewards": np.array([[0.5, 0.0]]),
}  # fmt: skip
STARTS = {"start_states": np.array([0, 1]), "start_probabilities": np.array([0.5, 0.5])}
NAN, BIG = float("nan"), 2**32

#: array of a table -> values that it must not have
OF_A_TABLE: dict[str, list[Any]] = {
    "transitions": [
        [[0.0, 1.0], [1.0, -1.0]], [[0.7, 1], [1, -1]], [[NAN, 1], [1, -1]], [["0", "1"], ["1", "1"]], [0, 1, 1, -1], [[0, 1]],
        [[[0, 1], [1, -1]]], [[0, -2], [1, -1]], [[0, 2], [1, -1]], [[0, BIG], [1, -1]], [[0, 2**63], [1, 1]], [[True, True]] * 2,
        [[1j, 0], [0, 0]], np.zeros((2, 2), "M8[s]"), np.zeros((0, 2), int),
    ],
    "rewards": [
        [[NAN, 0], [0, 1]], [[np.inf, 0], [0, 1]], [[-np.inf, 0], [0, 1]], [["a", "b"], ["c", "d"]], [[1j, 0], [0, 0]],
        [0, 0, 0, 1], [[0, 0]], [[0], [0]], [[[0, 0], [0, 1]]], np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 2), "m8[s]"),
        np.zeros((2, 2), [("a", "f8")]), np.float64(3),
    ],
    "screen_mapping": [[NAN, 0], [0.0, 1.0], [-1, 0], [0], [0, 1, 2], ["a", "b"], [[0, 1]]],
    "start_seeds": [[0.5], ["a"], [1, 2, 3], [[1]]],
    "sqirl": [
        "{", "[]", "3", "null", '{"format": 99}', '{"format": "x"}', '{"horizon": "ten"}', '{"horizon": 0}', '{"horizon": -1}',
        '{"horizon": 1.5}', '{"horizon": true}', '{"depth": 0}', '{"depth": -3}', '{"depth": "x"}', '{"stickiness": 1}',
        '{"stickiness": -0.1}', '{"stickiness": NaN}', '{"stickiness": Infinity}', '{"stickiness": "x"}', '{"name": 5}',
        '{"name": null}', '{"provenance": 3}', '{"provenance": []}', '{"provenance": {"starts": 5}}',
        '{"provenance": {"starts": {}}}', '{"provenance": {"starts": {"draws": "x", "complete": true, "equally_likely": true}}}',
        '{"provenance": {"held": 5}}', '{"provenance": {"held": [5]}}', "[" * 100_000, f'{{"horizon": {"9" * 5000}}}',
        b"\xff\xfe", 7, ["{}", "{}"],
    ],
}  # fmt: skip
OF_STARTS: dict[str, list[Any]] = {
    "start_states": [[0, BIG], [BIG, 1], [-1, 0], [0, 2], [0, 0], [0.5, 1], [NAN, 1], ["a", "b"], [[0, 1]], [0], []],
    "start_probabilities": [[NAN, 1], [0.5, 0.4], [1.5, -0.5], [1, 0], [np.inf, 0.5], ["a", "b"], [[0.5, 0.5]], [1.0]],
}
OF_RANDOM_OUTCOMES: dict[str, list[Any]] = {
    "indptr": [
        [0, 2],
        [1, 2, 3],
        [0, 3, 2],
        [0, 0, 3],
        [0, 2, 9],
        [0.0, 2.5, 3.0],
        [0, -1, 3],
        ["a", "b", "c"],
        [[0, 2, 3]],
    ],
    "next_states": [[0, -1], [0, -2, 0], [0, 1, 0], [0, 0.7, 0], [0, BIG, 0], ["a", "b", "c"]],
    "probabilities": [
        [0.5, 0.4, 1],
        [1.5, -0.5, 1],
        [NAN, 1, 1],
        [np.inf, 0, 1],
        [0.5, 0.5],
        ["a", "b", "c"],
        [0, 1, 1],
    ],
    "outcome_rewards": [[NAN, 0, 0], [np.inf, 0, 0], [1, 0], ["a", "b", "c"], [3, 0, 0]],
    "rewards": [[[0.4, 0]], [[0.5, 1]], [[0.5]], [0.5, 0], [[NAN, 0]], [[0.5, 0], [0, 0]]],
    "draws": [[0, 1], [-1, 1], [0.7, 1], [1], ["a", "b"]],
}
CASES = [
    pytest.param(base, key, value, id=f"{name}-{key}-{number}")
    for name, base, wrong in (
        ("table", TABLE, OF_A_TABLE),
        ("starts", {**TABLE, **STARTS}, OF_STARTS),
        ("random", RANDOM, OF_RANDOM_OUTCOMES),
    )
    for key, values in wrong.items()
    for number, value in enumerate(values)
]


def refused(path: Path) -> str:
    """The message of the refusal, which is one line with the name of the file."""
    with pytest.raises(InvalidMDP) as caught:
        TabularMDP.load(path)
    message = str(caught.value)
    assert path.name in message and "\n" not in message and len(message) < 1000, message
    return message


@pytest.mark.parametrize(("base", "key", "value"), CASES)
def test_arrays_that_contradict_an_mdp(tmp_path: Path, base: dict[str, Any], key: str, value: Any) -> None:
    path = tmp_path / "m.npz"
    np.savez(path, **base)
    assert TabularMDP.load(path).num_states == len(base["rewards"]), "the others are good"
    np.savez(path, **{**base, key: np.array(value)})
    refused(path)


def test_there_are_many_cases() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize("left_out", [*RANDOM, *TABLE, *STARTS])
def test_an_array_that_is_missing(tmp_path: Path, left_out: str) -> None:
    base = RANDOM if left_out in RANDOM and left_out != "rewards" else {**TABLE, **STARTS}
    np.savez(tmp_path / "m.npz", **{key: value for key, value in base.items() if key != left_out})
    assert left_out in refused(tmp_path / "m.npz") or "transitions" in refused(tmp_path / "m.npz")


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.where,)


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    content = text.encode() + b" " * (118 - len(text)) + b"\n"
    return b"\x93NUMPY" + version + len(content).to_bytes(2, "little") + content


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def good_bytes(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{**TABLE, **arrays})
    return buffer.getvalue()


def with_entry(name: str, content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(good_bytes())) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    return zipped({**entries, name: content})


CONTAINERS: dict[str, Callable[[Path], bytes]] = {
    "empty": lambda _: b"",
    "text": lambda _: b"these are only words\n",
    "zeros": lambda _: bytes(10_000),
    "picture": lambda _: b"\x89PNG\r\n\x1a\n" + bytes(100),
    "gzip": lambda _: b"\x1f\x8b\x08" + bytes(100),
    "json": lambda _: json.dumps({"transitions": [[0]]}).encode(),
    "a pickle": lambda planted: pickle.dumps(Planted(planted)),
    "a single array": lambda _: header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }") + bytes(8),
    "an array of pickles": lambda planted: good_bytes(rewards=np.array([[Planted(planted)] * 2] * 2, object)),
    "an empty archive": lambda _: zipped({}),
    "an archive of texts": lambda _: zipped({"readme.txt": b"hello"}),
    "text for an array": lambda _: with_entry("rewards.npy", b"hello"),
    "nothing for an array": lambda _: with_entry("rewards.npy", b""),
    "a huge shape": lambda _: with_entry(
        "rewards.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }")
    ),
    "a negative shape": lambda _: with_entry(
        "rewards.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -2), }") + bytes(32)
    ),
    "code in a header": lambda _: with_entry("rewards.npy", header("__import__('os').abort()")),
    "half a header": lambda _: with_entry("rewards.npy", header("{'descr': '<f8'}")),
    "no such type": lambda _: with_entry(
        "rewards.npy", header("{'descr': 'zz', 'fortran_order': False, 'shape': (2, 2), }")
    ),
    "no bytes for an item": lambda _: with_entry(
        "rewards.npy", header("{'descr': '<U0', 'fortran_order': False, 'shape': (2, 2), }")
    ),
    "a newer format": lambda _: with_entry("rewards.npy", header("{}", b"\x09\x00")),
    "too few bytes": lambda _: with_entry(
        "rewards.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }") + bytes(31)
    ),
    "too many bytes": lambda _: with_entry(
        "rewards.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }") + bytes(33)
    ),
    "a password": lambda _: re.sub(rb"(PK\x01\x02.{4}).", b"\\1\x01", good_bytes(), flags=re.DOTALL),
    "an unknown compression": lambda _: good_bytes().replace(b"\x00\x00\x00\x00\x00\x00!\x00", b"\x00\x00c\x00\x00\x00!\x00"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_files_that_are_no_mdp(tmp_path: Path, name: str) -> None:
    path, planted = tmp_path / "m.npz", tmp_path / "planted"
    path.write_bytes(CONTAINERS[name](planted))
    message = refused(path)
    assert not planted.exists(), "code of the file was run"
    assert "pickle" not in message and "unsafe" not in message, "no advice to read the file in another way"


def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    whole, rng = good_bytes(sqirl=np.array("{}")), random.Random(0)
    for length in sorted(rng.sample(range(len(whole)), 40)):
        (tmp_path / "m.npz").write_bytes(whole[:length])
        refused(tmp_path / "m.npz")


def test_a_flipped_bit_is_noticed_or_changes_nothing(tmp_path: Path, count) -> None:
    mdp, rng, noticed = TabularMDP.deterministic(**TABLE, horizon=5, name="m"), random.Random(0), 0
    path = tmp_path / "m.npz"
    mdp.save(path)
    whole = path.read_bytes()
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = TabularMDP.load(path)
        except InvalidMDP as error:
            assert "\n" not in str(error)
            noticed += 1
            continue
        assert np.array_equal(found.transitions, mdp.transitions) and np.array_equal(found.rewards, mdp.rewards)
    count("flipped bits of .npz files that were noticed or changed no number", 200)
    assert noticed > 100


def test_an_entry_that_is_not_needed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    path.write_bytes(with_entry("states.npy", bytes(60_000_000)))
    tracemalloc.start()
    mdp = TabularMDP.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert mdp.num_states == 2 and path.stat().st_size < 100_000 and peak < 3_000_000


def test_a_file_that_does_not_fit_into_memory_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.npz"
    path.write_bytes(with_entry("screens.npy", bytes(30_000_000)))
    monkeypatch.setattr(npz, "available_memory", lambda: 40_000_000)
    tracemalloc.start()
    assert "needs about 0.1 GB of memory, and 0.0 GB are free" in refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_a_bad_file_in_the_store_is_left_out() -> None:
    env = "BRIDGE/MiniGrid-Empty-5x5-v0"
    folder = user_folder() / "mdps"
    folder.mkdir(parents=True)
    (folder / "MiniGrid-Empty-5x5.npz").write_text("these are only words\n")
    with pytest.warns(UserWarning, match=r"left out: .*MiniGrid-Empty-5x5.npz' is not a readable MDP file"):
        assert open_mdp(env).num_states == 32


@pytest.mark.parametrize("command", ["analyze", "diagnose", "build"])
def test_commands_end_with_one_line(sqirl: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "words.npz").write_text("these are only words\n")
    code, out, err = sqirl(command, "words.npz")
    assert code == 2 and not out and err.count("\n") == 1 and "words.npz" in err, err


@pytest.mark.parametrize("next_state", [0.7, NAN, float("inf"), -1, "a", None, 2**40])
def test_dynamics_with_a_state_that_is_none(next_state: Any) -> None:
    with pytest.raises(InvalidMDP, match="state"):
        TabularMDP.from_dynamics({0: {0: [(1.0, next_state, 0.0, False)]}})
    whole = TabularMDP.from_dynamics({0: {0: [(1.0, 0.0, 0.0, False)], 1: [(1.0, np.int8(0), 1.0, True)]}})
    assert whole.outcomes.next_states.tolist() == [0, -1]
