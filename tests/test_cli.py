"""The command line as a person types it: results on stdout, one clear line on stderr, the right exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from kills import hears_ctrl_c
from sqirl.envs.catalogue import catalogue
from sqirl.mdp.tabular import TabularMDP
from test_tabular import bad_files
from waiting import PATIENCE, wait_until

TESTS = Path(__file__).parent


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_envs_lists_filters_and_speaks_json(sqirl) -> None:
    code, out, _ = sqirl("envs")
    assert code == 0 and "155 environments" in out and all(str(row.env_id) in out for row in catalogue())
    code, out, _ = sqirl("envs", "maze", "--suite", "procgen", "--json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 5 and {row["suite"] for row in rows} == {"procgen"}
    assert rows[0]["paper_optimal"] == "10.00" and rows[0]["paper_steps"]["ppo"] is not None
    code, out, _ = sqirl("envs", "--markdown")
    table, _, growth = out.partition("## How far")
    assert code == 0 and table.count("| `BRIDGE/") == 155 and "core hours" in growth


def test_the_page_of_the_docs_is_what_the_command_prints(sqirl) -> None:
    page = (TESTS.parent / "docs" / "bridge.md").read_text()
    assert sqirl("envs", "--markdown")[1] == page, "run `make docs`"


KEYS = {
    "env_id",
    "horizon",
    "num_actions",
    "num_states",
    "sticky",
    "discount",
    "optimal_return",
    "random_return",
    "worst_return",
    "greedy_returns",
    "min_k",
    "approx_min_k",
    "gaps",
    "decisive_gaps",
    "effective_horizons",
    "effective_horizon",
    "effective_planning_window",
    "bounds",
}


def test_build_then_analyze_a_file(sqirl, tmp_path: Path) -> None:
    code, out, _ = sqirl("build", "BRIDGE/MiniGrid-Empty-5x5-v0", "-o", "empty.npz", "--merge", "screen")
    assert code == 0 and "32 states" in out and "closed" in out
    code, out, _ = sqirl("analyze", "empty.npz", "--sticky", "0.25", "--json", "--plot", "plot.png")
    record = json.loads(out)
    assert code == 0 and record.keys() >= KEYS
    assert record["optimal_return"] == pytest.approx(1.0) and record["min_k"] == 1 and record["sticky"] == 0.25
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = sqirl("analyze", "empty.npz", "--sticky", "0.25")
    assert code == 0 and "min k 1" in out and "effective horizon" in out
    assert sqirl("analyze", "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", "--json", "--max-k", "4")[0] == 0


def test_toy_text_by_id(sqirl) -> None:
    code, out, _ = sqirl("analyze", "FrozenLake-v1", "--horizon", "50", "--json")
    record = json.loads(out)
    assert (
        code == 0 and record["num_actions"] == 4 and record["num_states"] == 11 and 0.4 < record["optimal_return"] < 0.7
    )
    assert sqirl("analyze", "CliffWalking-v1", "--horizon", "20")[0] == 0
    assert sqirl("analyze", "Taxi-v3", "--horizon", "20", "--search-k", "6")[0] == 0


def test_the_witness_is_drawn(sqirl, tmp_path: Path) -> None:
    code, out, _ = sqirl("analyze", "BRIDGE/MiniGrid-FourRooms-Sticky-v0", "--picture", "w.png")
    assert code == 0 and "fails" in out and (tmp_path / "w.png").stat().st_size > 5000


def test_a_partial_build_is_saved_says_so_and_exits_1(sqirl, tmp_path: Path) -> None:
    code, out, err = sqirl("build", "BRIDGE/MiniGrid-DoorKey-6x6-v0", "-o", "part.npz", "--max-states", "200")
    assert (
        code == 1 and "partial" in err and "--max-states" in err and TabularMDP.load(tmp_path / "part.npz").is_partial
    )
    code, out, err = sqirl("analyze", "part.npz")
    assert code == 2 and "enumerated to" in err and not out


def test_builds_go_to_the_store_and_are_found_there(sqirl, own_store: Path) -> None:
    assert sqirl("build", "BRIDGE/MiniGrid-Empty-6x6-v0", "BRIDGE/MiniGrid-LavaGapS5-v0")[0] == 0
    assert files_in(own_store) == {"mdps/MiniGrid-Empty-6x6.npz", "mdps/MiniGrid-LavaGapS5.npz"}


def test_check(sqirl) -> None:
    assert sqirl("check", "envs_for_tests:Corridor", "--steps", "200")[0] == 0
    code, out, _ = sqirl("check", "envs_for_tests:ForgetfulKey", "--json")
    assert code == 1 and "the same key" in json.loads(out)["problem"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze", "BRIDGE/MiniGrid-DorKey-5x5-v0"], "DorKey-5x5"),
        (["analyze", "BRIDGE/pong_20-v0"], "scheme"),
        (["analyze", "pong_20_fs30"], "BRIDGE/pong_20_fs30-v0"),
        (["analyze", "NoSuchEnv-v0"], "NoSuchEnv-v0"),
        (["analyze", "missing.npz"], "no file"),
        (["analyze", "FrozenLake-v1", "--horizon", "0"], "horizon 0 is below 1"),
        (["analyze", "FrozenLake-v1", "--sticky", "1.5"], "stickiness 1.5"),
        (["analyze", "FrozenLake-v1", "--max-k", "0"], "max_k 0"),
        (["analyze", "FrozenLake-v1", "--discount", "2"], "discount 2"),
        (["analyze", "FrozenLake-v1", "--plot", "x.bmp"], "figures are written as"),
        (["analyze", "envs_for_tests:Continuous", "--horizon", "5"], "Discrete"),
        (["analyze", "Pendulum-v1", "--horizon", "5"], "Discrete"),
        (["analyze", "envs_for_tests:Corridor"], "--horizon"),
        (["build", "envs_for_tests:Continuous", "--horizon", "5"], "Discrete"),
        (["build", "A", "B", "-o", "one.npz"], "give a folder"),
        (["build", "BRIDGE/MiniGrid-Empty-5x5-v0", "--horizon", "0"], "below 1"),
        (["check", "nowhere:Env"], "nowhere"),
        (["envs", "--suite", "nintendo"], "nintendo"),
        (["envs", "zelda"], "no environment of the paper has 'zelda' in its id"),
        (["envs", "pong", "--suite", "minigrid"], "no environment of the suite minigrid has 'pong' in its id"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_a_wrong_call_is_one_clear_line_exit_2_and_nothing_written(
    sqirl, tmp_path: Path, arguments: list[str], message: str
) -> None:
    before = files_in(tmp_path)
    code, out, err = sqirl(*arguments)
    assert code == 2 and message in err and not out and "Traceback" not in err
    if err.startswith("sqirl:"):
        assert err.count("\n") == 1
    assert files_in(tmp_path) == before


def test_bad_files_are_one_line_and_exit_2(sqirl, tmp_path: Path) -> None:
    for name, message in bad_files(tmp_path).items():
        code, out, err = sqirl("analyze", name, "--horizon", "5")
        assert code == 2 and message in err and err.count("\n") == 1 and not out


def test_probabilities_that_do_not_sum_to_one_in_a_file(sqirl, tmp_path: Path) -> None:
    np.savez(
        tmp_path / "p.npz",
        rewards=np.zeros((1, 2)),
        indptr=np.array([0, 1, 2]),
        next_states=np.zeros(2, np.int32),
        probabilities=np.array([1.0, 0.5]),
        outcome_rewards=np.zeros(2),
    )
    code, _, err = sqirl("analyze", "p.npz", "--horizon", "5")
    assert code == 2 and "sum to 0.5, not 1" in err


def test_a_missing_extra_says_what_to_install(sqirl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    code, _, err = sqirl("build", "BRIDGE/MiniGrid-Empty-5x5-v0")
    assert code == 2 and "pip install 'sqirl[minigrid]'" in err and err.count("\n") == 1


def test_ctrl_c_during_a_build_leaves_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sqirl.cli.main",
        "build",
        "BRIDGE/MiniGrid-KeyCorridorS4R3-v0",
        "-o",
        str(tmp_path / "k.npz"),
    ]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    )
    wait_until(lambda: list((tmp_path / "home" / "builds").glob("*/rows_*")), "the first level of the build")
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and err.strip().splitlines()[-1].startswith(
        "sqirl: interrupted; nothing is left half-written"
    )
    assert "Traceback" not in err and not out
    assert not [name for name in files_in(tmp_path) if not name.startswith("home/builds/")]


def test_help_loads_neither_torch_nor_numba() -> None:
    code = (
        "import sys, sqirl.cli.main; sys.exit(any(m in sys.modules for m in ('torch', 'numba', 'matplotlib', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_version_also_as_a_module() -> None:
    told = subprocess.run([sys.executable, "-m", "sqirl", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"sqirl {version('sqirl')}\n" and told.stderr == ""
