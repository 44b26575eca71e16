"""Journals that are damaged, cut, planted or of something else, and builds that are killed: the same bytes, or one line."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor
from sqirl.errors import NotEnumerable, SqirlError, UnknownEnv, WorkFailed
from sqirl.mdp.build import build_mdp
from sqirl.mdp.build_files import journal_folder
from sqirl.mdp.handover import pack_build, take_over
from sqirl.mdp.journal import Level, Rows, read_blocks
from test_hostile_npz import Planted

GAME, STEM = "BRIDGE/MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-5x5"
LEVELS = 6


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a build that stopped after a few levels."""
    folder = tmp_path_factory.mktemp("journal") / "build"
    build_mdp(GAME, horizon=LEVELS, folder=folder)
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return saved(build_mdp(GAME), tmp_path_factory.mktemp("whole"))


def saved(mdp: Any, folder: Path) -> bytes:
    mdp.save(folder / "m.npz")
    return (folder / "m.npz").read_bytes()


def continued(folder: Path) -> bytes:
    return saved(build_mdp(GAME, folder=folder, replays=5), folder.parent)


def copied(journal: Path, where: Path) -> Path:
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(journal, where)
    return where


def check_damages(journal: Path, tmp_path: Path, expected: bytes, seeds: range) -> None:
    """Flip a bit, cut, prolong, overwrite or delete a random file of rows; the build goes on and gives the same bytes."""
    for seed in seeds:
        rng, folder = random.Random(seed), copied(journal, tmp_path / "build")
        path = rng.choice(sorted(folder.glob("rows_*")))
        content = bytearray(path.read_bytes())
        place, kind = rng.randrange(len(content)), seed % 5
        if kind == 0:
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[place:]
        elif kind == 2:
            content += rng.randbytes(100)
        elif kind == 3:
            content[place : place + 50] = rng.randbytes(50)
        path.write_bytes(content)
        if kind == 4:
            path.unlink()
        assert continued(folder) == expected, f"seed {seed}: {path.name}"


def test_a_damaged_journal_goes_on_from_the_last_good_block(journal: Path, tmp_path: Path, expected: bytes) -> None:
    check_damages(journal, tmp_path, expected, range(5))


@pytest.mark.slow
def test_a_hundred_damaged_journals(journal: Path, tmp_path: Path, expected: bytes, count) -> None:
    check_damages(journal, tmp_path, expected, range(5, 105))
    count("damaged journals with the same result", 100)


def test_every_flipped_bit_of_a_block_is_noticed(journal: Path, count) -> None:
    content, rng = (journal / "rows_0003").read_bytes(), random.Random(0)
    level = Level(3, *start_of_level(journal, 3))
    whole = len(list(read_blocks(io.BytesIO(content), level)))
    assert whole
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        assert len(list(read_blocks(io.BytesIO(damaged), level))) < whole
    count("flipped bits of journals that were noticed", 300)


def start_of_level(journal: Path, number: int) -> tuple[int, int]:
    """The number of the first state of a level, and the size of the level."""
    level = Level(0, 0, 1)
    for path in sorted(journal.glob("rows_*"))[:number]:
        with path.open("rb") as file:
            level = level.next(sum(rows.num_new for rows, _ in read_blocks(file, level)))
    return level.first_state, level.size


def test_a_planted_pickle_is_not_run(journal: Path, tmp_path: Path, expected: bytes) -> None:
    for name in ("rows_0000", "rows_0005", "rows_0006", "states_0006", "starts"):
        folder, planted = copied(journal, tmp_path / "build"), tmp_path / "planted"
        (folder / name).write_bytes(pickle.dumps(Planted(planted)))
        assert continued(folder) == expected and not planted.exists(), name
    for name in ("identity.json", "starts.json"):
        folder = copied(journal, tmp_path / "build")
        (folder / name).write_bytes(pickle.dumps(Planted(planted)))
        with pytest.raises(WorkFailed, match="remove"):
            continued(folder)
        assert not planted.exists()


