"""Wrong inputs of the command line and of Python: one line that names what is wrong, an exit code, and no traceback."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from envs_for_tests import Corridor
from sqirl.analysis.bounds import BoundTerms
from sqirl.cli.options import parse_seeds, parse_steps
from sqirl.diagnosis.diagnose import diagnose
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import open_mdp
from sqirl.mdp.tabular import TabularMDP
from told import wrong

CORRIDOR = "envs_for_tests:Corridor"
EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that are no MDPs, and one that is."""
    (tmp_path / "words.npz").write_text("these are only words\n")
    (tmp_path / "nothing.npz").touch()
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "plain.txt").write_text("a file, not a folder")
    (tmp_path / "words.json").write_text("not JSON")
    (tmp_path / "minus.json").write_text("[-0.5, 1.5]")
    (tmp_path / "three.json").write_text("[0.2, 0.3, 0.5]")
    (tmp_path / "half.json").write_text("[0.25, 0.25]")
    (tmp_path / "words.npy").write_text("not an array")
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    np.savez(tmp_path / "good.npz", transitions=np.array([[0, 1], [0, 1]]), rewards=np.array([[0.0, 0.0], [0.0, 1.0]]))
    return tmp_path


NAMES = [
    ("gymnasium:Env", "gymnasium:Env"),
    ("NoSuchPackage/Game-v0", "NoSuchPackage/Game-v0"),
    ("no_such_package:Env", "no_such_package"),
    ("no.such.package:Env", "no.such.package"),
    ("no_such_package:Game-v0", "no_such_package"),
    ("envs_for_tests:Nowhere", "Nowhere"),
    ("envs_for_tests:not_an_env", "not_an_env"),
    ("envs_for_tests:broken", "broken"),
    ("envs_for_tests:", "envs_for_tests:"),
    (":Corridor", ":Corridor"),
    (":", ":"),
    ("envs_for_tests:Corridor:Corridor", "Corridor:Corridor"),
    ("envs_for_tests.Corridor", "envs_for_tests.Corridor"),
    ("collections:OrderedDict", "OrderedDict"),
    ("pathlib:Path", "Path"),
    ("math:pi", "pi"),
    ("json:dumps", "dumps"),
    ("os:environ", "environ"),
    ("FrozenLake-v99", "FrozenLake-v99"),
    ("FrozenLake-", "FrozenLake-"),
    ("BRIDGE/", "BRIDGE/"),
    ("BRIDGE/nothing-v0", "BRIDGE/nothing-v0"),
    ("../elsewhere", "../elsewhere"),
    ("game.npy", "game.npy"),
    ("a name with spaces", "a name with spaces"),
    ("FrozenLake-v1 {", "{"),
    ("FrozenLake-v1 {]}", "{]}"),
    ('FrozenLake-v1 {"nothing": 1}', "nothing"),
]


@pytest.mark.parametrize("command", ["analyze", "check"])
@pytest.mark.parametrize(("name", "named"), NAMES)
def test_names_of_envs(sqirl, command: str, name: str, named: str) -> None:
    wrong(sqirl(command, name, *([] if command == "check" else ["--horizon", "5"])), named)


