"""Envs that misbehave, and wrong values: `check`, `analyze`, `diagnose` and `whatif` end with one line that says how to go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sqirl as library
from diagnosis_envs import Walk
from sqirl.diagnosis.requests import parse_request
from sqirl.diagnosis.variants import with_exploration
from sqirl.diagnosis.words import number, quoted
from sqirl.errors import SqirlError

#: (env, what the line says)
HOSTILE = [
    ("Raises", "step() failed with RuntimeError: engine crashed"),
    ("BadReward", "rewards must be finite"),
    ("BoxActions", "wrap the env so that its action space is Discrete"),
    ("ChangesSpaces", "changes its action space from Discrete(2) to Discrete(3); it must stay the same"),
]
COMMANDS = {
    "check": [],
    "analyze": ["--horizon", "10"],
    "whatif": ["--horizon", "10", "--frame-skip", "2"],
    "diagnose": ["--horizon", "10", "--time-limit", "4"],
}
FAST = {("Raises", "whatif"), ("BadReward", "check"), ("BoxActions", "analyze"), ("ChangesSpaces", "analyze")}
CASES = [
    pytest.param(name, command, said, marks=[] if (name, command) in FAST else pytest.mark.slow)
    for name, said in HOSTILE
    for command in COMMANDS
]


def one_line(result: tuple[int, str, str], said: str) -> None:
    code, out, err = result
    assert code == 2 and not out, (code, out, err)
    assert err.startswith("sqirl: ") and err.count("\n") == 1 and said in err, err


@pytest.mark.parametrize(("name", "command", "said"), CASES)
def test_hostile_envs(sqirl, name: str, command: str, said: str) -> None:
    one_line(sqirl(command, f"diagnosis_envs:{name}", *COMMANDS[command]), said)


@pytest.mark.parametrize("command", ["analyze", "whatif"])
def test_a_set_state_that_does_nothing(sqirl, command: str) -> None:
    said = "set_state() must restore it, and all randomness must come from self.np_random"
    one_line(sqirl(command, "diagnosis_envs:Lies", *COMMANDS[command]), said)


def test_an_env_that_never_ends(sqirl) -> None:
    one_line(sqirl("analyze", "diagnosis_envs:NeverEnds"), "--horizon T")
    one_line(sqirl("diagnose", "diagnosis_envs:NeverEnds", "--time-limit", "2"), "--horizon T")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("analyze --max-states 0", "--max-states"),
        ("whatif --horizon 5 --max-states -1", "--max-states"),
        ("analyze --horizon 5 --plot plain/a.png", "'plain' is a file"),
        ("analyze --horizon 5 --policy-map plain/a.png", "'plain' is a file"),
        ("whatif --horizon 5 --plot plain/a.png", "'plain' is a file"),
        ("whatif --horizon 5 --exploration minus.json", "probability -0.5"),
        ("whatif --horizon 5 --exploration half.json", "sum to 0.5, not to 1"),
        ("whatif --actions 0-999999999", "more than 10,000 actions"),
    ],
)
def test_values_that_are_wrong(sqirl, tmp_path: Path, options: str, said: str) -> None:
    (tmp_path / "plain").write_text("words")
    (tmp_path / "minus.json").write_text("[1.5, -0.5]")
    (tmp_path / "half.json").write_text("[0.25, 0.25]")
    command, *rest = options.split()
    code, out, err = sqirl(command, "diagnosis_envs:Walk", *rest)
    assert code == 2 and not out and said in err and "Traceback" not in err


@pytest.mark.parametrize("option", ["starts", "draws", "max_states"])
def test_counts_below_one_are_refused(option: str) -> None:
    with pytest.raises(SqirlError, match=f"{option} = 0 is below 1"):
        library.build_mdp(Walk(), horizon=5, **{option: 0})


def test_long_texts_are_cut_and_stay_on_one_line() -> None:
    nothing = {"sticky": "", "frame_skip": "", "discount": "", "actions": "", "exploration": "", "shape": []}
    with pytest.raises(SqirlError) as caught:
        parse_request(horizon="many\nlines " + "x" * 500, **nothing)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 130
    assert quoted("a\n b") == "'a b'"


def test_numbers_are_never_powers_of_ten() -> None:
    assert [number(value) for value in (999.4, 999.6, -999.6, 1000.0)] == ["999", "1,000", "-1,000", "1,000"]


def test_probabilities_that_are_not_numbers() -> None:
    mdp = library.build_mdp(Walk(), horizon=3)
    for policy, said in (([float("nan"), 1.0], "nan"), ([float("inf"), 0.0], "inf"), ([0.5, 0.25, 0.25], r"\(3,\)")):
        with pytest.raises(SqirlError, match=said):
            with_exploration(mdp, policy)  # type: ignore[arg-type]


def test_json_of_a_hostile_env_is_no_json(sqirl) -> None:
    code, out, err = sqirl("diagnose", "diagnosis_envs:BadObservation", "--horizon", "5", "--time-limit", "2", "--json")
    assert code == 2 and not out and "NaN" in err
    code, out, _ = sqirl("diagnose", "diagnosis_envs:Walk", "--horizon", "5", "--time-limit", "10", "--json")
    assert code == 0 and json.loads(out)["scope"] == "exact"
