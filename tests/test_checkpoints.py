"""Checkpoints: round trips, damaged files, planted code, and the checkpoint before; what `write_atomically` leaves as it is."""

from __future__ import annotations

import base64
import json
import os
import pickle
import threading
import zipfile
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

import sqirl
from sqirl.algorithms.checkpoints import (
    has_checkpoint,
    read_checkpoint,
    remove_checkpoint,
    resume,
    write_checkpoint,
)
from sqirl.errors import SqirlError, WorkFailed
from sqirl.runtime.files import check_writable, write_atomically


class Planted:
    """Unpickling it runs a command."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.proof}",)


def state() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "weights": OrderedDict(a=th.arange(6.0).reshape(2, 3), b=th.tensor([1, 2], dtype=th.uint8)),
        "optimizer": {"state": {0: {"step": th.tensor(3.0)}}, "param_groups": [{"lr": 1e-4, "params": [0]}]},
        "arrays": [rng.integers(9, size=(2, 3), dtype=dtype) for dtype in (np.uint8, np.uint16, np.int64)],
        "empty": np.zeros((0, 4), bool), "scalar": np.array(2.5, np.float32), "read only": np.broadcast_to(1.0, (2, 2)),
        "generator": rng.bit_generator.state, "numpy": np.random.RandomState(1).get_state(),
        "infos": deque([{"r": np.float64(1.5), "l": 3}], maxlen=100), "none": None, "tuple": (1, "a", True),
    }  # fmt: skip


def same(a: Any, b: Any) -> bool:
    if isinstance(a, th.Tensor | np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", state())
    found = read_checkpoint(tmp_path / "c")
    assert same(state(), found) and found["infos"].maxlen == 100
    rng = np.random.default_rng(7)
    rng.bit_generator.state = found["generator"]
    found["arrays"][0][0, 0] = 1  # arrays can be written to
    for value in (np.array([object()]), Path("a"), {"x": {1, 2}}):
        with pytest.raises(TypeError, match="a checkpoint holds no"):
            write_checkpoint(tmp_path / "wrong", {"value": value})
    assert not (tmp_path / "wrong").exists()


def test_every_flipped_bit_is_noticed_and_the_checkpoint_before_is_used(tmp_path: Path) -> None:
    path, rng = tmp_path / "c", np.random.default_rng(0)
    for steps in (1, 2):
        write_checkpoint(path, {"steps": steps, "weights": th.arange(100)})
    whole = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.warns(UserWarning, match="goes on from the checkpoint before"):
            assert resume(path, lambda state: state["steps"]) == 1
    for length in (0, 10, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(WorkFailed, match=r"damaged|not a checkpoint"):
            read_checkpoint(path)
    path.write_bytes(whole)
    assert resume(path, lambda state: state["steps"]) == 2
    path.unlink()  # killed between the two
    assert has_checkpoint(path) and resume(path, lambda state: state["steps"]) == 1
    remove_checkpoint(path)
    assert not has_checkpoint(path) and not list(tmp_path.iterdir())
    with pytest.raises(WorkFailed, match=r"cannot be used .*; remove it to start the run again"):
        resume(path, lambda state: state)


@pytest.mark.parametrize("with_checksum", [False, True])
def test_a_planted_file_runs_nothing(with_checksum: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, proof = tmp_path / "c", tmp_path / "proof"
    if with_checksum:  # somebody who knows the format
        monkeypatch.setattr("sqirl.algorithms.checkpoints._plain", lambda value: value)
        write_checkpoint(path, {"steps": 1, "planted": Planted(proof)})
    else:
        th.save({"planted": Planted(proof)}, path)
    with pytest.raises(WorkFailed, match="not a checkpoint of sqirl"):
        read_checkpoint(path)
    path.write_bytes(pickle.dumps(Planted(proof)))
    with pytest.raises(WorkFailed, match="not a checkpoint of sqirl"):
        read_checkpoint(path)
    assert not proof.exists()


# What is there stays what it is -----------------------------------------------------------------------------------------


def test_a_link_goes_on_to_point_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "file", tmp_path / "link"
    link.symlink_to(file)
    for content in (b"first", b"second"):  # a link to nothing, then to a file
        check_writable(link)
        write_atomically(link, content)
        assert link.is_symlink() and file.read_bytes() == content


def test_a_fifo_and_a_device_are_written_to(tmp_path: Path) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    check_writable(fifo)
    write_atomically(fifo, b"through")
    reader.join(10)
    assert read == [b"through"] and fifo.is_fifo()
    write_atomically(Path("/dev/null"), b"nowhere")
    assert Path("/dev/null").is_char_device()


def test_new_files_have_the_permissions_of_the_process_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"")
        (tmp_path / "old").touch(0o600)
        write_atomically(tmp_path / "old", b"")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "old")] == [0o640, 0o600]


def test_a_model_of_something_else_is_refused_before_it_is_unpickled(tmp_path: Path) -> None:
    proof, path = tmp_path / "proof", tmp_path / "m.zip"
    planted = base64.b64encode(pickle.dumps(Planted(proof))).decode()
    for module in ("os", "stable_baselines3.ppo.policies"):
        data = {"policy_class": {":serialized:": planted, "__module__": module}, "iteration": 1, "k": 1, "m": 1}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data", json.dumps(data))
        for made in (sqirl.SQIRL, sqirl.GORP):
            with pytest.raises(SqirlError, match=f"holds no model of {made.__name__}"):
                made.load(path)
    path.write_bytes(b"no zip")
    with pytest.raises(SqirlError, match="is not a model"):
        sqirl.SQIRL.load(path)
    assert not proof.exists()