@pytest.mark.parametrize(("name", "named"), NAMES)
def test_names_of_envs_in_python(name: str, named: str) -> None:
    with pytest.raises(SqirlError) as caught:
        open_mdp(name, horizon=5)
    assert named in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["build", "whatif"])
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("length", "length"),
        ("{length: 4}", "{length: 4}"),
        ("{'length': 4}", "{'length': 4}"),
        ('{"length": }', '{"length": }'),
        ('{"length": 4', '{"length": 4'),
        ('{"length": 4} 5', '{"length": 4} 5'),
        ("[4]", "[4]"),
        ("4", "4"),
        ("null", "null"),
        ("true", "true"),
        ('"length"', "length"),
        ('{"width": 4}', "width"),
        ('{"length": "four"}', "Corridor"),
    ],
)
def test_arguments_of_envs(sqirl, command: str, text: str, named: str) -> None:
    horizon = [] if command == "check" else ["--horizon", "5"]
    wrong(sqirl(command, CORRIDOR, "--env-kwargs", text, *horizon), named)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("analyze --horizon -3", "-3"),
        ("analyze --horizon 5 --sticky 2", "2"),
        ("analyze --horizon 5 --sticky -0.1", "-0.1"),
        ("analyze --horizon 5 --sticky nan", "nan"),
        ("analyze --horizon 5 --discount nan", "nan"),
        ("analyze --horizon 5 --discount -1", "-1"),
        ("analyze --horizon 5 --discount inf", "inf"),
        ("analyze --horizon 5 --tolerance -0.5", "-0.5"),
        ("analyze --horizon 5 --tolerance 1.5", "1.5"),
        ("analyze --horizon 5 --tolerance nan", "nan"),
        ("analyze --horizon 5 --epsilon 0", "0"),
        ("analyze --horizon 5 --epsilon -1", "-1"),
        ("analyze --horizon 5 --epsilon 1.5", "1.5"),
        ("analyze --horizon 5 --epsilon nan", "nan"),
        ("analyze --horizon 5 --delta 0", "0"),
        ("analyze --horizon 5 --delta -0.2", "-0.2"),
        ("analyze --horizon 5 --delta nan", "nan"),
        ("analyze --horizon 5 --dimension 0", "0"),
        ("analyze --horizon 5 --dimension nan", "nan"),
        ("analyze --horizon 5 --pseudo-dimension -2", "-2"),
        ("analyze --horizon 5 --max-k -1", "-1"),
        ("build --horizon -3", "-3"),
        ("build --horizon 5 --merge colour", "colour"),
        ("diagnose --horizon 5 --time-limit 0", "0"),
        ("diagnose --horizon 5 --time-limit -1", "-1"),
        ("diagnose --horizon 5 --time-limit nan", "nan"),
        ("diagnose --horizon 5 --time-limit inf", "inf"),
        ("diagnose --horizon 5 --out page.txt", "page.txt"),
        ("whatif --horizon 0", "0"),
        ("whatif --horizon five", "five"),
        ("whatif --horizon 5,,x", "x"),
        ("whatif --horizon 5 --sticky 2", "2"),
        ("whatif --horizon 5 --sticky nan", "nan"),
        ("whatif --horizon 5 --sticky 0,often", "often"),
        ("whatif --horizon 5 --frame-skip 0", "0"),
        ("whatif --horizon 5 --frame-skip 1.5", "1.5"),
        ("whatif --horizon 5 --discount nan", "nan"),
        ("whatif --horizon 5 --discount 1.2", "1.2"),
        ("whatif --horizon 5 --actions 0-9", "9"),
        ("whatif --horizon 5 --actions left", "left"),
        ("whatif --horizon 5 --actions 1-0", "actions []"),
        ("whatif --horizon 5 --actions 1+1", "[1, 1]"),
        ("whatif --horizon 5 --exploration none.json", "none.json"),
        ("whatif --horizon 5 --exploration greedy", "greedy"),
        ("whatif --horizon 5 --exploration words.json", "words.json"),
        ("whatif --horizon 5 --exploration words.npy", "words.npy"),
        ("whatif --horizon 5 --exploration minus.json", "exploration policy"),
        ("whatif --horizon 5 --exploration three.json", "3"),
        ("whatif --horizon 5 --exploration half.json", "exploration policy"),
        ("whatif --horizon 5 --shape nowhere:potential", "nowhere"),
        ("whatif --horizon 5 --shape envs_for_tests:potential", "potential"),
        ("whatif --horizon 5 --shape potential", "potential"),
        ("whatif --horizon 5 --shape math:pi", "pi"),
        ("whatif --horizon 5 --plot table.bmp", "table.bmp"),
    ],
)
def test_numbers_and_requests(sqirl, folder: Path, options: str, named: str) -> None:
    command, *others = shlex.split(options)
    env = CORRIDOR if command in ("build", "check") else "good.npz"
    wrong(sqirl(command, env, *others), named)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("train sqirl {} --seeds ''", "''"),
        ("train sqirl {} --seeds x", "x"),
        ("train sqirl {} --seeds 4-0", "4-0"),
        ("train sqirl {} --seeds 1,1", "1,1"),
        ("train sqirl {} --seeds 0.5", "0.5"),
        ("train sqirl {} --seeds 0-99999999", "0-99999999"),
        ("train sqirl {} -m 0", "0"),
        ("train sqirl {} -m -4", "-4"),
        ("train sqirl {} -k 0", "0"),
        ("train sqirl {} --timesteps 0", "0"),
        ("train sqirl {} --timesteps many", "many"),
        ("train sqirl {} --timesteps nan", "nan"),
        ("train sarsa {}", "sarsa"),
        ("tune {} --algorithm sarsa", "sarsa"),
        ("sweep nowhere", "nowhere"),
        ("sweep nowhere.toml", "nowhere.toml"),
        ("sweep smoke --algorithm sarsa", "sarsa"),
        ("sweep smoke --timesteps none", "none"),
        ("screens nowhere", "nowhere"),
    ],
)
def test_numbers_of_training(sqirl, options: str, named: str) -> None:
    wrong(sqirl(*shlex.split(options.format(EMPTY))), named)


