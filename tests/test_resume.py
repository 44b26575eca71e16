"""A build that is killed, loses a worker, runs on a cluster, or runs out of disk still gives the same bytes."""

from __future__ import annotations

import errno
import gc
import importlib.util
import json
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envs_for_tests import Corridor
from sqirl.analysis.analyze import analyze
from sqirl.envs.game import Game
from sqirl.errors import SqirlError, WorkFailed
from sqirl.mdp import enumeration, frontier, recover
from sqirl.mdp import journal as journal_module
from sqirl.mdp.build import build_mdp
from sqirl.mdp.expand import Block, expand
from sqirl.mdp.journal import Appender, Journal, Level, Rows, read_blocks
from sqirl.runtime import workers as worker_pool
from test_hostile_npz import Planted
from waiting import wait_until

GAME = "BRIDGE/MiniGrid-DoorKey-8x8-v0"


def saved_bytes(mdp, path: Path) -> bytes:
    mdp.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return saved_bytes(build_mdp(GAME), tmp_path_factory.mktemp("whole") / "m.npz")


@pytest.fixture
def pool_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use worker processes also for small levels."""
    monkeypatch.setattr(frontier, "POOL_WORTHWHILE_SECONDS", 0.0)
    monkeypatch.setattr(frontier, "BLOCK_SECONDS", 0.02)


def test_killed_at_random_moments_and_resumed(tmp_path: Path, expected: bytes) -> None:
    code = (
        "import sys; from pathlib import Path; from sqirl.mdp.build import build_mdp\n"
        f"build_mdp({GAME!r}, folder=Path(sys.argv[1])).save(sys.argv[2])"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "build"), str(tmp_path / "m.npz")]
    rng, kills, levels = random.Random(0), 0, []
    while not (tmp_path / "m.npz").exists():
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        journal = tmp_path / "build"
        deadline = time.monotonic() + 30
        while (
            process.poll() is None and len(list(journal.glob("rows_*"))) <= len(levels) and time.monotonic() < deadline
        ):
            time.sleep(0.01)  # let every attempt get a little further than the one before
        if kills < 6:
            time.sleep(rng.random() * 0.3)
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait(timeout=120)
        levels = list(journal.glob("rows_*"))
    assert kills >= 2 and (tmp_path / "m.npz").read_bytes() == expected


def test_an_incomplete_entry_is_done_again(tmp_path: Path, expected: bytes) -> None:
    folder = tmp_path / "build"
    partial = build_mdp(GAME, folder=folder, max_states=2000)
    assert partial.is_partial
    last = sorted(folder.glob("rows_*"))[-1]
    for damage in (lambda data: data[:-5], lambda data: data + b"rest", lambda data: data[:-1] + b"\x00"):
        last.write_bytes(damage(last.read_bytes()))
    assert saved_bytes(build_mdp(GAME, folder=folder), tmp_path / "m.npz") == expected


def test_a_pool_gives_the_same_bytes(tmp_path: Path, expected: bytes, pool_at_once: None) -> None:
    assert saved_bytes(build_mdp(GAME, jobs=2), tmp_path / "m.npz") == expected


def test_a_worker_that_dies_is_replaced(tmp_path: Path, expected: bytes, pool_at_once: None) -> None:
    rng, killed = random.Random(1), []

    def kill_one(progress) -> None:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        pool = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        if pool and len(killed) < 3 and rng.random() < 0.3:
            killed.append(rng.choice(pool))
            os.kill(killed[-1], signal.SIGKILL)

    mdp = build_mdp(GAME, jobs=2, progress=kill_one)
    assert killed and saved_bytes(mdp, tmp_path / "m.npz") == expected


def test_workers_that_keep_dying_end_the_build_with_one_line(
    tmp_path: Path, pool_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "expand_named", die)
    with pytest.raises(WorkFailed, match="died 6 times in a row; what is built so far is kept"):
        build_mdp(GAME, jobs=2, folder=tmp_path / "build")


def die(*_: object) -> None:
    os._exit(1)


@contextmanager
def dask_cluster(folder: Path, allowed_failures: int = 3) -> Iterator[Any]:
    """Two worker processes, each with a dask nanny that restarts it when it dies."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(folder),
        scheduler_kwargs={"allowed_failures": allowed_failures},
    ) as cluster:
        yield cluster


