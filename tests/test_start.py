"""How soon `sqirl train` begins: what it does not import, and the processor time until its first step."""

from __future__ import annotations

import subprocess
import sys

import pytest

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
#: Packages that a run on a CPU does not need. matplotlib draws the curve when the run is over.
NOT_NEEDED = ("torch._dynamo", "sympy", "pandas", "sklearn", "distributed", "scipy.stats", "matplotlib")
#: Prints the processor time, and the packages that are imported, when the first step is about to be made; then after the last.
PROGRAM = f"""
import sys, time
from sqirl.runs import run
perform = run.Run.perform

def told(self):
    print("AT", time.process_time(), *[name for name in {NOT_NEEDED!r} if name in sys.modules])
    record = perform(self)
    print("END", *[name for name in {NOT_NEEDED!r} if name in sys.modules])
    return record

run.Run.perform = told
from sqirl.cli.main import run
run(sys.argv[1:])
"""
RUNS = {
    "ppo": ["ppo", EMPTY, "--timesteps", "256"],
    "dqn": ["dqn", EMPTY, "--timesteps", "256"],
    "sqirl": ["sqirl", EMPTY, "-k", "1", "-m", "2", "--timesteps", "200"],
    "gorp": ["gorp", EMPTY, "-k", "1", "-m", "2", "--timesteps", "200"],
}


def told(name: str, folder: object) -> tuple[float, list[str], list[str]]:
    """(processor seconds until the first step, packages not needed that are imported then, and at the end)."""
    command = [sys.executable, "-c", PROGRAM, "train", *RUNS[name], "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stderr.splitlines()]  # what is printed during a run goes there
    [at], [end] = ([line[1:] for line in lines if line[:1] == [word]] for word in ("AT", "END"))
    return float(at[0]), at[1:], end


@pytest.mark.parametrize("name", RUNS)
def test_a_run_imports_no_compiler(name: str, tmp_path) -> None:
    assert told(name, tmp_path)[1:] == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_the_first_step_comes_within_three_seconds(name: str, tmp_path, count) -> None:
    """Of processor time, the best of three."""
    seconds = min(told(name, tmp_path / str(attempt))[0] for attempt in range(3))
    count(f"milliseconds of processor time before the first step of {name}", round(1000 * seconds))
    assert seconds < 3


ADAM = """
import sys
import torch as th
from sqirl.algorithms.eager import without_compiler

def trained():
    weights = th.nn.Parameter(th.linspace(-1, 1, 7))
    adam = th.optim.Adam([weights], lr=0.1, weight_decay=0.01)
    for _ in range(5):
        adam.zero_grad()
        (weights ** 3).sum().backward()
        adam.step()
    again = th.optim.Adam([weights], lr=0.1)
    again.load_state_dict(adam.state_dict())
    again.step(lambda: th.zeros(()))
    assert weights.grad_fn is None and th.is_grad_enabled()
    return weights.tolist()

without_compiler()
without_compiler()
alone = trained()
assert "torch._dynamo" not in sys.modules
import torch._dynamo
assert trained() == alone
"""


def test_adam_without_the_compiler_is_adam() -> None:
    subprocess.run([sys.executable, "-c", ADAM], check=True)
