"""Messages that can be read: values with their limits, the help of the command, one and many, files that are folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import hostile_envs
import sqirl as library
from diagnosis_envs import Walk
from sqirl.diagnosis.simulator import EnvSimulator
from sqirl.errors import SqirlError, counted
from sqirl.runtime.files import check_format
from test_hostile_diagnosis import one_line


def test_one_and_many() -> None:
    assert [counted(number, "step") for number in (0, 1, 2000)] == ["0 steps", "1 step", "2,000 steps"]
    assert counted(1, "state looks", "states look") == "1 state looks"


def test_a_folder_is_no_file_without_an_ending(tmp_path: Path) -> None:
    for name, said in (("", "is a folder; give the name of a file that ends in .html"), ("page", "has no ending"),
                       ("r.txt", "ends in '.txt'; pages are written as .html")):  # fmt: skip
        with pytest.raises(SqirlError, match=said):
            check_format(tmp_path / name, [".html"], "pages")
    check_format(tmp_path / "page.html", [".html"], "pages")


def test_the_report_is_no_text(sqirl, tmp_path: Path) -> None:
    one_line(
        sqirl("report", "-o", str(tmp_path / "r.txt"), "--no-pictures"), "ends in '.txt'; pages are written as .html"
    )
    assert not list(tmp_path.iterdir())


def test_values_with_their_limits(sqirl) -> None:
    said = "discount 2 is not between 1e-06 and 1"
    one_line(sqirl("analyze", "diagnosis_envs:Walk", "--horizon", "5", "--discount", "2"), said)
    one_line(sqirl("diagnose", "diagnosis_envs:Walk", "--bogus"), "see `sqirl diagnose --help`")
    one_line(sqirl("--bogus"), "see `sqirl --help`")


def test_analyze_opens_what_is_no_mdp(tmp_path: Path) -> None:
    mdp = library.build_mdp(Walk(), horizon=6)
    mdp.save(tmp_path / "walk.npz")
    expected = library.analyze(mdp).optimal_return
    for given in (str(tmp_path / "walk.npz"), tmp_path / "walk.npz", Walk()):
        assert library.analyze(given, horizon=6).optimal_return == expected == 1


def test_actions_of_several_parts_can_be_diagnosed() -> None:
    import own_envs

    assert EnvSimulator(own_envs.MultiDiscreteActions(), "parts", horizon=8).num_actions == 6
    with pytest.raises(SqirlError, match="Discrete, and MultiDiscrete, MultiBinary, Dict or Tuple with at most 1,024"):
        EnvSimulator(hostile_envs.ContinuousActions(), "box")


def test_tuning_an_env_says_that_its_rewards_are_no_numbers(sqirl, tmp_path: Path) -> None:
    arguments = ("--seeds", "1", "--timesteps", "500", "-o", str(tmp_path), "-j", "1")
    code, out, err = sqirl("tune", "hostile_envs:NaNReward", *arguments)
    assert code == 2 and not out and "; rewards must be finite" in err.splitlines()[-1] and "after actions" in err
