"""`diagnose` keeps its time limit, also where a step is slow, and does not trust states that do not bring an env back."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from importlib import import_module

import pytest

import diagnosis_envs as envs
import sqirl
from sqirl.diagnosis.facts import probe
from sqirl.diagnosis.simulator import EnvSimulator
from sqirl.envs.calls import env_errors, time_for_calls
from sqirl.errors import OutOfTime, SqirlError

diagnose_module = import_module("sqirl.diagnosis.diagnose")


@pytest.mark.parametrize(("env", "states"), [("Lies", 5), ("HalfRestored", 5), ("ForgetsTheKey", 9)])
def test_an_env_whose_states_are_wrong_is_copied(env: str, states: int) -> None:
    found = sqirl.diagnose(f"diagnosis_envs:{env}", horizon=20, time_limit=20)
    assert found.is_exact and found.num_states == states
    assert found.facts.saved_by.startswith("copies of the whole env (not by its get_state and set_state")


def test_another_way_of_saving_is_taken_as_long_as_there_is_one() -> None:
    simulator = EnvSimulator(envs.Walk(), "walk", horizon=10)
    assert simulator.saved_by == "copies of the whole env"
    simulator.save_another_way()
    assert simulator.saved_by.startswith("replaying its actions")
    simulator.save_another_way()
    assert simulator.saved_by.startswith("replaying its actions")


def test_a_slow_env_keeps_the_limit_and_gets_its_sample() -> None:
    began = time.monotonic()
    found = sqirl.diagnose("diagnosis_envs:Slow", horizon=10, time_limit=5)
    assert time.monotonic() - began < 9
    assert found.samples is not None and found.samples.seconds > 1.5 and found.samples.random.lengths[0] <= 10
    assert "could not be listed in" in found.scope


def test_an_episode_that_takes_too_long_says_the_limit_that_is_enough() -> None:
    with pytest.raises(SqirlError) as caught:
        sqirl.diagnose("diagnosis_envs:SlowAndLong", horizon=100, time_limit=3)
    said = re.search(
        r"up to (\d+) s at 0\.1 s a step, .* give --time-limit (\d+), or a smaller --horizon", str(caught.value)
    )
    assert said is not None and 10 <= int(said[1]) <= 12 and 25 <= int(said[2]) <= 30


def test_trying_out_a_slow_env_is_short() -> None:
    began = time.monotonic()
    simulator = EnvSimulator(envs.Slow(), "slow", horizon=20)
    found = probe(simulator, 0.5)
    assert time.monotonic() - began < 6 and 5 < found.steps_per_second < 11


def test_what_a_slow_env_was_not_tested_for_is_said() -> None:
    found = probe(EnvSimulator(envs.Slow(), "slow", horizon=20), 0.05)
    assert found.random_start is False and found.random_steps is None
    facts = sqirl.diagnose("diagnosis_envs:Slow", horizon=10, time_limit=5).facts
    assert facts.randomness == "not tested, because calls are slow: the outcomes of actions"
    assert replace(facts, random_steps=False).randomness == "none was found"


def test_a_verdict_without_a_look_at_observations_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*arguments: object) -> None:
        raise OutOfTime("late")

    monkeypatch.setattr(diagnose_module, "labels_of", late)
    found = sqirl.diagnose("diagnosis_envs:Alternate", horizon=6, time_limit=10)
    assert found.verdict.text[-1] == diagnose_module.NOT_LOOKED_AT and found.observations is None


def test_no_call_begins_when_the_time_is_over() -> None:
    late = pytest.raises(OutOfTime, match="no time left to call step")
    with time_for_calls(-1.0), late, time_for_calls(100.0), env_errors("env", "step"):
        raise AssertionError("called")
    with env_errors("env", "step"):  # the limit is over with its block
        pass
