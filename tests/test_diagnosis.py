"""`diagnose`: verdicts on known environments, observations with known answers, and hostile envs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import diagnosis_envs as envs
import sqirl
from sqirl.cli.main import application
from sqirl.diagnosis.hold import counters_of, held_env
from sqirl.diagnosis.observations import look_at_observations, stack_two
from sqirl.diagnosis.page import write_page
from sqirl.diagnosis.table import longest_episode
from sqirl.diagnosis.words import chance_in_words, interval_in_words, odds_in_words, steps_in_words
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.mdp.build import build_mdp
from sqirl.mdp.tabular import END, TabularMDP


def test_a_cliff_is_a_trap() -> None:
    found = sqirl.diagnose("CliffWalking-v1", horizon=50, time_limit=30)
    assert found.is_exact and found.verdict.kind == "trap"
    assert "Greedy on the values of random play earns -50 of -13" in found.verdict.text[0]
    assert "until k = " in found.verdict.text[0] and "likelier to help than tuning" in found.verdict.text[0]
    assert "1e+" not in str(found)


def test_a_frozen_lake_is_sound() -> None:
    found = sqirl.diagnose(gym.make("FrozenLake-v1"), time_limit=30)
    assert found.is_exact and found.verdict.kind == "rare" and found.num_states == 11
    text = str(found)
    assert (
        text.startswith("FrozenLake-v1 (exact)") and "One step of planning" in text and "suspect its settings" in text
    )
    assert found.simulated is not None and found.simulated.steps > 0
    low, high = found.predictions[0].interval
    assert low < 90_000 < high  # what PPO needed with our presets


def test_the_clock_that_is_not_seen() -> None:
    found = sqirl.diagnose(envs.Alternate(), horizon=6, time_limit=10)
    report = found.observations
    assert found.is_exact and report is not None
    assert (report.num_observations, report.num_states) == (1, 2)
    assert report.seen == pytest.approx(0.0, abs=1e-9) and report.seen_and_clock == pytest.approx(1.0)
    assert found.verdict.kind == "clock" and "does not see the time, and needs it" in found.verdict.text[0]
    assert not found.predictions and all(change.ppo_steps is None for change in found.changes)
    assert "Add the remaining time to the observation, then diagnose again." in found.verdict.advice


def hidden_lamp() -> tuple[TabularMDP, np.ndarray]:
    """A lamp is red or green at the start (states 0, 1). Then both look the same (2, 3), and the right action is the colour."""
    transitions = np.array([[2, 2], [3, 3], [END, END], [END, END]], np.int32)
    rewards = np.array([[0, 0], [0, 0], [1, 0], [0, 1]], float)
    mdp = TabularMDP.deterministic(
        transitions, rewards, horizon=2, start_states=np.array([0, 1]), start_probabilities=np.array([0.5, 0.5])
    )
    return mdp, np.array([0, 1, 2, 2])


def test_states_that_look_alike_are_found_and_stacking_cures_them() -> None:
    mdp, labels = hidden_lamp()
    report = look_at_observations(mdp, labels, optimal=1.0, random=0.5)
    assert report is not None and report.alike is not None
    assert report.seen == report.seen_and_clock == pytest.approx(0.0)  # 0.5, what random play earns
    assert report.stacked == pytest.approx(1.0)
    assert report.alike.t == 1 and report.alike.states == (2, 3) and report.alike.actions == ((0,), (1,))
    found = sqirl.diagnose(mdp, time_limit=5)
    assert found.observations is None  # a bare table shows its states
    product, both = stack_two(mdp, labels)
    assert product.num_states == 4 and len(set(both.tolist())) == 4


def test_a_sticky_table_of_states_that_look_alike() -> None:
    mdp, labels = hidden_lamp()
    sticky = mdp.sticky(0.25)
    analysis = sqirl.analyze(sticky)
    report = look_at_observations(sticky, labels, optimal=analysis.optimal_return, random=analysis.random_return)
    assert report is not None and report.alike is not None
    assert set(report.alike.states) == {2, 3} and report.seen < 0.7


@pytest.mark.parametrize(
    ("env", "scope", "saved"),
    [
        (envs.Walk, "exact", "copies of the whole env"),
        (envs.Saves, "exact", "its own get_state and set_state"),
        (envs.StartsAnywhere, "exact: the mean over all 5 starts", "copies of the whole env"),
        (envs.Slips, "not exact: estimated from 1,000 draws", "copies of the whole env"),
        (envs.OwnGenerator, "not exact: estimated from 1,000 draws", "copies of the whole env"),
        (envs.Uncopyable, "sampled, not exact: ", "replaying its actions"),
    ],
)
def test_own_envs(env: type[gym.Env], scope: str, saved: str) -> None:
    found = sqirl.diagnose(
        f"diagnosis_envs:{env.__name__}", horizon=20, time_limit=5 if scope.startswith("sampled") else 30
    )
    assert found.scope.startswith(scope) and f"({scope}" in str(found).splitlines()[0]
    assert found.is_exact is scope.startswith("exact") is json.loads(found.to_json())["exact"]
    assert found.facts.saved_by.startswith(saved)
    assert found.facts.random_start is (env is envs.StartsAnywhere)
    assert found.facts.random_steps is (env in (envs.Slips, envs.OwnGenerator))
    assert found.verdict.kind == "sound"
    if found.samples is not None:
        assert env is envs.Uncopyable and found.samples.best_return == 1.0


HELD = "its elapsed held at the value of the start (rewards and ends that depend on it are those of the first step)"


@pytest.mark.parametrize("env", ["diagnosis_envs:Counts", envs.Counts()], ids=["by name", "an env"])
def test_a_step_counter_is_held_where_the_states_cannot_be_listed(env: Any) -> None:
    found = sqirl.diagnose(env, horizon=4000, time_limit=6)
    assert found.scope == f"exact: {HELD}" and found.scope in str(found).splitlines()[0]
    assert found.num_states == 5 and found.analysis is not None
    assert found.analysis.optimal_return == pytest.approx(1 - 1 / 10_000)  # the reward of the first step
    assert json.loads(found.to_json())["scope"] == found.scope


def test_a_step_counter_is_not_held_where_the_states_can_be_listed_or_where_it_is_forbidden() -> None:
    found = sqirl.diagnose("diagnosis_envs:Counts", horizon=12, time_limit=30)
    assert found.scope == "exact" and found.analysis is not None
    assert found.analysis.optimal_return == pytest.approx(1 - 5 / 10_000)
    free = sqirl.diagnose("diagnosis_envs:Counts", horizon=4000, time_limit=4, hold_counters=False)
    assert free.scope.startswith("sampled, not exact: ") and "--hold elapsed" in free.verdict.advice[0]


def test_a_counter_that_decides_rewards_is_not_held(tmp_path: Path) -> None:
    late = describe("diagnosis_envs:PaysLate")
    assert counters_of(late) == ["elapsed"] and held_env(late, ["elapsed"], 20) is None
    assert held_env(describe("diagnosis_envs:Counts"), ["elapsed"], 20) is not None
    (tmp_path / "counting_env.py").write_text(Path(envs.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    in_a_file = describe(f"{tmp_path / 'counting_env.py'}:Counts")
    held = held_env(in_a_file, ["elapsed"], 20)
    assert held is not None and held.name == f'{in_a_file.name} {{"sqirl:hold": ["elapsed"]}}'
    assert build_mdp(held, horizon=20).num_states == 5 and build_mdp(in_a_file, horizon=20).num_states > 5
    assert counters_of(describe("diagnosis_envs:Walk")) == [] and held_env(late, [], 20) is None


def test_the_mean_over_random_starts() -> None:
    """From cell c of 0..4, going right always earns 1; random play earns what random walks with 20 steps do."""
    found = sqirl.diagnose("diagnosis_envs:StartsAnywhere", horizon=20, time_limit=30)
    chances = np.zeros((5, 20))
    alive = np.eye(5)  # start, cell
    for _ in range(20):
        after = np.zeros((5, 6))
        for cell in range(5):
            after[:, max(cell - 1, 0)] += alive[:, cell] / 2
            after[:, cell + 1] += alive[:, cell] / 2
        chances += after[:, 5:] / 20
        alive = after[:, :5]
    assert found.analysis is not None and found.analysis.optimal_return == pytest.approx(1.0)
    assert found.analysis.random_return == pytest.approx(chances.sum(axis=1).mean())
    assert found.observations is not None and found.observations.num_observations == 5


def test_estimated_outcomes_have_intervals_that_hold_the_truth() -> None:
    found = sqirl.diagnose("diagnosis_envs:Slips", horizon=20, time_limit=30)
    moves = {cell: {a: [(0.8, cell, a), (0.2, cell, 1 - a)] for a in (0, 1)} for cell in range(5)}
    P = {
        cell: {
            a: [(p, max(c + 2 * d - 1, 0) % 5, float(c + 2 * d - 1 == 5), c + 2 * d - 1 == 5) for p, c, d in outcomes]
            for a, outcomes in by_action.items()
        }
        for cell, by_action in moves.items()
    }
    exact = sqirl.analyze(TabularMDP.from_dynamics(P, horizon=20))
    assert found.analysis is not None and "(95 %: " in str(found)
    for name in ("optimal_return", "random_return"):
        low, high = found.analysis.intervals[name]
        assert low <= getattr(exact, name) <= high
    assert not found.is_exact and "The features of this environment are not exact" in str(found)


def test_rounding_that_decided_is_said_in_the_first_line() -> None:
    mdp, _ = hidden_lamp()
    found = sqirl.diagnose(mdp, time_limit=5)
    assert found.is_exact and found.analysis is not None
    open_ties = replace(found, analysis=replace(found.analysis, exact=False))
    assert not open_ties.is_exact and "NOT EXACT: actions were too close" in str(open_ties).splitlines()[0]


def test_the_longest_episode_of_a_table() -> None:
    mdp, _ = hidden_lamp()
    assert longest_episode(mdp) == 2
    circle = TabularMDP.deterministic(np.array([[1, END], [0, 0]], np.int32), np.zeros((2, 2)), horizon=9)
    assert longest_episode(circle) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Raises", "step() failed with RuntimeError: engine crashed"),
        ("NeverEnds", "give --horizon T"),
        ("BadReward", "rewards must be finite"),
        ("BadObservation", "NaN"),
        ("BoxActions", "only finitely many can be tried"),
        ("ChangesSpaces", "changes its action space from Discrete(2) to Discrete(3)"),
    ],
)
def test_hostile_envs_are_one_line(name: str, message: str) -> None:
    with pytest.raises(SqirlError) as caught:
        sqirl.diagnose(f"diagnosis_envs:{name}", time_limit=5)
    assert message in str(caught.value) and "\n" not in str(caught.value) and caught.value.exit_code == 2


def test_equal_returns_are_not_taken_for_nothing_to_learn() -> None:
    found = sqirl.diagnose(envs.StartsAnywhere(), time_limit=3)  # without a limit every episode ends with 1
    assert found.verdict.kind == "unknown" and not found.predictions
    assert "Nothing was found to learn from" in found.verdict.text[0]


def test_the_page_and_the_command(tmp_path: Path) -> None:
    mdp, _ = hidden_lamp()
    mdp.save(tmp_path / "lamp.npz")
    page = tmp_path / "lamp.html"
    done = CliRunner().invoke(
        application("diagnose"),
        ["diagnose", str(tmp_path / "lamp.npz"), "--time-limit", "5", "--json", "-o", str(page)],
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["analysis"]["optimal_return"] == 1.0
    content = page.read_text()
    assert "class='verdict'" in content and "data:image/png;base64," in content and "http" not in content
    write_page(sqirl.diagnose("diagnosis_envs:Uncopyable", horizon=20, time_limit=2), page)
    assert "sampled, not exact" in page.read_text()


def test_the_page_shows_where_greedy_fails_and_the_map(tmp_path: Path) -> None:
    page = tmp_path / "cliff.html"
    write_page(sqirl.diagnose("CliffWalking-v1", horizon=14, time_limit=10), page)
    content = page.read_text(encoding="utf-8")
    assert "<h2>Where greedy fails</h2><img" in content and "<h2>The best actions</h2><img" in content


def test_numbers_in_words() -> None:
    assert steps_in_words(400_000) == "about 400,000" and steps_in_words(9_000) == "at most 10,000"
    assert steps_in_words(1.66e6) == "about 1.7 million" and steps_in_words(1e41) == "more than 5 million"
    assert interval_in_words(1e5, 2e6) == "100,000 to 2 million"
    assert interval_in_words(1e3, 1e9) == "10,000 or less to more than 5 million"
    assert chance_in_words(0.999) == "over 99 %" and chance_in_words(0.84) == "84 %"
    assert odds_in_words(1 / 255, 2000) == "1 of 255 episodes" and odds_in_words(0.0, 2000) == "none of 2,000 episodes"


def test_rare_outcomes_and_rare_starts_are_found() -> None:
    """Two repetitions of an action, and a few resets, would miss them."""
    slips = sqirl.diagnose("diagnosis_envs:SlipsRarely", horizon=20, time_limit=20)
    assert slips.scope.startswith("not exact: estimated from ") and slips.facts.random_steps
    assert slips.analysis.worst_return < -20
    elsewhere = sqirl.diagnose("diagnosis_envs:StartsRarelyElsewhere", horizon=20, time_limit=20)
    assert "all 2 starts" in elsewhere.scope and elsewhere.facts.random_start
    idle = sqirl.diagnose("diagnosis_envs:DrawsIdly", horizon=20, time_limit=20)
    assert "taken as deterministic: its steps draw random numbers, but " in idle.scope
    walk = sqirl.diagnose("diagnosis_envs:Walk", horizon=20, time_limit=20)
    assert walk.scope == "exact" and walk.facts.randomness == "none was found"


def test_no_prediction_is_below_what_random_play_needs_to_meet_the_reward() -> None:
    """It is met once in 4^12 episodes, which have 4/3 steps."""
    found = sqirl.diagnose("diagnosis_envs:Lock", horizon=20, time_limit=20)
    assert found.features.least_steps == pytest.approx(4**12 / 2 * 4 / 3, rel=1e-6)
    assert all(each.steps > 0.999 * found.features.least_steps and each.chance() < 0.5 for each in found.predictions)
    assert "suspect its settings" not in " ".join(found.verdict.text)


def test_an_observation_outside_of_its_space_is_refused() -> None:
    with pytest.raises(SqirlError, match="returned an observation that is "):
        sqirl.diagnose("diagnosis_envs:OutsideItsSpace", horizon=8, time_limit=10)
