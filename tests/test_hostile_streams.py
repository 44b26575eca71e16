"""Streams that are closed or full, folders that are gone, links in a circle, modules with our names beside, a lost Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from told import wrong

COMMAND = f'{sys.executable} -c "import sys; from sqirl_command import run; sys.exit(run())"'
#: A device that is always full; only Linux has one.
FULL = Path("/dev/full")
TRAIN = "train gorp FrozenLake-v1 --horizon 4 -m 1 --timesteps 60 -o runs"
EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"


def shell(line: str, folder: Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a line of bash in which `sqirl` is the command as it is installed."""
    if str(FULL) in line and not FULL.exists():
        pytest.skip(f"there is no {FULL} here")
    script = f'sqirl() {{ {COMMAND} "$@"; }}\n{line}'
    env = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "command", ["--help", "--version", "envs", "envs freeway --json", "sweep smoke --dry-run --no-preview"]
)
@pytest.mark.parametrize(
    ("redirection", "code", "named"),
    [(">/dev/full", 1, "No space left on device: stdout"), (">&-", 2, "stdout is closed")],
)
def test_a_result_that_cannot_be_written_is_one_line(
    tmp_path: Path, command: str, redirection: str, code: int, named: str
) -> None:
    wrong(shell(f"sqirl {command} {redirection}", tmp_path), named, code)


@pytest.mark.parametrize(
    "command", ["--help", "envs", "envs --json", "envs --markdown", "analyze FrozenLake-v1 --horizon 4"]
)
def test_a_reader_that_has_gone_is_no_error(tmp_path: Path, command: str) -> None:
    code, out, err = shell(f"set -o pipefail; sqirl {command} | head -c 1", tmp_path)
    assert (code, len(out), err) == (0, 1, "")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_notes_that_cannot_be_written_do_not_end_the_work(tmp_path: Path, redirection: str) -> None:
    """They are not mixed into the result either."""
    code, out, _ = shell(f"sqirl {TRAIN} --json {redirection}", tmp_path)
    assert code == 0 and out.startswith("{") and out.count("\n") == 1
    assert {path.suffix for path in (tmp_path / "runs").iterdir()} == {".json", ".png", ".policy"}
    assert shell(f"sqirl nothing {redirection}", tmp_path)[:2] == (2, "")


def test_a_result_that_cannot_be_printed_is_kept(tmp_path: Path) -> None:
    code, out, err = shell(f"sqirl {TRAIN} >/dev/full", tmp_path)
    assert code == 1 and not out and err.splitlines()[-1] == "sqirl: No space left on device: stdout"
    assert len(list((tmp_path / "runs").glob("*.json"))) == 1
    assert shell(f"sqirl {TRAIN}", tmp_path)[1].startswith("gorp k=1 m=1 seed 0 on FrozenLake-v1")


@pytest.mark.parametrize(
    "option",
    [
        "report -o", "report --tables", "report --figures", "report --runs", "build FrozenLake-v1 --horizon 3 -o",
        "build FrozenLake-v1 --from", "build FrozenLake-v1 --pack", "train gorp FrozenLake-v1 -o", "tune FrozenLake-v1 -o",
        "sweep smoke -o", "diagnose FrozenLake-v1 -o", "analyze FrozenLake-v1 --plot", "analyze FrozenLake-v1 --policy-map",
        f"screens {EMPTY} -o", "whatif FrozenLake-v1 --horizon 3 --plot", "watch x -o", "watch x --runs",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["", "-"])
def test_a_path_that_is_none(sqirl, tmp_path: Path, option: str, path: str) -> None:
    wrong(sqirl(*option.split(), path), f"'{path}' is not the name of a file or a folder")
    assert not list(tmp_path.iterdir())


def circle(folder: Path, name: str) -> Path:
    """A link to itself."""
    (folder / name).symlink_to(name)
    return folder / name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("report --no-pictures -o", "page.html"), ("report --runs", "runs"), ("report --tables", "tables"), ("analyze", "x.npz"),
        ("sweep", "s.toml"), ("watch", "m.policy"),
        (f"train gorp {EMPTY} -m 1 --timesteps 200 -o", "runs"), (f"build {EMPTY} -o", "x.npz"),
        (f"build {EMPTY} --from", "x.tar"), (f"analyze {EMPTY} --plot", "x.png"), ("diagnose FrozenLake-v1 -o", "x.html"),
    ],
)  # fmt: skip
def test_links_in_a_circle(sqirl, tmp_path: Path, command: str, name: str) -> None:
    link = circle(tmp_path, name)
    wrong(sqirl(*command.split(), name), name)
    assert link.is_symlink() and [path.name for path in tmp_path.iterdir() if path.name != "home"] == [name]


