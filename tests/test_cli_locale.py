"""Any encoding of the terminal and any locale; Ctrl-C at any moment; nothing but our own lines on stderr."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from kills import hears_ctrl_c
from waiting import PATIENCE

SOURCE = Path(__file__).parent.parent / "src"
COMMAND = [sys.executable, "-c", "import sys; from sqirl_command import run; sys.exit(run())"]
FREEWAY = "BRIDGE/freeway_10_fs30-Sticky-v0"
ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run_with(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], env={**os.environ, **environment}, capture_output=True, timeout=100)


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, ASCII_LOCALE], ids=["ascii", "C"])
def test_a_terminal_without_greek_letters(environment: dict[str, str]) -> None:
    done = run_with(environment, "analyze", FREEWAY)
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode("ascii")
    assert "gap \\u0394" in text and "effective horizon within 10 %" in text


@pytest.mark.slow
def test_every_command_reads_and_writes_files_in_an_ascii_locale(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(f'name = "größe"\nenvs = ["{FREEWAY}"]\nseeds = 1\ntimesteps = 1000\n', encoding="utf-8")
    for arguments in (
        ("report", "--no-pictures", "-o", str(tmp_path / "page.html"), "--tables", str(tmp_path)),
        ("sweep", str(sweep), "--dry-run", "--no-preview"),
        ("diagnose", "FrozenLake-v1", "--horizon", "9", "--time-limit", "3", "-o", str(tmp_path / "found.html")),
        ("build", "BRIDGE/MiniGrid-Empty-5x5-v0", "-o", str(tmp_path / "grid.npz")),
    ):
        done = run_with(ASCII_LOCALE, *arguments)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, (arguments, done.stderr)
    assert "H̄" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_every_file_is_read_with_an_encoding() -> None:
    calls = re.compile(r"\.(read_text|write_text)\((?!.*utf-8)|\bopen\([^()]*\"[rwax]t?\"\)")
    lines = [(path, line) for path in SOURCE.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [(path.name, line) for path, line in lines if calls.search(line) and "lock" not in line.lower()]


#: The command, which prints a line as soon as it has chosen what Ctrl-C does: before that, Python itself is starting.
SAYS_WHEN = """
import signal, sys
from sqirl_command import run
choose = signal.signal
def choose_and_say(*arguments):
    signal.signal = choose
    before = choose(*arguments)
    print("ready", flush=True)
    return before
signal.signal = choose_and_say
sys.exit(run())
"""


def interrupted_after(seconds: float) -> tuple[int, str]:
    """(exit code, stderr) of a command that is sent Ctrl-C so many seconds after its first line is run."""
    command = [sys.executable, "-c", SAYS_WHEN, "analyze", "FrozenLake-v1", "--horizon", "20"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 0.3, 0.6])
def test_ctrl_c_while_it_starts_is_one_line(seconds: float) -> None:
    code, err = interrupted_after(seconds)
    assert code in (0, 2) and "Traceback" not in err  # 0: it was done already
    assert code == 0 or (err.startswith("sqirl: interrupted") and err.count("\n") == 1)


def test_the_help_and_the_import_are_fast() -> None:
    """At most 0.4 s of processor time each, the best of three, on an idle machine; a busy one is given twice as much."""
    for program in ("import sqirl", "import sys; sys.argv = ['sqirl', '--help']; from sqirl_command import run; run()"):
        measured = (
            "import atexit, resource; use = lambda: resource.getrusage(resource.RUSAGE_SELF); "
            "atexit.register(lambda: print('CPU', use().ru_utime + use().ru_stime)); " + program
        )
        outs = [
            subprocess.run([sys.executable, "-c", measured], capture_output=True, text=True, check=True)
            for _ in range(3)
        ]
        assert min(float(out.stdout.split("CPU")[1]) for out in outs) < 0.8


def test_warnings_of_libraries_do_not_reach_the_user(sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning of the user's env is a note; one of Gymnasium, here about its observation, is not."""
    (tmp_path / "noisy.py").write_text(
        """import warnings
import gymnasium as gym
from gymnasium import logger

class Noisy(gym.Env):
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(3)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        logger.warn("of a library")
        self.cell = 0
        return 0, {}
    def step(self, action):
        warnings.warn("of the env")
        self.cell = (self.cell + action) % 3
        return self.cell, 0.0, False, False, {}
""",
        encoding="utf-8",
    )
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    warnings.simplefilter("always")
    code, _, err = sqirl("check", "noisy.py:Noisy", "--steps", "3")
    assert code == 0 and "sqirl: note: of the env\n" in err and "of a library" not in err


@pytest.mark.slow
def test_the_emulator_prints_no_banner(tmp_path: Path) -> None:
    done = run_with({"SQIRL_HOME": str(tmp_path)}, "diagnose", "ALE/Pong-v5", "--horizon", "3", "--time-limit", "3")
    assert done.returncode == 0 and done.stderr == b""


def test_names_of_the_package() -> None:
    import sqirl

    assert dir(sqirl) == sorted(sqirl.__all__) and "build_mdp" in dir(sqirl)
    assert all(getattr(sqirl, name) is not None for name in dir(sqirl))
