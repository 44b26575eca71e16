"""Without the optional packages: what needs none of them works, and all else says in one line what to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Runs commands in a process that cannot find some packages; prints [exit code, stdout, stderr] of each as a line of JSON.
PROGRAM = """
import contextlib, importlib.machinery, io, json, sys
blocked, commands = json.loads(sys.argv[1])
found = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, *more: None if name.partition(".")[0] in blocked else found(name, *more)
)
from sqirl.cli.main import run
for command in commands:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run(command)
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException as error:
            code = repr(error)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
OPTIONAL = [
    "torch",
    "stable_baselines3",
    "ale_py",
    "minigrid",
    "procgen",
    "distributed",
    "dask",
    "sklearn",
    "tqdm",
    "pygame",
]
GRID = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
NEED = {
    f"train sqirl {GRID} -k 1 -m 4 --timesteps 1k": "pip install 'sqirl[train]'",
    f"train gorp {GRID} -k 1 -m 4 --timesteps 1k": "pip install 'sqirl[train]'",
    "train ppo CartPole-v1 --timesteps 1k": "pip install 'sqirl[train]'",
    "train dqn PongNoFrameskip-v4 --timesteps 1k": "pip install 'sqirl[",
    "sweep smoke --no-preview": "pip install 'sqirl[train]'",
    "sweep smoke --dry-run": "pip install 'sqirl[train]'",
    f"tune {GRID} --timesteps 1k": "pip install 'sqirl[train]'",
    "build BRIDGE/freeway_10_fs30-v0": "pip install 'sqirl[atari]'",
    "build BRIDGE/MiniGrid-Empty-5x5-v0": "pip install 'sqirl[minigrid]'",
    "build BRIDGE/maze_easy_l9_10_fs1-v0": "pip install --no-deps procgen-mirror",
    "analyze ALE/Pong-v5 --horizon 3": "pip install 'sqirl[atari]'",
    "check MiniGrid-Empty-8x8-v0": "pip install 'sqirl[minigrid]'",
    f"screens {GRID}": "pip install 'sqirl[minigrid]'",
}  # fmt: skip
WORK = (
    f"analyze {GRID} --json",
    "envs freeway",
    "report --no-pictures -o page.html",
    "check FrozenLake-v1 --steps 50",
    "doctor",
)


def run_without(packages: list[str], commands: list[str], folder: Path) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of each command, in one process without these packages."""
    asked = json.dumps([packages, [command.split() for command in commands]])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, asked], cwd=folder, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_what_needs_more_says_what_to_install_in_one_line(tmp_path: Path) -> None:
    results = run_without(OPTIONAL, list(NEED), tmp_path)
    for (command, fix), (code, out, err) in zip(NEED.items(), results, strict=True):
        assert code == 2 and fix in err and err.count("\n") == 1 and not out, (command, code, err)


def test_everything_else_works(tmp_path: Path) -> None:
    results = dict(zip(WORK, run_without(OPTIONAL, list(WORK), tmp_path), strict=True))
    analyzed, envs, report, checked, doctor = (results[command] for command in WORK)
    assert analyzed[0] == 0 and json.loads(analyzed[1])["env_id"] == GRID and analyzed[2] == ""
    assert envs[0] == 0 and "freeway_10" in envs[1]
    assert report[0] == 0 and (tmp_path / "page.html").stat().st_size > 100_000
    assert checked[0] == 0 and "read from P" in checked[1]
    assert doctor[0] == 1
    for fix in (
        "'sqirl[train]'",
        "'sqirl[atari]'",
        "'sqirl[minigrid]'",
        "'sqirl[cluster]'",
    ):
        assert f"pip install {fix}" in doctor[1], fix


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["torch", "stable_baselines3"])
def test_one_of_the_two_packages_for_training_is_missing(missing: str, tmp_path: Path) -> None:
    needing = [command for command in NEED if command.startswith(("train sqirl", "train ppo", "tune", "sweep"))]
    verify = "diagnose FrozenLake-v1 --horizon 9 --time-limit 3 --verify"
    for code, _, err in run_without([missing], [*needing, verify], tmp_path):
        lines = [line for line in err.splitlines() if not line.startswith("sqirl: compiling")]  # on a new machine
        assert code == 2 and "pip install 'sqirl[train]'" in lines[0] and len(lines) == 1, err