@pytest.mark.parametrize("source", ["nothing.tar", "/dev/zero", "/dev/null"])
def test_what_is_no_packed_build_is_not_to_be_removed(sqirl, source: str) -> None:
    result = sqirl("build", EMPTY, "--from", source)
    wrong(result, f"no file or folder '{source}' to go on from")
    assert "remove" not in result[2]


def test_the_current_folder_was_removed(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    for command in ("envs", TRAIN):
        code, out, err = shell(
            f"cd gone && rmdir ../gone && sqirl {command}; code=$?; mkdir ../gone; exit $code", tmp_path
        )
        (tmp_path / "gone").mkdir(exist_ok=True)
        wrong((code, out, err), "the current folder was removed")


SHADOWED = ("sqirl", "types", "numpy", "torch", "random", "json", "typing", "gymnasium", "numba", "scipy", "matplotlib")


def test_modules_with_names_of_libraries_beside(tmp_path: Path) -> None:
    """A user's folder may hold a `random.py`; it is neither run nor imported instead of the library."""
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the user was imported')\n")
    (tmp_path / "mine.py").write_text(
        "import gymnasium as gym\n"
        "class Env(gym.Env):\n"
        "    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(3)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        self.cell = 0\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        self.cell = min(self.cell + action, 2)\n"
        "        return self.cell, float(self.cell == 2), self.cell == 2, False, {}\n"
    )
    program = f"{Path(sys.executable).parent}/sqirl"
    if not Path(program).exists():
        pytest.skip("the command is not installed here")
    for command in (
        "envs freeway",
        "analyze mine.py:Env --horizon 4",
        "train gorp mine.py:Env --horizon 4 -m 1 --timesteps 50",
    ):
        done = subprocess.run([program, *command.split()], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "of the user" not in done.stdout + done.stderr, (command, done.stderr)


@pytest.mark.parametrize("name", ["types", "random", "torch", "gymnasium", "sqirl"])
def test_a_file_with_the_name_of_a_library_is_not_put_in_its_place(sqirl, tmp_path: Path, name: str) -> None:
    before = sys.modules.get(name)
    (tmp_path / f"{name}.py").write_text("class Env: pass\n")
    wrong(sqirl("check", f"{name}.py:Env"), f"has the name of a library, {name}; rename the file")
    assert sys.modules.get(name) is before


#: Ctrl-C comes while C calls Python, where Python can only print it and go on.
LOST = """
import ctypes, os, signal
import gymnasium as gym

@ctypes.CFUNCTYPE(None)
def called_by_c():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass

class Env(gym.Env):
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(3)
    steps = 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}
    def step(self, action):
        Env.steps += 1
        if Env.steps == 1:
            called_by_c()
        return 0, 0.0, False, False, {}
"""


def test_ctrl_c_is_not_lost_where_c_calls_python(tmp_path: Path) -> None:
    (tmp_path / "lost.py").write_text(LOST)
    code, out, err = shell("sqirl train ppo lost.py:Env --horizon 50 --timesteps 100M -o runs", tmp_path)
    assert (code, out) == (2, "") and "Traceback" not in err and "ignored" not in err
    assert err.splitlines()[-1].startswith("sqirl: interrupted; nothing is left half-written")