def block(**changes: Any) -> Rows:
    """The first block of a journal, changed."""
    fields = {
        "first": 0, "known": 1, "transitions": np.array([[0, 1, 2]], np.int32), "rewards": np.zeros((1, 3)),
        "new_keys": b"a" * 16 + b"b" * 16, "new_looks": bytes(8), "seconds": 0.1,
    }  # fmt: skip
    return Rows(**{**fields, **changes})


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "another first state": {"first": 1},
    "a negative first state": {"first": -1},
    "other known states": {"known": 2},
    "more states than the level has": {"transitions": np.array([[0, 1, 2]] * 2, np.int32), "rewards": np.zeros((2, 3))},
    "a state that is not known": {"transitions": np.array([[0, 1, 3]], np.int32)},
    "a state below the end": {"transitions": np.array([[-2, 1, 2]], np.int32)},
    "a new state without a way to it": {"transitions": np.array([[0, 1, 1]], np.int32)},
    "another number of actions": {"transitions": np.array([[0, 1, 2, 0]], np.int32), "rewards": np.zeros((1, 4))},
    "looks of another length": {"new_looks": bytes(10)},
    "no action": {"transitions": np.zeros((1, 0), np.int32), "rewards": np.zeros((1, 0))},
    "no state": {"transitions": np.zeros((0, 3), np.int32), "rewards": np.zeros((0, 3))},
    "seconds that are no number": {"seconds": float("nan")},
    "negative seconds": {"seconds": -1.0},
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_block_with_a_good_checksum_and_wrong_numbers_is_refused(name: str) -> None:
    level, shape = Level(0, 0, 1), (3, 4)
    assert len(list(read_blocks(io.BytesIO(block().to_bytes()), level, shape))) == 1
    assert not list(read_blocks(io.BytesIO(block(**CONTRADICTIONS[name]).to_bytes()), level, shape))


def test_a_journal_that_names_a_state_twice_is_refused(tmp_path: Path) -> None:
    build_mdp(GAME, horizon=1, folder=tmp_path / "build")
    twice = read_first(tmp_path / "build")
    key = twice.new_keys[:16]
    changed = Rows(
        0, 1, twice.transitions, twice.rewards, key * twice.num_new, twice.new_looks, twice.seconds
    )  # the same key for all
    (tmp_path / "build" / "rows_0000").write_bytes(changed.to_bytes())
    with pytest.raises(WorkFailed, match=r"names a state twice; remove"):
        continued(tmp_path / "build")


def read_first(folder: Path) -> Rows:
    with (folder / "rows_0000").open("rb") as file:
        return next(rows for rows, _ in read_blocks(file, Level(0, 0, 1)))


def test_a_journal_of_another_course_of_the_game_is_noticed(journal: Path, tmp_path: Path) -> None:
    """Keys that this game never has: as if another version of it had been built."""
    folder = copied(journal, tmp_path / "build")
    path = sorted(folder.glob("rows_*"))[-1]
    level = Level(5, *start_of_level(folder, 5))
    with path.open("rb") as file:
        rows = [rows for rows, _ in read_blocks(file, level)]
    foreign = [
        Rows(r.first, r.known, r.transitions, r.rewards, os.urandom(16 * r.num_new), r.new_looks, r.seconds)
        for r in rows
    ]
    assert any(r.num_new for r in rows)
    path.write_bytes(b"".join(r.to_bytes() for r in foreign))
    with pytest.raises(WorkFailed, match="does not play as when this build began"):
        continued(folder)


IDENTITIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another game": (lambda known: {**known, "game": "MiniGrid-Empty-6x6"}, "holds a build of game MiniGrid-Empty-6x6, not"),
    "another version": (lambda known: {**known, "sqirl": "9.9"}, "a build of sqirl 9.9, not"),
    "another library": (lambda known: {**known, "minigrid": "0.0"}, "minigrid 0.0, not"),
    "an older format": (lambda known: {k: v for k, v in known.items() if k != "journal"}, "another version of sqirl"),
    "a newer format": (lambda known: {**known, "journal": 3}, "another version of sqirl"),
    "a list": (lambda known: [known], "damaged"),
    "nothing": (lambda known: None, "damaged"),
    "a huge text": (lambda known: {**known, "game": "x" * 100_000}, "holds a build of game xxx"),
}  # fmt: skip


@pytest.mark.parametrize("name", IDENTITIES)
def test_a_journal_of_something_else_is_refused(journal: Path, tmp_path: Path, name: str) -> None:
    change, message = IDENTITIES[name]
    folder = copied(journal, tmp_path / "build")
    known = json.loads((folder / "identity.json").read_text())
    (folder / "identity.json").write_text(json.dumps(change(known)))
    for call in (lambda: continued(folder), lambda: take_over(GAME, folder)):
        with pytest.raises(WorkFailed, match=message) as caught:
            call()
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


# Packed builds --------------------------------------------------------------------------------------------------------


