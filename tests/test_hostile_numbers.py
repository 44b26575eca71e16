"""Ids and numbers that make no sense, or that ask for more memory and time than there is: one line, and nothing is made."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sqirl.analysis.bounds import BoundTerms
from sqirl.cli.options import parse_seeds, parse_steps
from sqirl.envs.ids import MAX_FRAMESKIP, MAX_HORIZON, MAX_LEVEL, EnvId, parse_id
from sqirl.errors import SqirlError
from sqirl.experiments.protocol import planned_run
from sqirl.experiments.sweeps import Sweep, check_sweep
from sqirl.runtime.workers import MAX_JOBS, WorkerPool
from told import wrong

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"
NINES, DIGITS = "9" * 30, "9" * 5000

#: An id that is none, and what the line names.
IDS = {
    "nothing": ("BRIDGE/", "'BRIDGE/'"),
    "no version": ("BRIDGE/freeway_10_fs30", "freeway_10_fs30"),
    "another version": ("BRIDGE/freeway_10_fs30-v1", "freeway_10_fs30-v1"),
    "sticky twice": ("BRIDGE/freeway_10_fs30-Sticky-Sticky-v0", "Sticky-Sticky"),
    "a folder up": ("BRIDGE/../x-v0", "BRIDGE/../x-v0"),
    "a game up": ("BRIDGE/../freeway_10_fs30-v0", "BRIDGE/../freeway"),
    "a MiniGrid up": ("BRIDGE/MiniGrid-../../x-v0", "MiniGrid-../../x"),
    "only dots": ("BRIDGE/MiniGrid-..-v0", "MiniGrid-..-v0"),
    "a MiniGrid of a folder": ("BRIDGE/MiniGrid-/etc/passwd-v0", "MiniGrid-/etc/passwd"),
    "a MiniGrid with a blank": ("BRIDGE/MiniGrid-Empty 5x5-v0", "Empty 5x5"),
    "a line break": ("BRIDGE/MiniGrid-Empty\n-v0", "MiniGrid-Empty -v0"),
    "a line break at the end": (f"{EMPTY}\n", "is not an environment id"),
    "a NUL": ("BRIDGE/MiniGrid-Empty\0-v0", "Empty\\x00"),
    "colours": ("BRIDGE/\x1b[31mred-v0", "\\x1b[31mred"),
    "half a pair": ("BRIDGE/\udcff-v0", "\\udcff"),
    "other digits": ("BRIDGE/freeway_１０_fs30-v0", "freeway_１０"),
    "horizon 0": ("BRIDGE/freeway_0_fs30-v0", "horizon 0 is outside 1..1,000,000"),
    "a long horizon": ("BRIDGE/freeway_1000001_fs30-v0", "horizon 1000001"),
    "a horizon of 30 digits": (f"BRIDGE/freeway_{NINES}_fs30-v0", "horizon 9999"),
    "a horizon of 5,000 digits": (f"BRIDGE/freeway_{DIGITS}_fs30-v0", "horizon 9999"),
    "a negative horizon": ("BRIDGE/freeway_-1_fs30-v0", "freeway_-1"),
    "frameskip 0": ("BRIDGE/freeway_10_fs0-v0", "frameskip 0 is outside 1..10,000"),
    "a long frameskip": ("BRIDGE/freeway_10_fs10001-v0", "frameskip 10001"),
    "a frameskip of 5,000 digits": (f"BRIDGE/freeway_10_fs{DIGITS}-v0", "frameskip 9999"),
    "a level of 33 bits": ("BRIDGE/maze_easy_l4294967296_30_fs1-v0", "level 4294967296"),
    "a level of 32 bits": ("BRIDGE/maze_easy_l2147483647_30_fs1-v0", "level 2147483647"),
    "a level of 5,000 digits": (f"BRIDGE/maze_easy_l{DIGITS}_30_fs1-v0", "level 9999"),
    "an unknown mode": ("BRIDGE/maze_cruel_l0_30_fs1-v0", "maze_cruel"),
    "10,000 letters": (f"BRIDGE/{'a' * 10_000}_10_fs30-v0", "aaaa"),
    "10,000 letters of MiniGrid": (f"BRIDGE/MiniGrid-{'a' * 10_000}-v0", "aaaa"),
    "10,000 letters of anything": ("x" * 10_000, "xxxx"),
    "10,000 letters of a file": ("x" * 10_000 + ".npz", "xxxx"),
    "3,000 folders": ("a/" * 3000 + "x.npz", "a/a/"),
    "arguments in arguments": ('FrozenLake-v1 {"a":' + '{"a":' * 5000 + "1" + "}" * 5001, "not JSON"),
    "lists in arguments": ('FrozenLake-v1 {"desc": ' + "[" * 5000 + "]" * 5000 + "}", "not JSON"),
    "a device": ("/dev/null.npz", "/dev/null.npz"),
    "a password": ("../../../etc/passwd", "../../../etc/passwd"),
}


@pytest.mark.parametrize("command", ["analyze", "train"])
@pytest.mark.parametrize("name", IDS)
def test_ids_that_are_none(sqirl, tmp_path: Path, command: str, name: str) -> None:
    env_id, named = IDS[name]
    call = {"analyze": ["analyze", env_id, "--horizon", "3"], "train": ["train", "gorp", env_id, "--timesteps", "9"]}
    told = sqirl(*call[command])
    if "\0" in env_id or "\udcff" in env_id:
        assert "\0" not in told[2] and told[2].isprintable() is False  # the line ends with a line break
    wrong(told, named)
    assert not list(tmp_path.iterdir()), "something was made"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"BRIDGE/maze_easy_l{MAX_LEVEL}_30_fs1-v0", EnvId("procgen", "maze", 30, 1, mode="easy", level=MAX_LEVEL)),
        (f"BRIDGE/freeway_{MAX_HORIZON}_fs30-v0", EnvId("atari", "freeway", MAX_HORIZON, 30)),
        (f"BRIDGE/freeway_10_fs{MAX_FRAMESKIP}-v0", EnvId("atari", "freeway", 10, MAX_FRAMESKIP)),
        ("BRIDGE/MiniGrid-ObstructedMaze-1Dlhb-Sticky-v0", EnvId("minigrid", "ObstructedMaze-1Dlhb", 100, sticky=True)),
    ],
)
def test_the_largest_numbers_are_numbers(text: str, expected: EnvId) -> None:
    assert parse_id(text) == expected and str(expected) == text


TRAINING = [
    *[(f"train gorp {{}} -m {value}", f"m = {value}") for value in ("0", "-1", "10000000000", 10**18, 2**63, NINES)],
    *[(f"train sqirl {{}} -m {value}", f"m = {value}") for value in ("1000000001", 2**64)],
    *[(f"train gorp {{}} -k {value}", f"k = {value}") for value in ("0", "-1", "101", "1000000000", NINES)],
    *[(f"train gorp CartPole-v1 -k {value}", f"k = {value}") for value in ("1001", "1000000000", NINES)],
    *[(f"train sqirl CartPole-v1 -k {value}", f"k = {value}") for value in ("1001", NINES)],
    *[(f"train ppo {{}} --rollout {value}", f"rollout = {value}") for value in ("0", "1000000001", NINES)],
    *[(f"train ppo {{}} --envs {value}", f"num_envs = {value}") for value in ("0", "10001", "999999999", NINES)],
    *[(f"train dqn {{}} --epsilon-steps {value}", f"epsilon_steps = {value}") for value in ("0", "-5", NINES)],
    *[(f"train gorp {{}} --seeds {value}", value) for value in ("0-4294967295", "4294967296", f"0-{NINES}", "1e3")],
    *[(f"train gorp {{}} --seeds '{value}'", f"'{value}'") for value in ("-1", "0,,1", "0;1", " ", "0-4-8")],
    *[
        (f"train gorp {{}} --timesteps {value}", value)
        for value in ("0", "1e400", "1e13", "nan", "inf", "k", "5kk", "_")
    ],
    *[(f"tune {{}} --timesteps {value}", value) for value in ("0", "1e400", "-5", "nan", "0.4")],
    *[(f"train gorp {{}} --device {value}", value) for value in ("tpu", "cpu:7", "cuda:99", "mps", "meta", "nonsense")],
    *[(f"sweep smoke --no-preview --device {value}", value) for value in ("tpu", "cpu:7", "nonsense")],
    *[(f"sweep smoke --no-preview --seeds {value}", value) for value in ("10001", NINES)],
    *[(f"tune {{}} --seeds {value}", value) for value in ("10001", NINES)],
    *[(f"sweep smoke --no-preview --variant {value}", value) for value in ("nonsense", "../x")],
    *[(f"sweep smoke --no-preview --env {value}", value) for value in ("nowhere", "BRIDGE/../x-v0")],
    *[(f"sweep {value}", value) for value in ("../x", "x.toml", "''", "smoke.toml")],
]


@pytest.mark.parametrize(("options", "named"), TRAINING)
def test_numbers_of_training(sqirl, tmp_path: Path, options: str, named: str) -> None:
    command = shlex.split(options.format(EMPTY))
    wrong(sqirl(*command, "-o", "runs"), named.strip("'") if named == "''" else named)
    assert not list(tmp_path.iterdir()), "something was made"


PARSED = [
    *[(f"train gorp {{}} -m {value}", "-m", value) for value in ("nan", "1.5", "0x10", "many", "''")],
    *[(f"train gorp {{}} --threads {value}", "--threads", value) for value in ("0", "-1", "1025", NINES, "nan")],
    *[(f"train gorp {{}} --members {value}", "--members", value) for value in ("0", "-1", "1.5", "all")],
    *[(f"train gorp {{}} --checkpoint-every {value}", "--checkpoint-every", value) for value in ("-1", "nan", "often")],
    *[(f"sweep smoke --jobs {value}", "--jobs", value) for value in ("0", "-1", "1025", NINES, "all")],
    *[(f"sweep smoke --time-limit {value}", "--time-limit", value) for value in ("-1", "nan", "soon")],
    *[(f"sweep smoke --time-limit={value}", "--time-limit", value) for value in ("-7", "later")],
    *[(f"tune {{}} --seeds {value}", "--seeds", value) for value in ("0", "-3", "x", "0-4")],
    *[(f"build {{}} --starts {value}", "--starts", value) for value in ("0", NINES)],
    *[(f"build {{}} --draws {value}", "--draws", value) for value in ("0", NINES)],
    *[(f"check {{}} --steps {value}", "--steps", value) for value in ("0", NINES)],
]


@pytest.mark.parametrize(("options", "flag", "value"), PARSED)
def test_the_parser_names_the_option_and_the_value(sqirl, options: str, flag: str, value: str) -> None:
    told = sqirl(*shlex.split(options.format(EMPTY)))
    wrong(told, f"'{flag}'")
    assert value in told[2] and told[2].endswith(f"; see `sqirl {options.split()[0]} --help`\n")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *[(f"analyze {{}} --horizon 5 --epsilon {value}", value) for value in ("0", "-1", "inf", "nan", "1e-320")],
        *[(f"analyze {{}} --horizon 5 --delta {value}", value) for value in ("0", "-1", "inf", "nan", "1e-320")],
        *[(f"analyze {{}} --horizon 5 --dimension {value}", value) for value in ("0", "inf", "1e+308")],
        *[(f"analyze {{}} --horizon 5 --discount {value}", value) for value in ("0", "5e-324", "1.0000001")],
        *[(f"analyze {{}} --horizon {value}", value) for value in ("0", "1000000000", NINES)],
        *[(f"diagnose {{}} --horizon 5 --time-limit {value}", value) for value in ("0", "1e+308", "inf")],
        ("whatif {} --horizon 5 --actions 0-9999999999", "0-9999999999"),
        (f"whatif {{}} --horizon {NINES}", NINES),
    ],
)
def test_numbers_of_analyses(sqirl, tmp_path: Path, options: str, named: str) -> None:
    np.savez(tmp_path / "m.npz", transitions=np.array([[0, 1], [0, 1]]), rewards=np.array([[0.0, 0.0], [0.0, 1.0]]))
    told = sqirl(*shlex.split(options.format("m.npz")))
    wrong(told, "")
    assert named in told[2] or f"{float(named):g}" in told[2]


def test_a_number_of_5000_digits(sqirl) -> None:
    wrong(sqirl("train", "gorp", EMPTY, "-m", DIGITS), "'-m'")
    wrong(sqirl("train", "gorp", EMPTY, "--seeds", DIGITS), "seeds '999")
    wrong(sqirl("train", "gorp", EMPTY, "--timesteps", DIGITS), "9999")
    wrong(sqirl("train", "gorp", EMPTY, "--seeds", "0," * 20_000 + "1"), "seeds '0,0,")


@pytest.mark.parametrize("command", [["sweep", "smoke", "--no-preview"], ["build", EMPTY]], ids=["sweep", "build"])
@pytest.mark.parametrize("address", ["nonsense", "tcp://", "", "http://x:1", "127.0.0.1"])
def test_no_cluster_at_the_address(sqirl, tmp_path: Path, command: list[str], address: str) -> None:
    """Told before any work is done, also by a command that would not have needed the cluster."""
    pytest.importorskip("distributed")
    wrong(sqirl(*command, "--cluster", address), f"no dask scheduler answers at '{address}'")
    assert not list(tmp_path.rglob("*.npz")) and not list(tmp_path.glob("home/runs/*"))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        *[(lambda value=value: BoundTerms(epsilon=value), "epsilon") for value in (0, -1, 5e-324, 2, float("inf"))],
        *[(lambda value=value: BoundTerms(delta=value), "delta") for value in (0, -1, 1e-300, 1.5, float("nan"))],
        *[(lambda value=value: BoundTerms(pseudo_dimension=value), "pseudo dimension") for value in (0, 1e308)],
        (lambda: BoundTerms(feature_dimension=1e200), "1e+200"),
        (lambda: planned_run("gorp", EMPTY, seed=-1), "seed = -1"),
        (lambda: planned_run("gorp", EMPTY, seed=2**32), "seed = 4294967296"),
        (lambda: planned_run("gorp", EMPTY, options={"m": 1.5}), "m = 1.5"),
        (lambda: planned_run("gorp", EMPTY, options={"m": True}), "m = True"),
        (lambda: planned_run("gorp", EMPTY, options={"m": "1"}), "m = '1'"),
        (lambda: planned_run("gorp", EMPTY, timesteps=10**12), "timesteps = 1000000000000"),
        (lambda: planned_run("gorp", EMPTY, timesteps=0.5), "timesteps = 0.5"),
        (lambda: check_sweep(Sweep("s", (EMPTY,), seeds=10**9)), "seeds = 1000000000"),
        (lambda: check_sweep(Sweep("s", (EMPTY,), values={"k": (10**9,)})), "ks = 1000000000"),
        (lambda: check_sweep(Sweep("s", (EMPTY,), values={"colour": (1,)})), "colour"),
        (lambda: WorkerPool(jobs=0), "0 jobs"),
        (lambda: WorkerPool(jobs=MAX_JOBS + 1), "1025 jobs"),
        (lambda: parse_seeds("0-9999999999"), "0-9999999999"),
        (lambda: parse_steps("1e11k"), "1e11k"),
    ],
)
def test_numbers_in_python(call: Callable[[], object], named: str) -> None:
    with pytest.raises(SqirlError) as caught:
        call()
    assert named in str(caught.value) and "\n" not in str(caught.value)
