"""Errors of a user's env: one line with the whole message, the line of its code, and the actions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import hostile_envs
import sqirl as library
from sqirl.cli.progress import about
from sqirl.envs.calls import SHOWN_ACTIONS, after, env_errors, report_long_calls
from sqirl.errors import EnvFailed, SqirlError


def test_the_line_of_the_users_code_is_said() -> None:
    env = hostile_envs.RaisesManyLines()
    env.reset(seed=0)
    with pytest.raises(EnvFailed) as caught:
        for action in range(9):
            with env_errors("env", "step", list(range(action + 1))):
                env.step(0)
    text, path = str(caught.value), Path(hostile_envs.__file__)
    line = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if "second line" in line)
    assert text.startswith("env: step() failed with RuntimeError: first line second line third line (")
    assert text.endswith(f"{path.name}:{line}) after actions 0, 1, 2, 3, 4")


def test_an_error_of_our_own_line_names_no_line() -> None:
    """What an old step returns cannot be unpacked, which happens in our code."""
    with pytest.raises(SqirlError) as caught:
        library.diagnose(hostile_envs.OldStep(), time_limit=2)
    assert ".py:" not in str(caught.value) and "the old Gym's four values" in str(caught.value)


def test_many_actions_are_cut() -> None:
    assert after([]) == "" and after([3]) == " after actions 3"
    text = after(range(1000))
    assert text.startswith(" after 1,000 steps, the last actions 980, ") and text.count(", 9") == SHOWN_ACTIONS - 1


@pytest.mark.parametrize("build", [lambda env: library.build_mdp(env, horizon=8), library.diagnose])
def test_a_reward_that_is_no_number_says_when(build) -> None:
    with pytest.raises(SqirlError, match=r"the reward nan .*after actions \d"):
        build(hostile_envs.NaNReward())


def test_a_long_time_is_not_about() -> None:
    assert [about(seconds) for seconds in (60, 1e12)] == ["about 60 s", "more than 100 years"]


def test_a_call_that_does_not_return_is_said_once() -> None:
    said: list[str] = []
    report_long_calls(0.2, said.append)
    for actions in ([0, 1], [0, 1, 1]):
        with env_errors("slow", "step", actions):
            time.sleep(0.6)
    with env_errors("fast", "step", [2]):
        pass
    time.sleep(0.3)
    assert [text.partition(" has")[0] for text in said] == ["sqirl: slow: step()"] * 2
    assert said[0].endswith("after actions 0, 1; Ctrl-C ends the command") and "after actions 0, 1, 1;" in said[1]
