"""`check_env`: good envs pass, and for each kind of bad env the report names the problem."""

from __future__ import annotations

import pytest

from sqirl.envs.check import check_env
from sqirl.errors import EnvFailed, NotEnumerable


@pytest.mark.parametrize(
    ("target", "how"),
    [
        ("envs_for_tests:Corridor", "copies of the whole env"),
        ("envs_for_tests:IdleRandom", "copies of the whole env"),
        ("envs_for_tests:CorridorWithSnapshots", "its own get_state/set_state"),
        ("CliffWalking-v1", "its state index"),
        ("BRIDGE/MiniGrid-DoorKey-5x5-v0", "the game's snapshots"),
    ],
)
def test_good_envs_pass(target: str, how: str) -> None:
    report = check_env(target, steps=300)
    assert report.problem is None and report.how == how and report.steps == 300
    assert report.distinct_states > 3 and report.revisits > 50
    assert "ok: it can be enumerated" in str(report)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("envs_for_tests:ForgetfulKey", "states with the same key"),
    ],
)
def test_bad_envs_are_caught(target: str, problem: str) -> None:
    report = check_env(target, steps=2000)
    assert report.problem is not None and problem in report.problem


@pytest.mark.parametrize(
    ("target", "way"), [("envs_for_tests:Slippery", "estimated from draws"), ("FrozenLake-v1", "are read from P")]
)
def test_random_outcomes_are_no_problem_but_are_said(target: str, way: str) -> None:
    report = check_env(target, steps=300)
    assert report.problem is None and report.randomness is not None
    first, *_, last = str(report).splitlines()
    assert f"{target}: random steps, one start" in first and way in last


def test_a_set_state_that_changes_the_state_is_shown() -> None:
    report = check_env("diagnosis_envs:HalfRestored", steps=200)
    assert report.problem is not None
    assert "set_state(get_state()) does not bring the env back" in report.problem
    assert "get_state() returned 1 before and 0 after" in report.problem


@pytest.mark.parametrize("env", ["diagnosis_envs:ForgetsTheKey"])
def test_a_part_that_is_left_out_shows_in_an_episode_without_restoring(env: str) -> None:
    report = check_env(env, steps=2000)
    assert (
        report.problem is not None and "gave reward 0.1 and the end of the game in an episode without" in report.problem
    )


def test_the_walks_of_an_env_that_raises_say_the_actions_and_the_line() -> None:
    with pytest.raises(EnvFailed, match=r"engine crashed \(.*diagnosis_envs\.py:\d+\);? after actions [01]$"):
        check_env("diagnosis_envs:Raises", steps=10)


def test_observations_that_change_their_shape_in_a_later_episode() -> None:
    with pytest.raises(NotEnumerable, match=r"observations of shapes \(2,\) and \(3,\); all must be equal"):
        check_env("diagnosis_envs:GrowsInEpisodeThree", steps=10)


def test_state_outside_the_snapshot_is_caught() -> None:
    report = check_env("envs_for_tests:HiddenGlobal", steps=2000)
    assert report.problem is not None and "gave reward" in report.problem