def test_a_packed_build_continues_elsewhere(
    sqirl: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes
) -> None:
    code, _, err = sqirl("build", GAME, "-j", "1", "--max-states", "20", "--merge", "none")
    assert code == 1 and "is partial" in err
    code, out, _ = sqirl("build", GAME, "--pack", "half.tar", "--json")
    status = json.loads(out)
    assert code == 0 and status["states"] >= 20 and status["depth"] < 100 and status["core_hours_left"] > 0
    code, out, _ = sqirl("build", GAME, "--pack", "half.tar")
    assert code == 0 and "of one core left if its steps continue to grow by" in out and out.endswith("-> half.tar\n")
    monkeypatch.setenv("SQIRL_HOME", str(tmp_path / "elsewhere"))
    code, out, err = sqirl("build", GAME, "--from", "half.tar", "-j", "1", "--merge", "none", "-o", "m.npz")
    assert code == 0 and err.startswith(f"sqirl: goes on from {GAME}: ") and "32 states" in out
    assert (tmp_path / "m.npz").read_bytes() == expected
    code, out, err = sqirl("build", GAME, "--pack", "again.tar")
    assert code == 2 and "no unfinished build" in err and err.count("\n") == 1


def test_what_was_packed_is_not_expanded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqirl.mdp import enumeration

    expand, expanded = enumeration.expand, []
    monkeypatch.setattr(
        enumeration, "expand", lambda game, states: expanded.append(len(states)) or expand(game, states)
    )
    folder = journal_folder(STEM)
    build_mdp(GAME, horizon=LEVELS, folder=folder)
    status = pack_build(GAME, tmp_path / "b.tar")
    assert status.at.depth == LEVELS and status.at.done == 0 and status.core_hours > 0
    shutil.rmtree(folder)
    assert take_over(GAME, tmp_path / "b.tar").at == status.at
    build_mdp(GAME, folder=folder)
    assert sum(expanded) == 32


def test_a_build_that_is_farther_is_kept(journal: Path) -> None:
    folder = journal_folder(STEM)
    build_mdp(GAME, horizon=LEVELS + 1, folder=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert take_over(GAME, journal).at.depth == LEVELS + 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    shutil.rmtree(folder)
    build_mdp(GAME, horizon=2, folder=folder)
    assert take_over(GAME, journal).at.depth == LEVELS and (folder / "rows_0005").exists()


def tar_with(*members: tarfile.TarInfo, content: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


PACKS: dict[str, bytes] = {
    "text": b"these are only words\n" * 100,
    "empty": b"",
    "no members": tar_with(),
    "only rows": tar_with(member("rows_0000")),
    "a way up": tar_with(member("../rows_0000")),
    "an absolute path": tar_with(member("/tmp/rows_0000")),
    "a folder": tar_with(member("rows_0000", tarfile.DIRTYPE)),
    "a link": tar_with(member("rows_0000", tarfile.SYMTYPE, "/etc/passwd")),
    "a hard link": tar_with(member("rows_0000", tarfile.LNKTYPE, "/etc/passwd")),
    "a device": tar_with(member("rows_0000", tarfile.CHRTYPE)),
    "a pipe": tar_with(member("rows_0000", tarfile.FIFOTYPE)),
    "a sparse file": tar_with(member("rows_0000", tarfile.GNUTYPE_SPARSE)),
    "another file": tar_with(member("starts")),
    "a module": tar_with(member("sitecustomize.py"), content=b"raise SystemExit"),
    "a foreign identity": tar_with(member("identity.json"), content=b'{"journal": 2, "game": "x"}'),
    "no identity": tar_with(member("identity.json"), content=b"nothing"),
    "compressed": b"\x1f\x8b\x08" + bytes(600),
    "cut": tar_with(member("rows_0000"), content=bytes(5000))[:1000],
}


@pytest.mark.parametrize("name", PACKS)
def test_a_file_that_is_no_packed_build_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(PACKS[name])
    with pytest.raises(SqirlError) as caught:
        take_over(GAME, tmp_path / "b.tar")
    assert "b.tar" in str(caught.value) and "\n" not in str(caught.value)
    assert not journal_folder(STEM).exists() and not list(tmp_path.rglob("rows_*")), "nothing is left of it"


def test_a_packed_build_goes_on_only_for_its_env(journal: Path) -> None:
    with pytest.raises(WorkFailed, match=r"env MiniGrid-Empty-5x5, not MiniGrid-Empty-6x6.*only where these agree"):
        take_over("BRIDGE/MiniGrid-Empty-6x6-v0", journal)


@pytest.mark.parametrize("option", ["--from", "--pack"])
def test_several_envs_cannot_be_packed_or_taken_over_at_once(sqirl: Any, option: str) -> None:
    code, out, err = sqirl("build", GAME, "BRIDGE/MiniGrid-Empty-6x6-v0", option, "b.tar")
    assert code == 2 and not out and "2 envs were named; name one" in err and err.count("\n") == 1


# Envs that cannot be built --------------------------------------------------------------------------------------------


class KeyRaises(Corridor):
    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        self.cell = state

    def state_key(self) -> int:
        raise ZeroDivisionError("no key today")


class StateOfLambdas(KeyRaises):
    def get_state(self) -> Any:
        return self.cell, lambda: None

    def set_state(self, state: Any) -> None:
        self.cell = state[0]

    def state_key(self) -> int:
        return self.cell


class ManyActions(Corridor):
    action_space = gym.spaces.Discrete(10**6)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("KeyRaises", "state_key() failed with ZeroDivisionError: no key today"),
        ("StateOfLambdas", "cannot be copied"),
        ("ManyActions", "1,000,000 actions, more than 10,000"),
    ],
)
def test_an_env_that_cannot_be_built_ends_with_one_line(sqirl: Any, env: str, message: str) -> None:
    code, out, err = sqirl("build", f"test_hostile_builds:{env}", "--horizon", "5", "-j", "1")
    assert code == 2 and not out and message in err and err.count("\n") == 1, err


