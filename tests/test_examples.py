"""The examples run as a user runs them: in a folder of their own, with their output looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
#: Seconds; on one free core an example takes a few, and as many again to compile the analysis for the first time.
LIMIT = 240


@pytest.fixture
def example(tmp_path: Path):
    """Run an example in an empty folder; returns its stdout."""

    def run(name: str) -> str:
        environment = {**os.environ, "SQIRL_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", EXAMPLES / name],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_every_example_is_tested() -> None:
    tests = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f'example("{path.name}")' not in tests] == []


def test_analyse_my_env(example) -> None:
    out = example("analyse_my_env.py")
    assert "ok: it can be enumerated" in out and "7 states, 2 actions" in out
    assert "min k 4 " in out and "use k = 4." in out  # Q^1..Q^3 prefer the near door
    assert "Effective horizon 10.0 of 12 steps." in out and "With sticky actions: min k 3" in out


def test_train_sqirl_with_callbacks(example, tmp_path: Path) -> None:
    out = example("train_sqirl_with_callbacks.py")
    assert "iteration  0: mean return 0.0" in out  # the first iteration acts randomly
    assert "mean return 1.00, best evaluation 1.00" in out
    assert "loaded from out/lake.zip: mean return 1.00" in out
    assert (tmp_path / "out" / "best_model.zip").is_file()


def test_run_a_sweep(example, tmp_path: Path) -> None:
    out = example("run_a_sweep.py")
    assert re.search(
        r"gorp: 10,000 steps with k=1 m=8(, seen to be truly optimal after [\d,]+)? \(1 run, an evaluation every 10,000 steps\)",
        out,
    )
    assert "ppo: not solved (1 run)" in out and "\n2 runs:\n" in out
    assert len(list((tmp_path / "out" / "runs").glob("*.json"))) == 2


def test_plot_records(example, tmp_path: Path) -> None:
    out = example("plot_records.py")
    lines = [line.split() for line in out.splitlines() if line.startswith("BRIDGE/")]
    assert len(lines) == 12 and {line[1] for line in lines} == {"SQIRL", "GORP", "PPO", "DQN"}
    assert (tmp_path / "out" / "curves.png").stat().st_size > 10_000


def test_linear_mdp(example) -> None:
    out = example("linear_mdp.py")
    shares = [int(line.split(": ")[1].split(" %")[0]) for line in out.splitlines() if line.startswith("SQIRL with the")]
    tabular, linear = shares
    assert linear > 85 and tabular < linear - 30
    assert out.count("2-realizable (F contains Q^1..Q^2): yes") == 2 and out.count("no counterexample among") == 2


def test_diagnose_my_env(example) -> None:
    out = example("diagnose_my_env.py")
    assert out.startswith("TwoDoors (exact)") and "What to do" in out
    assert "frame skip 2" in out and "exploration policy" in out