@pytest.mark.parametrize("command", ["analyze", "diagnose", "whatif"])
@pytest.mark.parametrize("name", ["words.npz", "nothing.npz", "folder.npz", "other.npz", "absent.npz", "plain.txt"])
def test_files_that_are_no_mdps(sqirl, folder: Path, command: str, name: str) -> None:
    wrong(sqirl(command, name, "--horizon", "5"), name)


@pytest.mark.parametrize(
    ("options", "named", "code"),
    [
        ("build {} --horizon 5 -o plain.txt/mdp.npz", "plain.txt", 2),
        ("build {} --horizon 5 -o folder.npz", "folder.npz", 2),
        ("build {} --horizon 5 -o /proc/mdp.npz", "/proc", 2),
        ("analyze {} --horizon 5 --plot nameless", "nameless", 2),
        ("analyze {} --horizon 5 --picture a.gif", "a.gif", 2),
        ("diagnose {} --horizon 5 -o plain.txt/a.html", "plain.txt", 2),
        ("diagnose {} --horizon 5 -o page", "page", 2),
        ("analyze good.npz --env-kwargs '[1]'", "[1]", 2),
        ("build good.npz", "good.npz", 2),
        ("check good.npz", "good.npz", 2),
    ],
)
def test_files_and_folders(sqirl, folder: Path, options: str, named: str, code: int) -> None:
    wrong(sqirl(*shlex.split(options.format(CORRIDOR))), named, code)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: BoundTerms(epsilon=0), "0"),
        (lambda: BoundTerms(epsilon=float("nan")), "nan"),
        (lambda: BoundTerms(delta=-0.5), "-0.5"),
        (lambda: build_mdp(Corridor(), horizon=0), "0"),
        (lambda: diagnose(Corridor(), horizon=5, time_limit=0), "0"),
        (lambda: TabularMDP.load("absent.npz"), "absent.npz"),
        (lambda: TabularMDP.load(Path(__file__)), "test_bad_inputs.py"),
        (lambda: TabularMDP.load(Path(__file__).parent), "tests"),
        (lambda: describe(Corridor), "Corridor"),
        (lambda: describe(7), "7"),
        (lambda: describe(None), "None"),
        (lambda: parse_seeds("3-1"), "3-1"),
        (lambda: parse_seeds("few"), "few"),
        (lambda: parse_steps("-5"), "-5"),
        (lambda: parse_steps("inf"), "inf"),
    ],
)
def test_values_in_python(call: Callable[[], object], named: str) -> None:
    with pytest.raises(SqirlError) as caught:
        call()
    assert named in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("analyze --horizon 2.5", "--horizon"),
        ("analyze --horizon five", "--horizon"),
        ("analyze --horizon 5 --sticky often", "--sticky"),
        ("analyze --horizon 5 --discount some", "--discount"),
        ("analyze --horizon 5 --tolerance ten%", "--tolerance"),
        ("analyze --horizon 5 --epsilon small", "--epsilon"),
        ("analyze --horizon 5 --search-k 0", "--search-k"),
        ("analyze --horizon 5 --max-k many", "--max-k"),
        ("analyze --horizon 5 --max-states 1e6", "--max-states"),
        ("analyze --horizon 5 --starts 0", "--starts"),
        ("analyze --horizon 5 --starts some", "--starts"),
        ("analyze --horizon 5 --draws 0", "--draws"),
        ("analyze --horizon 5 --draws -7", "--draws"),
        ("analyze --horizon 5 --draws 1.5", "--draws"),
        ("build --horizon 5 --max-states 0", "--max-states"),
        ("build --horizon 5 --time-limit -1", "--time-limit"),
        ("build --horizon 5 --time-limit soon", "--time-limit"),
        ("build --horizon 5 --starts 0", "--starts"),
        ("build --horizon 5 --draws 0", "--draws"),
        ("build --horizon 5 --jobs 0", "--jobs"),
        ("check --steps 0", "--steps"),
        ("check --steps few", "--steps"),
        ("diagnose --horizon 0", "--horizon"),
        ("diagnose --horizon 5 --time-limit soon", "--time-limit"),
        ("train sqirl {} --threads 0", "--threads"),
        ("train sqirl {} --checkpoint-every -1", "--checkpoint-every"),
        ("tune {} --seeds 0", "--seeds"),
        ("tune {} --seeds 0-4", "--seeds"),
        ("sweep smoke --seeds 0", "--seeds"),
    ],
)
def test_values_that_the_parser_refuses_name_their_option(sqirl, options: str, flag: str) -> None:
    command, *others = shlex.split(options.format(EMPTY))
    if "{}" not in options and command != "sweep":
        others.insert(0, CORRIDOR)
    wrong(sqirl(command, *others), f"'{flag}'")
