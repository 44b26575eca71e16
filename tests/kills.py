"""Commands that are killed at random moments and given again, and what is left of their processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: Seconds in which all processes of a killed command must have ended.
PATIENCE = 30.0


def hears_ctrl_c() -> None:
    """In a new process: Ctrl-C has its usual effect, also where the tests were started in the background of a shell."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def processes_of(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, rest = (folder / "stat").read_text().rpartition(") ")
        except OSError:  # it has just ended
            continue
        state, _, _, its_session, *_ = rest.split()
        if int(its_session) == session and state != "Z":
            found.append(int(folder.name))
    return found


def killed_after(command: list[str], seconds: float, how: signal.Signals, env: dict[str, str]) -> tuple[bool, str]:
    """Start the command and end it: (was it ended before its end, what it said on stderr). No process of it may stay."""
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hears_ctrl_c,
    )  # fmt: skip
    time.sleep(seconds)
    was_running = process.poll() is None
    if was_running:
        os.kill(process.pid, how)
    deadline = time.monotonic() + PATIENCE
    while left := processes_of(process.pid):
        process.poll()
        assert time.monotonic() < deadline, f"{left} outlived a command that was ended with {how.name}"
        time.sleep(0.05)
    assert process.stderr is not None
    said = process.stderr.read()
    process.wait()
    return was_running, said


def ended_at_random_moments(
    command: list[str], folder: Path, *, kills: int, longest: float, check: Callable[[Path], None], seed: int
) -> tuple[dict[str, int], int]:
    """End the command at random moments until `kills` of them came before its end; (how often with each signal, chains).

    Every attempt goes on in the folder of the one before. Where the command reaches its end the folder is checked, and the next
    attempt starts in a new one. What Ctrl-C prints is one line, unless it comes while Python itself is still starting.
    """
    rng, counts, chains = random.Random(seed), dict.fromkeys((each.name for each in SIGNALS), 0), 0
    env = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    while sum(counts.values()) < kills:
        how, target = SIGNALS[sum(counts.values()) % len(SIGNALS)], folder / f"chain{chains}"
        was_running, said = killed_after([*command, str(target)], rng.uniform(0.2, 1.05) * longest, how, env)
        if was_running:
            counts[how.name] += 1
            assert how is not signal.SIGINT or "sqirl: " not in said or "Traceback" not in said, said
        else:
            check(target)
            chains += 1
    last = folder / f"chain{chains}"
    subprocess.run([*command, str(last)], env=env, check=True, capture_output=True)
    check(last)
    return counts, chains + 1
