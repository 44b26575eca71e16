"""Limits of the machine: homes that cannot be written, full disks, little memory, damaged checkpoints, kills at any moment."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch as th

from kills import ended_at_random_moments
from sqirl.algorithms.checkpoints import has_checkpoint, read_checkpoint, write_checkpoint
from sqirl.cli.main import run
from sqirl.runs import run as run_module
from sqirl.runs.store import RecordStore
from test_checkpoints import Planted
from test_hostile_records import CONFIG, WHOLE
from told import wrong

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
DOOR = "BRIDGE/MiniGrid-DoorKey-5x5-v0"
#: Runs of a second or two, of every kind of checkpoint.
RUNS = {
    "gorp": ["gorp", EMPTY, "-m", "1", "--timesteps", "4000", "--keep-going"],
    "sqirl": ["sqirl", EMPTY, "-m", "4", "--timesteps", "1500", "--keep-going"],
}


# Homes ------------------------------------------------------------------------------------------------------------------


WRITING = {
    "train": ["train", "gorp", EMPTY, "--timesteps", "300", "-m", "1"],
    "tune": ["tune", EMPTY, "--algorithm", "gorp", "--seeds", "1", "-j", "1"],
    "sweep": ["sweep", "smoke", "--no-preview", "-j", "1"],
    "build": ["build", DOOR, "--horizon", "3"],
}
HOMES = ["a file", "below a file", "/proc/nothing", "/dev/null", "/sys/kernel", "read-only"]


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("home", HOMES)
def test_a_home_that_cannot_be_written(
    sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, command: str, home: str
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    special = {"a file": file, "below a file": file / "home"}
    path = request.getfixturevalue("read_only") if home == "read-only" else special.get(home, Path(home))
    monkeypatch.setenv("SQIRL_HOME", str(path))
    wrong(sqirl(*WRITING[command]), str(path)[:100])
    assert file.read_text() == "mine" and not list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize("command", [["envs"], ["sweep", "smoke", "--dry-run", "--no-preview"], ["analyze", EMPTY]])
def test_what_only_reads_does_not_mind(sqirl, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("SQIRL_HOME", "/dev/null")
    code, out, err = sqirl(*command)
    assert (code, err) == (0, "") and out


# Full disks -------------------------------------------------------------------------------------------------------------


def fill(disk: Path, *, leave: int) -> Path:
    filler, free = disk / "filler", os.statvfs(disk)
    filler.write_bytes(bytes(free.f_bavail * free.f_frsize - leave))
    return filler


def test_a_full_disk_during_a_run(sqirl, tmp_path: Path, small_disk: Path) -> None:
    """A checkpoint that finds no room is told, and the run goes on; without room for its record the run has failed.

    Nothing is half-written, and the same command goes on when there is room.
    """
    filler, folder = fill(small_disk, leave=0), small_disk / "runs"
    code, out, err = sqirl("train", *RUNS["gorp"], "--checkpoint-every", "0", "-o", str(folder))
    assert code == 1 and not out and "Traceback" not in err
    assert ".checkpoint' cannot be written (No space left on device); the run goes on\n" in err
    last = err.splitlines()[-1]
    assert last.startswith("sqirl: ") and f"{folder}/" in last and "No space left on device" in last
    assert not folder.exists() or not [path for path in folder.rglob("*") if path.suffix in (".part", ".json", ".lock")]
    filler.unlink()
    assert sqirl("train", *RUNS["gorp"], "--checkpoint-every", "0", "-o", str(folder))[0] == 0
    assert sqirl("train", *RUNS["gorp"], "-o", "here")[0] == 0
    assert content(folder) == content(tmp_path / "here")


def content(folder: Path) -> dict[str, object]:
    """The records of a folder, without the seconds that they took."""
    records = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {name: {**record, "seconds": None} for name, record in records.items()}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_of_file_sizes_names_the_file(tmp_path: Path) -> None:
    with files_of_at_most(64), pytest.raises(OSError, match=rf"File too large: '{tmp_path}/{CONFIG.digest}\.json'"):
        RecordStore(tmp_path).put(WHOLE)
    path = tmp_path / "c.checkpoint"
    with files_of_at_most(20_000), pytest.raises(OSError, match=rf"File too large: '{path}'"):
        write_checkpoint(path, {"array": np.zeros(50_000)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [28, 122, 27, 5, 30])  # full, quota, too large, input/output error, read-only
def test_a_disk_that_fails_while_a_checkpoint_is_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "c"
    write_checkpoint(path, {"steps": 1})

    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=rf"{os.strerror(number)}: '{path}'"):
        write_checkpoint(path, {"steps": 2})
    assert has_checkpoint(path) and [read_checkpoint(each) for each in tmp_path.iterdir()] == [{"steps": 1}]


# Memory -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["", "Unable to allocate 745. GiB for an array\nwith two lines"])
def test_memory_that_is_not_there_is_one_line(sqirl, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError(words)

    monkeypatch.setattr("sqirl.analysis.analyze_env.open_mdp", refuse)
    wrong(sqirl("analyze", DOOR, "--horizon", "3"), "memory", 1)


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [400, 600, 1000, 1500, 2500])
@pytest.mark.parametrize("command", ["analyze", "train", "report"])
def test_a_limit_of_memory(tmp_path: Path, command: str, megabytes: int) -> None:
    """Done, or one line; whatever is written is whole."""
    call = {"analyze": ["analyze", EMPTY], "train": ["train", *RUNS["gorp"]], "report": ["report", "--no-pictures"]}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "sqirl.cli.main", *call[command]], cwd=tmp_path, capture_output=True,
        text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20)),
    )  # fmt: skip
    assert done.returncode in (0, 1, 2) and not list(tmp_path.rglob("*.part"))
    assert "Traceback" not in done.stderr, done.stderr
    assert not done.returncode or "sqirl: " in done.stderr.splitlines()[-1], done.stderr


# Checkpoints of runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, dict[str, object]]]:
    """For the name of a run: a folder with its checkpoints, stopped in the middle, and the record that it has otherwise."""

    @cache
    def of(name: str) -> tuple[Path, dict[str, object]]:
        folder = tmp_path_factory.mktemp(name)
        run_command("train", *RUNS[name], "-o", str(folder / "whole"))
        with pytest.MonkeyPatch.context() as patch:
            save, saved = run_module.Run.save_checkpoint, []

            def save_and_stop(self: run_module.Run) -> None:
                save(self)
                saved.append(1)
                if len(saved) == 3:
                    raise KeyboardInterrupt

            patch.setattr(run_module.Run, "save_checkpoint", save_and_stop)
            patch.setattr(run_module, "CHECKPOINT_SHARE", 1e9)  # they come as often as they can
            run_command("train", *RUNS[name], "--checkpoint-every", "0", "-o", str(folder / "stopped"))
        return folder / "stopped", content(folder / "whole")

    return of


def run_command(*arguments: str) -> None:
    with pytest.raises(SystemExit):
        run(list(arguments))


def flipped(data: bytes, place: float) -> bytes:
    at = min(int(len(data) * place), len(data) - 1)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def planted(data: bytes) -> bytes:
    return pickle.dumps(Planted(Path("proof")))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    **{
        f"a bit at {place}": lambda data, place=place: flipped(data, place) for place in (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)
    },
    "half": lambda data: data[: len(data) // 2],
    "one byte less": lambda data: data[:-1],
    "one byte more": lambda data: data + b"x",
    "nothing": lambda data: b"",
    "text": lambda data: b"these are words",
    "zeros": lambda data: bytes(len(data)),
    "planted": planted,
    "planted before the checksum": lambda data: planted(data) + data[-60:],
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *[("gorp", damage) for damage in DAMAGES],
        *[pytest.param("sqirl", damage, marks=pytest.mark.slow) for damage in DAMAGES],
    ],
)
def test_a_damaged_checkpoint_costs_the_time_since_the_one_before(
    sqirl, tmp_path: Path, stopped, name: str, damage: str
) -> None:
    folder, (found, expected) = tmp_path / "runs", stopped(name)
    shutil.copytree(found, folder)
    [last] = folder.glob("*.checkpoint")
    last.write_bytes(DAMAGES[damage](last.read_bytes()))
    code, _, err = sqirl("train", *RUNS[name], "-o", "runs")
    assert code == 0 and "the run goes on from the checkpoint before" in err and "Traceback" not in err
    assert content(folder) == expected and not list(folder.glob("*.checkpoint*"))
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("damage", ["half", "nothing", "text", "planted", "a bit at 0.5"])
def test_two_damaged_checkpoints_are_one_line(sqirl, tmp_path: Path, stopped, damage: str) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(stopped("gorp")[0], folder)
    before = {path: DAMAGES[damage](path.read_bytes()) for path in folder.glob("*.checkpoint*")}
    for path, data in before.items():
        path.write_bytes(data)
    code, out, err = sqirl("train", *RUNS["gorp"], "-o", "runs")
    assert code == 1 and not out and "Traceback" not in err and "proof" not in os.listdir(tmp_path)
    assert err.splitlines()[-1].endswith("remove it to start the run again from its first step")
    assert {path: path.read_bytes() for path in folder.glob("*.checkpoint*")} == before


def test_a_checkpoint_of_another_run_does_not_fit(sqirl, tmp_path: Path, stopped) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(stopped("gorp")[0], folder)
    for path in folder.glob("*.checkpoint*"):
        write_checkpoint(path.with_name("other"), {"curve": [], "seconds": 0.0, "model": {"weights": [1.0]}})
        (folder / "other").rename(path)
    code, _, err = sqirl("train", *RUNS["gorp"], "-o", "runs")
    assert code == 1 and "does not fit this run" in err and "Traceback" not in err


def test_torch_alone_is_no_checkpoint(sqirl, tmp_path: Path, stopped) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(stopped("gorp")[0], folder)
    for path in folder.glob("*.checkpoint*"):
        th.save({"planted": Planted(tmp_path / "proof")}, path)
    code, _, err = sqirl("train", *RUNS["gorp"], "-o", "runs")
    assert code == 1 and "is not a checkpoint of sqirl" in err and not (tmp_path / "proof").exists()


# Kills ------------------------------------------------------------------------------------------------------------------

SWEEP = f'envs = ["{EMPTY}"]\nalgorithms = ["gorp"]\nseeds = 2\ntimesteps = 30_000\nks = [1, 2]\n'
#: Kills of each of these commands.
KILLS = int(os.environ.get("SQIRL_TEST_KILLS", "15"))
COMMANDS = {
    "train gorp": ["train", "gorp", EMPTY, "-m", "20", "--seeds", "0-1", "--keep-going", "--checkpoint-every", "0"],
    "train sqirl": ["train", *RUNS["sqirl"], "--checkpoint-every", "0"],
    "train ppo": ["train", "ppo", EMPTY, "--timesteps", "4000", "--keep-going", "--checkpoint-every", "0"],
    "sweep": ["sweep", "s.toml", "--no-preview", "-j", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_kills_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count, name: str) -> None:
    """KILL, TERM and INT, 15 times: the records are those of a command that nobody killed, and no process is left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(SWEEP)
    call = [sys.executable, "-W", "ignore", "-m", "sqirl.cli.main", *COMMANDS[name], "-o"]
    for folder in ("first", "whole"):  # the first one compiles
        began = time.monotonic()
        subprocess.run([*call, folder], check=True, capture_output=True)

    def check(folder: Path) -> None:
        assert content(folder) == content(tmp_path / "whole") != {}
        assert {path.suffix for path in folder.iterdir()} <= {".json", ".png", ".policy", ".checkpoint"}

    longest = time.monotonic() - began
    counts, chains = ended_at_random_moments(call, tmp_path, kills=KILLS, longest=longest, check=check, seed=len(name))
    count(f"kills of {name}", sum(counts.values()))
    count(f"chains of {name} with the same records", chains)
