"""Damaged records and sweeps: each is one line that names the file, nothing is lost, and nothing else stops."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqirl.errors import LONGEST_MESSAGE, MissingExtra, SqirlError, one_line
from sqirl.experiments import worker
from sqirl.experiments.protocol import planned_run
from sqirl.runs import store as store_module
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import RecordStore, read_record
from told import wrong

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
CONFIG = planned_run("gorp", EMPTY, timesteps=300, options={"m": 1})
WHOLE = RunRecord(
    CONFIG, (Point(100, 0.2, 0.3), Point(200, 1.0, 1.0)), steps=300, seconds=2.0, optimal_return=1.0, random_return=0.1,
    played_from="table", device="cpu", optimal_at=200, versions={"torch": "2.0"},
)  # fmt: skip
NAN, INF = float("nan"), float("inf")
ABSENT = object()

#: (where: the record or its config, field, value).
VALUES: list[tuple[str, str, Any]] = [
    *[("config", "env_id", value) for value in (None, 1, [], {}, "", "a\nb", "\ud800", "BRIDGE/x", ABSENT, True)],
    *[("config", "env_id", f"BRIDGE/{name}") for name in ("../x-v0", "MiniGrid-../../x-v0", "freeway_0_fs30-v0", "")],
    *[("config", "algorithm", value) for value in (None, 1, [], {}, "", ["gorp"], ABSENT)],
    *[("config", "seed", value) for value in (None, -1, 0.5, "0", [], NAN, True, 10**400)],
    *[("config", "timesteps", value) for value in (None, 0, -1, 1.5, "300", [], NAN, INF, 2**60, False)],
    *[("config", "eval_every", value) for value in (None, 0, -10, 0.5, "10", [], {}, NAN, 10**30)],
    *[("config", "eval_episodes", value) for value in (None, 0, -1, 1.5, "1", [[]])],
    *[("config", "live", value) for value in (None, 0, 1, "no", [])],
    *[("config", "stop", value) for value in (None, "", "soon", 1, ["exact"], {})],
    *[("config", "variant", value) for value in (None, "", 1, [], "a\nb")],
    *[("config", "m", value) for value in (0, -1, 1.5, "1", [], {}, NAN, 2**70, True)],
    *[("config", "k", value) for value in (0, "one", [1])],
    ("config", "rollout", 128),
    ("config", "colour", 3),
    ("config", "options", [["k", 1]]),
    *[("", "config", value) for value in (None, 1, "x", [], {}, ABSENT)],
    *[("", "curve", value) for value in (None, 1, "x", {}, [1], [[1]], [[1, 2, 3, 4]], ABSENT)],
    *[("", "curve", [value]) for value in (["1", 0.5], [1, "0"], [1, None], [-1, 0.5], [1.5, 0.5], [None, None])],
    *[("", "curve", [[1, value]]) for value in (NAN, INF, -INF, 1e300, 10**400, True, [], {})],
    *[("", "curve", [[1, 0.5, value]]) for value in (NAN, INF, "x", [], False)],
    ("", "curve", [[200, 0.5], [100, 0.5]]),
    *[("", "steps", value) for value in (None, -1, 1.5, "1", [], NAN, 2**60, True)],
    *[("", "seconds", value) for value in (None, "1", [], NAN, INF, True)],
    *[("", "optimal_return", value) for value in ("1", [], {}, NAN, INF, 10**400, True)],
    *[("", "random_return", value) for value in ("1", [], NAN)],
    *[("", "tolerance", value) for value in (None, "1", [], NAN, INF)],
    *[("", "optimal_at", value) for value in (-1, 1.5, "1", [], NAN)],
    *[("", "error", value) for value in (1, [], {}, "two\nlines", False)],
    *[("", "versions", value) for value in (None, 1, [], "x", {"torch": 2}, {"torch": None})],
    *[("", name, value) for name in ("played_from", "device", "trainer", "precision") for value in (None, 1, ["x"])],
]
#: Whole contents of a file.
CONTENTS = {
    "nothing": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe\x00",
    "null": b"null",
    "a number": b"7",
    "a list": b"[1, 2]",
    "a text": b'"record"',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a deep field": json.dumps(WHOLE.to_dict()).encode()[:-1] + b', "colour": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "two records": json.dumps(WHOLE.to_dict()).encode() * 2,
    "half": json.dumps(WHOLE.to_dict()).encode()[:200],
    "zeros": bytes(4096),
}


def damaged(where: str, field: str, value: Any) -> bytes:
    plain = copy.deepcopy(WHOLE.to_dict())
    part = plain[where] if where else plain
    part.pop(field, None)
    if value is not ABSENT:
        part[field] = value
    return json.dumps(plain).encode()


def shown(case: tuple[str, str, Any]) -> str:
    where, field, value = case
    return f"{where}{'.' if where else ''}{field}={'absent' if value is ABSENT else repr(value)[:20]}"


CASES = [
    *[pytest.param(damaged(*case), id=shown(case)) for case in VALUES],
    *[pytest.param(content, id=name) for name, content in CONTENTS.items()],
]


@pytest.mark.parametrize("content", CASES)
def test_a_damaged_record_stops_its_run_with_one_line_and_stays(sqirl, tmp_path: Path, content: bytes) -> None:
    """The file may be the only trace of hours of work, or of a newer version: it is not written over."""
    path = RecordStore(tmp_path / "runs").path(CONFIG)
    path.parent.mkdir()
    path.write_bytes(content)
    told = sqirl("train", "gorp", EMPTY, "-m", "1", "--timesteps", "300", "-o", "runs")
    wrong(told, f"'{Path('runs') / path.name}' is not a record of a run (")
    assert told[2].endswith("); remove it, and the run is done again\n")
    assert path.read_bytes() == content and [each.name for each in path.parent.iterdir()] == [path.name]


def folder_of_damaged(folder: Path) -> RunRecord:
    """All damaged records of this module, a folder, a FIFO, a link to a device, and one whole record."""
    folder.mkdir()
    for number, case in enumerate(CASES):
        (folder / f"{number:04d}.json").write_bytes(case.values[0])
    (folder / "folder.json").mkdir()
    (folder / "device.json").symlink_to("/dev/zero")
    (folder / "loop.json").symlink_to("loop.json")
    os.mkfifo(folder / "fifo.json")
    RecordStore(folder).put(WHOLE)
    return WHOLE


def test_damaged_records_are_left_out_of_a_report_and_of_a_sweep(sqirl, tmp_path: Path) -> None:
    whole = folder_of_damaged(tmp_path / "runs")
    with pytest.warns(UserWarning, match=r"left out: .* is not a record of a run .* \(and \d+ others like it\)"):
        assert RecordStore(tmp_path / "runs").all() == [whole]
    code, out, err = sqirl("sweep", "smoke", "--dry-run", "--no-preview", "-o", "runs")
    assert (
        code == 0
        and "searches go on" in out
        and err.startswith("sqirl: note: left out: 'runs/")
        and err.count("\n") == 1
    )
    code, out, err = sqirl("report", "--runs", "runs", "--no-shipped", "--no-pictures", "-o", "page.html")
    assert (
        code == 0
        and out.endswith(" 1 run\n")
        and err.startswith("sqirl: note: left out: 'runs/")
        and err.count("\n") == 1
    )


def test_a_record_too_large_to_be_one_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_RECORD_BYTES", 100)
    path = RecordStore(tmp_path).put(WHOLE)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(SqirlError, match=r"is not a record of a run \(it has 0 MB, more than 0\)"):
        read_record(path)


def test_what_a_newer_version_adds_is_left_out(tmp_path: Path) -> None:
    plain = {**WHOLE.to_dict(), "colour": {"deep": [1, 2]}, "format": 99}
    (tmp_path / "r.json").write_text(json.dumps(plain))
    assert read_record(tmp_path / "r.json") == WHOLE


def test_a_sweep_goes_on_beside_a_run_whose_record_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is reported as failed, and the file stays."""
    records = RecordStore(tmp_path)
    path = records.path(CONFIG)
    path.write_text("{")
    [record] = worker.perform_tasks([worker.task_of(CONFIG)], str(tmp_path))
    assert f"'{path}' is not a record of a run" in record["error"] and path.read_text() == "{"