def test_a_dask_cluster_of_two_processes_gives_the_same_bytes(
    tmp_path: Path, expected: bytes, pool_at_once: None
) -> None:
    with dask_cluster(tmp_path) as cluster:
        mdp = build_mdp(GAME, cluster=cluster.scheduler_address)
    assert saved_bytes(mdp, tmp_path / "m.npz") == expected


# 3: dask gives the block to another worker; 0: dask gives the block up (slow where many processes share the machine)
@pytest.mark.parametrize("allowed_failures", [3, pytest.param(0, marks=pytest.mark.slow)])
def test_a_dask_worker_that_dies_is_replaced(
    tmp_path: Path, expected: bytes, pool_at_once: None, monkeypatch: pytest.MonkeyPatch, allowed_failures: int
) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    monkeypatch.setenv("SQIRL_TEST_DEATHS", str(deaths))
    monkeypatch.setattr(frontier, "expand_named", expand_or_die)
    with dask_cluster(tmp_path, allowed_failures) as cluster:
        mdp = build_mdp(GAME, cluster=cluster.scheduler_address)
    assert len(list(deaths.iterdir())) == 2 and saved_bytes(mdp, tmp_path / "m.npz") == expected


def expand_or_die(name: str, packed_states: list[bytes], expansion: frontier.Expansion) -> Block:
    """Runs in a worker process, where nothing is patched. The fifth block of a process kills it, twice in all."""
    deaths = Path(os.environ["SQIRL_TEST_DEATHS"])
    _blocks.append(name)
    if len(_blocks) == 5 and len(list(deaths.iterdir())) < 2:
        (deaths / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return frontier.expand_named(name, packed_states, expansion)


_blocks: list[str] = []  # of this process


def test_no_cluster_at_the_address(pool_at_once: None) -> None:
    with pytest.raises(Exception, match=r"no dask scheduler answers at 'tcp://127\.0\.0\.1:1'"):
        worker_pool.connect("tcp://127.0.0.1:1")


def test_a_full_disk_stops_the_build_and_the_build_can_be_resumed(
    tmp_path: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "build"
    real, calls = Appender.append, []

    def full(self, rows) -> None:
        calls.append(1)
        if len(calls) == 20:
            self._file.write(rows.to_bytes()[:30])
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        real(self, rows)

    monkeypatch.setattr(Appender, "append", full)
    with pytest.raises(OSError, match="No space left"):
        build_mdp(GAME, folder=folder)
    monkeypatch.undo()
    assert saved_bytes(build_mdp(GAME, folder=folder), tmp_path / "m.npz") == expected


def test_a_really_full_disk_stops_the_command_with_a_line(tmp_path: Path, small_disk: Path, expected: bytes) -> None:
    env, file = {**os.environ, "SQIRL_HOME": str(small_disk)}, tmp_path / "m.npz"
    command = [sys.executable, "-m", "sqirl.cli.main", "build", GAME, "-j", "1", "--merge", "none", "-o", str(file)]
    full = subprocess.run(command, env=env, capture_output=True, text=True)
    where = small_disk / "builds" / "MiniGrid-DoorKey-8x8"
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.startswith(f"sqirl: No space left on device: {where}") and full.stderr.count("\n") == 1
    assert len(list((small_disk / "builds").glob("*/rows_*"))) > 3 and not file.exists()  # it had come some way
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    subprocess.run(command, env=env, check=True, capture_output=True)
    assert file.read_bytes() == expected


@pytest.mark.parametrize("game", [GAME, "BRIDGE/maze_easy_l0_30_fs1-v0", "BRIDGE/freeway_10_fs30-v0"])
def test_a_last_level_for_its_rewards_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, game: str) -> None:
    """It gives the same analysis, is resumed where it was, and a build with a longer horizon expands the level again."""
    horizon = 9
    whole = build_mdp(game, horizon=horizon)
    monkeypatch.setattr(enumeration, "LARGE_LAST_LEVEL", 1)
    monkeypatch.setattr(frontier, "OWN_BLOCK_SECONDS", 0.0)  # one state in a block
    expand_last, expanded = enumeration.expand_last, []

    def counting(one_game: Game, packed_states: list[bytes]) -> Block:
        if len(expanded) == 1:
            expanded.append(0)
            raise KeyboardInterrupt
        expanded.append(len(packed_states))
        return expand_last(one_game, packed_states)

    monkeypatch.setattr(enumeration, "expand_last", counting)
    folder = tmp_path / "build"
    with pytest.raises(KeyboardInterrupt):
        build_mdp(game, horizon=horizon, folder=folder)
    mdp = build_mdp(game, horizon=horizon, folder=folder)
    last = whole.num_states - whole.cut(horizon - 1).num_states
    assert sum(expanded) == last > expanded[0], "the block before the interruption was kept"
    assert mdp.num_states == whole.num_states and mdp.depth == horizon and np.array_equal(mdp.rewards, whole.rewards)
    assert (mdp.transitions[-last:] == -1).all() and np.array_equal(mdp.transitions[:-last], whole.transitions[:-last])
    assert analyze(mdp.sticky(0.25)).to_dict() == analyze(whole.sticky(0.25)).to_dict()
    longer = build_mdp(game, horizon=horizon + 1, folder=folder)
    assert np.array_equal(longer.cut(horizon).transitions, whole.transitions) and sum(expanded) > last


def test_what_a_full_disk_refused_is_not_written_later(small_disk: Path) -> None:
    """An entry in a buffer would be written twice: by the resumed build, and when the first appender is freed."""
    journal, level = Journal(small_disk / "build", {}, [b""], (2, 0)), Level(0, 0, 1)
    appender = journal.appender(level)
    with pytest.raises(OSError, match="No space left"), (small_disk / "filling").open("wb", buffering=0) as filling:
        while True:
            filling.write(bytes(1 << 12))
    with pytest.raises(OSError, match="No space left"):
        appender.append(Rows(0, 1, np.zeros((1, 2), np.int32), np.zeros((1, 2)), b"", b"", 0.0))
    (small_disk / "filling").unlink()
    del appender
    gc.collect()
    assert not list(journal.read_rows(level)) and journal.rows_path(level).stat().st_size == 0


def test_a_really_full_disk_and_the_same_call_in_the_same_process(
    tmp_path: Path, small_disk: Path, expected: bytes
) -> None:
    with pytest.raises(OSError, match="No space left") as kept:  # and with it the files that were open
        build_mdp(GAME, folder=small_disk / "build")
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    mdp = build_mdp(GAME, folder=small_disk / "build")
    assert saved_bytes(mdp, tmp_path / "m.npz") == expected
    del kept
    gc.collect()
    again = build_mdp(GAME, folder=small_disk / "build")
    assert saved_bytes(again, tmp_path / "again.npz") == expected


def test_workers_leave_with_the_process_that_is_killed() -> None:
    script = (
        "import os, time\nfrom sqirl.runtime.workers import process_pool\n"
        "if __name__ == '__main__':\n    print(process_pool(1).submit(os.getpid).result(), flush=True)\n    time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = Path("/proc") / process.stdout.readline().strip()
    assert worker.exists()
    process.kill()
    process.wait()
    wait_until(lambda: has_ended(worker), "the end of the worker after its parent's")


def has_ended(process: Path) -> bool:
    """Has the process of this folder in /proc ended?"""
    try:
        return "(zombie)" in (process / "status").read_text()
    except OSError:
        return True


def test_a_folder_is_locked_by_its_build(tmp_path: Path, expected: bytes) -> None:
    first = Journal(tmp_path / "build", {}, [], (2, 0))
    with pytest.raises(WorkFailed, match="another build is running"):
        build_mdp(GAME, folder=tmp_path / "build")
    first.close()
    for name in ("identity.json", "starts.json"):
        (tmp_path / "build" / name).unlink()
    assert saved_bytes(build_mdp(GAME, folder=tmp_path / "build"), tmp_path / "m.npz") == expected


def test_a_folder_of_another_game_is_refused(tmp_path: Path) -> None:
    build_mdp("BRIDGE/MiniGrid-Empty-5x5-v0", folder=tmp_path)
    with pytest.raises(WorkFailed, match="remove the folder"):
        build_mdp("BRIDGE/MiniGrid-Empty-6x6-v0", folder=tmp_path)


def test_a_longer_horizon_resumes_a_shorter_build(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    short = build_mdp("BRIDGE/MiniGrid-DoorKey-6x6-v0", horizon=8, folder=folder)
    assert short.depth == 8 and not short.is_partial
    longer = build_mdp("BRIDGE/MiniGrid-DoorKey-6x6-v0", horizon=20, folder=folder)
    whole = build_mdp("BRIDGE/MiniGrid-DoorKey-6x6-v0", horizon=20)
    assert saved_bytes(longer, tmp_path / "a.npz") == saved_bytes(whole, tmp_path / "b.npz")


def test_the_journal_holds_rows_and_no_states(tmp_path: Path) -> None:
    build_mdp("BRIDGE/MiniGrid-DoorKey-5x5-v0", folder=tmp_path, horizon=6)
    names = {"identity.json", "starts.json", "lock", *(f"rows_{level:04d}" for level in range(6))}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 20_000


class Line(Corridor):
    """A new cell at every step of either action, for 400 steps."""

    def step(self, action: int):
        self.cell += 1
        return self.cell, float(action), self.cell == 400, False, {}


@pytest.mark.parametrize("stored", [3, recover.STORED_GENERATION, 400])
def test_states_are_played_again_over_many_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: int) -> None:
    monkeypatch.setattr(recover, "STORED_GENERATION", stored)
    steps = 150 if stored == 400 else 350
    build_mdp(Line(), horizon=steps, folder=tmp_path / "build", replays=1)
    longer = build_mdp(Line(), horizon=steps + 20, folder=tmp_path / "build", replays=1)
    assert longer.num_states == steps + 20 and longer.transitions[:-1].tolist() == [
        [s, s] for s in range(1, steps + 20)
    ]


def test_a_journal_of_the_old_format_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: bytes
) -> None:
    script = load_script("convert_journal")
    new, old, back = tmp_path / "new", tmp_path / "old", tmp_path / "back"
    build_mdp(GAME, horizon=9, folder=new)
    old.mkdir()
    facts = json.loads((new / "identity.json").read_text())
    (old / "identity.json").write_text(json.dumps({k: v for k, v in facts.items() if k not in ("journal", "env")}))
    level = Level(0, 0, 1)
    for path in sorted(new.glob("rows_*")):
        with path.open("rb") as file:
            blocks = [rows for rows, _ in read_blocks(file, level)]
        (old / path.name).write_bytes(b"".join(old_block(rows, monkeypatch) for rows in blocks))
        level = level.next(sum(rows.num_new for rows in blocks))
    assert script.convert(GAME, old, back) == level.first_state
    assert saved_bytes(build_mdp(GAME, folder=back), tmp_path / "m.npz") == expected
    planted = pickle.dumps(Planted(tmp_path / "planted"))
    (old / "rows_0000").write_bytes(struct.pack("<QI", len(planted), zlib.crc32(planted)) + planted)
    with pytest.raises(SqirlError, match="which no journal of sqirl does"):
        script.convert(GAME, old, tmp_path / "other")
    assert not (tmp_path / "planted").exists()


def old_block(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A block as sqirl 0.2 wrote it."""
    old = type("Rows", (), {"__module__": "sqirl.mdp.journal"})
    block = old()
    block.__dict__ |= {name: getattr(rows, name) for name in ("rewards", "new_keys", "new_looks")}
    block.__dict__ |= {"transitions": rows.transitions.astype(np.int64), "sizes": np.zeros(rows.num_new, np.int64)}
    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "Rows", old)
        payload = pickle.dumps(block, protocol=pickle.HIGHEST_PROTOCOL)
    return struct.pack("<QI", len(payload), zlib.crc32(payload)) + payload


def load_script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent.parent / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_expansion_is_a_function_of_the_states_alone() -> None:
    from sqirl.envs.minigrid import MiniGridGame
    from sqirl.mdp.expand import pack

    game, other = MiniGridGame("DoorKey-5x5"), MiniGridGame("DoorKey-5x5")
    block = [pack(game.get_state())]
    first, second = expand(game, block), expand(other, block)
    assert first.keys == second.keys and first.states == second.states
