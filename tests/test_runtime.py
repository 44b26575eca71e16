"""Workers, files, locks and memory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sqirl.errors import MissingExtra, SqirlError, WorkFailed
from sqirl.runtime import files, memory, workers
from sqirl.runtime.files import check_writable, safe_file_name, write_all, write_atomically
from sqirl.runtime.locks import try_to_lock
from sqirl.runtime.memory import available_memory
from sqirl.runtime.workers import MAX_FAILURES, WorkerPool, all_cores, connect


def square(x: int) -> int:
    return x * x


def end_the_process() -> None:
    os._exit(3)


def raise_an_error() -> None:
    raise KeyError("in the task")


# Workers -------------------------------------------------------------------------------------------------------------


def test_a_pool_starts_at_its_first_task_and_is_closed_twice_without_harm() -> None:
    pool = WorkerPool(jobs=2)
    assert pool._pool is None and pool.num_workers == 2
    futures = [pool.submit(square, x) for x in range(5)]
    assert [future.result() for future in futures] == [0, 1, 4, 9, 16]
    assert pool.submit(os.getpid).result() != os.getpid()
    pool.close()
    pool.close()


def test_an_error_of_a_task_is_not_a_failure_of_a_worker() -> None:
    pool = WorkerPool()
    try:
        with pytest.raises(KeyError, match="in the task"):
            pool.submit(raise_an_error).result()
        assert pool.submit(square, 3).result() == 9
    finally:
        pool.close()


def test_workers_are_restarted_after_a_failure() -> None:
    pool = WorkerPool()
    try:
        with pytest.raises(pool.failures) as failed:
            pool.submit(end_the_process).result()
        with pytest.raises(BrokenExecutor):
            pool.submit(square, 2)  # the whole pool is broken until the failure is reported
        pool.worker_failed(failed.value, "nothing is lost")
        assert pool.submit(square, 2).result() == 4
    finally:
        pool.close()


def test_failures_in_a_row_are_counted_and_limited() -> None:
    pool, cause = WorkerPool(), BrokenExecutor("died")
    for _ in range(MAX_FAILURES):
        pool.worker_failed(cause, "all is kept")
    pool.task_finished()  # a finished task starts the count again
    for _ in range(MAX_FAILURES):
        pool.worker_failed(cause, "all is kept")
    with pytest.raises(WorkFailed, match=f"died {MAX_FAILURES + 1} times in a row; all is kept") as stopped:
        pool.worker_failed(cause, "all is kept")
    assert stopped.value.__cause__ is cause and stopped.value.exit_code == 1


def test_close_does_not_wait_for_running_tasks() -> None:
    pool = WorkerPool()
    pool.submit(square, 1).result()
    running = pool.submit(time.sleep, 60)
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 30 and (running.cancelled() or running.exception() is not None)


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sqirl\[cluster\]'"):
        connect("tcp://127.0.0.1:1")


def test_a_cluster_is_used_through_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    calls: list[object] = []

    class Client:
        def nthreads(self) -> dict[str, int]:
            return {"a": 2, "b": 1}

        def submit(self, function, *arguments, pure: bool) -> object:
            calls.append((function, arguments, pure))
            return "future"

        def close(self) -> None:
            calls.append("closed")

    monkeypatch.setattr(workers, "connect", lambda address: calls.append(address) or Client())
    pool = WorkerPool(jobs=7, cluster="tcp://there")
    assert pool.submit(square, 3) == "future" and pool.num_workers == 3
    pool.close()
    assert calls == ["tcp://there", (square, (3,), False), "closed"], "it connects once"
    assert len(pool.failures) == 2 and BrokenExecutor in pool.failures


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= all_cores() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert all_cores() == (os.cpu_count() or 1)


# Files ---------------------------------------------------------------------------------------------------------------


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"first")
    write_atomically(path, lambda file: file.write(b"second"))
    assert path.read_bytes() == b"second" and list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(file) -> None:
        file.write(b"half of the new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_reader_never_sees_an_incomplete_file(tmp_path: Path) -> None:
    path, stop, seen = tmp_path / "file", threading.Event(), set()
    write_atomically(path, b"0" * 50_000)

    def read() -> None:
        while not stop.is_set():
            content = path.read_bytes()
            seen.add((len(content), len(set(content))))

    reader = threading.Thread(target=read)
    reader.start()
    for digit in b"123456789" * 3:
        write_atomically(path, bytes([digit]) * 50_000)
    stop.set()
    reader.join()
    assert seen == {(50_000, 1)}


def test_a_path_is_checked_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "new" / "file.npz")
    assert (tmp_path / "new").is_dir() and not list((tmp_path / "new").iterdir())
    with pytest.raises(SqirlError, match="is a folder; give the name of a file"):
        check_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SqirlError, match="is a file; give the name of a folder"):
        check_writable(tmp_path / "file" / "x.npz")

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(SqirlError, match="cannot be written: Permission denied"):
        check_writable(tmp_path / "x.npz")


def test_names_of_files() -> None:
    assert safe_file_name("my/module.py:Env-v0") == "my_module.py_Env-v0" and safe_file_name("Pong-v4") == "Pong-v4"


# Locks and memory ----------------------------------------------------------------------------------------------------


def test_a_lock_belongs_to_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, time; from sqirl.runtime.locks import try_to_lock\n"
        "file = open(sys.argv[1], 'w'); print(try_to_lock(file.fileno()), flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "True\n"
        with path.open("w") as file:
            assert not try_to_lock(file.fileno())
            holder.kill()
            holder.wait()
            assert try_to_lock(file.fileno())
        with path.open("w") as file:
            assert try_to_lock(file.fileno()), "closing the file releases the lock"
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="the system has no /proc/meminfo")
def test_free_memory_is_what_the_system_can_give() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = available_memory()
    assert free is not None and 0 < free <= total


def test_a_limit_of_the_shell_counts() -> None:
    code = (
        "import resource; from sqirl.runtime.memory import available_memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); print(available_memory())"
    )
    free = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert 0 < free < 2**31


def test_an_error_of_a_full_disk_names_the_file(tmp_path: Path) -> None:
    def full(file: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "m.npz", full)
    assert caught.value.filename == str(tmp_path / "m.npz") and not list(tmp_path.iterdir())


def test_an_unbuffered_file_that_takes_a_part_at_a_time_gets_all() -> None:
    class Slow:
        def __init__(self) -> None:
            self.content = b""

        def write(self, data: memoryview) -> int:
            self.content += bytes(data[:3])
            return len(data[:3])

    file: Any = Slow()
    write_all(file, b"0123456789")
    assert file.content == b"0123456789"


def test_free_memory_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(path: str, **_: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(memory, "open", no_file, raising=False)
    counts = {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", counts.__getitem__)
    assert available_memory() == 4_096_000

    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert available_memory() is None