def test_a_table_that_does_not_fit_into_memory_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from sqirl.mdp import enumeration

    monkeypatch.setattr(enumeration, "available_memory", lambda: 1000)
    with pytest.raises(WorkFailed, match=r"states and 3 actions takes 0\.0 GB of memory, and 0\.0 GB are free; lower"):
        build_mdp(GAME)


class Clock:
    """Something with a state, whose method an env may keep."""

    def __init__(self) -> None:
        self.time = 0

    def tick(self) -> int:
        self.time += 1
        return self.time


class BehindAMethod(Corridor):
    """Its only state is behind a bound method. The third step is rewarded."""

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.tick = Clock().tick
        return 0, {}

    def step(self, action: int) -> Any:
        time = self.tick()
        return 0, float(time == 3), time == 3, False, {}


class BehindAList(BehindAMethod):
    """The same behind a method of a list."""

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.push = [].append
        return 0, {}

    def step(self, action: int) -> Any:
        self.push(1)
        count = len(self.push.__self__)
        return 0, float(count == 3), count == 3, False, {}


@pytest.mark.parametrize("make", [BehindAMethod, BehindAList])
def test_the_state_behind_a_method_is_part_of_the_key(make: type[gym.Env]) -> None:
    mdp = build_mdp(make(), horizon=5)
    assert mdp.num_states == 3 and mdp.rewards.sum() == 2, "one state for each of the three steps"


def test_levels_of_procgen_do_not_wrap() -> None:
    from sqirl.envs.ids import MAX_LEVEL
    from sqirl.envs.procgen import ProcgenGame

    for level in (2**31, 2**32, 2**32 + 5):
        with pytest.raises(UnknownEnv, match=f"level {level} of maze is above {MAX_LEVEL}"):
            ProcgenGame("maze", "easy", level, 1)


def test_states_that_cannot_be_packed_say_so() -> None:
    from sqirl.mdp.expand import pack

    with pytest.raises(NotEnumerable, match="let get_state"):
        pack(lambda: None)


# Kills ----------------------------------------------------------------------------------------------------------------


def chain_of_kills(home: Path, rng: random.Random, kills: int, *, jobs: int) -> tuple[bytes, int]:
    """Kill builds of two envs at random moments, then let them end. Returns the files, and how many were really killed."""
    names = ["BRIDGE/MiniGrid-DoorKey-6x6-v0", GAME]
    command = [sys.executable, "-W", "ignore", "-m", "sqirl.cli.main", "build", *names, "-j", str(jobs)]
    environment, killed = {**os.environ, "SQIRL_HOME": str(home)}, 0
    for _ in range(kills):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        builds, deadline = home / "builds", time.monotonic() + 30
        if rng.random() < 0.8:  # most kills come while it builds, not while it starts
            while process.poll() is None and not list(builds.glob("*/rows_*")) and time.monotonic() < deadline:
                time.sleep(0.01)
        time.sleep(rng.random() * 1.5)
        process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        _, err = process.communicate(timeout=120)
        killed += process.returncode != 0
        assert "journal" not in err and "remove" not in err, err
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert not list((home / "builds").glob("[!.]*")), "no journal is left"
    return b"".join(path.read_bytes() for path in sorted((home / "mdps").glob("*.npz"))), killed


def test_two_kills(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole, _ = chain_of_kills(tmp_path / "whole", rng, 0, jobs=1)
    assert chain_of_kills(tmp_path / "killed", rng, 2, jobs=1)[0] == whole


@pytest.mark.slow
def test_a_hundred_kills(tmp_path: Path, count) -> None:
    rng, killed = random.Random(1), 0
    whole, _ = chain_of_kills(tmp_path / "whole", rng, 0, jobs=1)
    for chain in range(25):
        content, count = chain_of_kills(tmp_path / str(chain), rng, 5, jobs=1 + chain % 2)
        assert content == whole, f"chain {chain}"
        killed += count
    count("kills of build", killed)
    count("chains of build with the same files", 25)
    assert killed >= 100