def test_two_writers_of_one_record_leave_one_of_them(tmp_path: Path) -> None:
    """A reader sees one or the other, never a mixture, and nothing else is left in the folder."""
    records, seen = RecordStore(tmp_path), []
    versions = [replace(WHOLE, seconds=float(number)) for number in (1, 2)]
    records.put(versions[0])

    def write(record: RunRecord) -> None:
        for _ in range(20):
            records.put(record)

    writers = [threading.Thread(target=write, args=(record,)) for record in versions]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen.append(records.get(CONFIG))
    for writer in writers:
        writer.join()
    assert seen and all(record in versions for record in seen)
    assert [path.name for path in tmp_path.iterdir()] == [f"{CONFIG.digest}.json"]


# Sweeps in TOML files ---------------------------------------------------------------------------------------------------

ENVS = f'envs = ["{EMPTY}"]\n'
#: The content of a file, and what the line names.
SWEEPS: dict[str, tuple[str | bytes, str]] = {
    "no TOML": ("these are words", "is not TOML"),
    "no text": (b"\xff\xfe\x00", "is not TOML"),
    "nothing": ("", "names no envs"),
    "a key twice": (ENVS + ENVS, "is not TOML"),
    "deep lists": ("envs = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    "deep tables": ("envs = [" + "{a=" * 900 + "1" + "}" * 900 + "]", "deeply"),
    "deep keys": ("a" + ".a" * 3000 + " = 1", "sets 'a'"),
    "an unknown key": (ENVS + "colour = 3", "'colour'"),
    "a long key": (ENVS + f'"{"k" * 5000}" = 1', "kkk"),
    "a key of two lines": (ENVS + '"a\\nb" = 1', "'a b'"),
    "values": (ENVS + "values = {k = [1]}", "'values'"),
    "no envs": ("envs = []", "names no envs"),
    "a number of envs": ("envs = 1", "envs = 1"),
    "a table of envs": ("envs = {a = 1}", "envs = {'a': 1}"),
    "an env without a name": ('envs = [""]', "''"),
    "an env of another folder": ('envs = ["BRIDGE/../../x-v0"]', "BRIDGE/../../x-v0"),
    "a MiniGrid of another folder": ('envs = ["BRIDGE/MiniGrid-../../x-v0"]', "MiniGrid-../../x-v0"),
    "a long env": (f'envs = ["{"x" * 10_000}"]', "xxxx"),
    "an env of two lines": ('envs = ["a\\nb"]', "'a b'"),
    "lists of envs": (f'envs = [["{EMPTY}"]]', "list of names"),
    "an algorithm, no list": (ENVS + 'algorithms = "gorp"', "'gorp'"),
    "an algorithm without a name": (ENVS + 'algorithms = [""]', "''"),
    "an algorithm that is a number": (ENVS + "algorithms = [1]", "(1,)"),
    "an unknown algorithm": (ENVS + 'algorithms = ["../sarsa"]', "../sarsa"),
    "seeds 0": (ENVS + "seeds = 0", "seeds = 0"),
    "seeds -1": (ENVS + "seeds = -1", "seeds = -1"),
    "many seeds": (ENVS + "seeds = 1" + 30 * "0", "seeds = 1000"),
    "seeds of 5,000 digits": (ENVS + "seeds = " + 5000 * "9", "is not TOML"),
    "half a seed": (ENVS + "seeds = 1.5", "seeds = 1.5"),
    "a date of seeds": (ENVS + "seeds = 2020-01-01", "2020"),
    "a list of seeds": (ENVS + "seeds = [0, 1]", "seeds = (0, 1)"),
    "baseline_seeds true": (ENVS + "baseline_seeds = true", "baseline_seeds = True"),
    "many baseline_seeds": (ENVS + "baseline_seeds = 99999999", "baseline_seeds = 99999999"),
    "timesteps 0": (ENVS + "timesteps = 0", "timesteps = 0"),
    "many timesteps": (ENVS + "timesteps = 1" + 30 * "0", "timesteps = 1000"),
    "timesteps nan": (ENVS + "timesteps = nan", "timesteps = nan"),
    "timesteps inf": (ENVS + "timesteps = inf", "timesteps = inf"),
    "timesteps in words": (ENVS + 'timesteps = "many"', "timesteps = 'many'"),
    "ks 0": (ENVS + "ks = [0]", "ks = 0"),
    "ks nan": (ENVS + "ks = [nan]", "ks = nan"),
    "ks in lists": (ENVS + "ks = [[1]]", "ks = [1]"),
    "many ks": (ENVS + "ks = [1" + 20 * "0" + "]", "ks = 1000"),
    "smallest_m of a list": (ENVS + "smallest_m = [1]", "smallest_m = (1,)"),
    "smallest_m 0": (ENVS + "smallest_m = 0", "smallest_m = 0"),
    "a large smallest_m": (ENVS + "smallest_m = 1" + 20 * "0", "smallest_m = 1000"),
    "rollouts of texts": (ENVS + 'rollouts = ["128"]', "'128'"),
    "many envs at once": (ENVS + "num_envs = [999999999]", "num_envs = 999999999"),
    "a name that is a number": (ENVS + "name = 5", "name = 5"),
    "a list of names": (ENVS + 'name = ["x"]', "name = ("),
    "a variant that is a number": (ENVS + "variant = 5", "variant = 5"),
    "an unknown variant": (ENVS + 'variant = "../x"', "../x"),
    "search 1": (ENVS + "search = 1", "search = 1"),
    "live of a list": (ENVS + "live = [true]", "live = (True,)"),
    "easiest_first in words": (ENVS + 'easiest_first = "yes"', "easiest_first = 'yes'"),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_wrong_sweep_is_one_line(sqirl, tmp_path: Path, name: str) -> None:
    content, named = SWEEPS[name]
    (tmp_path / "s.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    wrong(sqirl("sweep", "s.toml", "--no-preview", "-o", "runs"), named)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "large", "absent", "below a file"])
def test_a_sweep_that_is_no_file_is_not_read(sqirl, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.toml"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(3 << 30)  # its bytes take no room on the disk, but would in memory
    elif kind == "below a file":
        path.write_text("")
    wrong(sqirl("sweep", "s.toml/s.toml" if kind == "below a file" else "s.toml"), "s.toml'")


# Messages ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\nlines", "two lines"),
        ("  many \n\n\n  lines \n", "many lines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\ttab\rreturn\x00", "a\\ttab\\rreturn\\x00"),
        ("half a pair \ud800", "half a pair \\ud800"),
        ("Δ_k → J* …", "Δ_k → J* …"),
    ],
)
def test_every_message_is_one_line(text: str, line: str) -> None:
    assert one_line(text) == line == str(SqirlError(text))


def test_long_values_are_cut_and_the_words_around_them_stay() -> None:
    line = str(SqirlError(f"no env '{'x' * 10_000}'; did you mean y?"))
    assert line.startswith("no env 'xxx") and "x…x" in line and line.endswith("x'; did you mean y?") and len(line) < 400
    assert len(one_line("word " * 10_000)) <= LONGEST_MESSAGE


def test_errors_come_home_from_workers() -> None:
    error = MissingExtra("PyTorch", "train")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) and "sqirl[train]" in str(error)
