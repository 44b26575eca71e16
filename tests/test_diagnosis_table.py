"""The parts of an exact diagnosis: lengths, planning depths, facts, and a run beside its prediction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import diagnosis_envs as envs
import sqirl
from sqirl.analysis.archive import archived_analyses
from sqirl.diagnosis.facts import probe
from sqirl.diagnosis.features import allowed_loss, first_good_k
from sqirl.diagnosis.simulator import EnvSimulator, same
from sqirl.diagnosis.table import analysed, episodes_to_half, random_length, simulate_sqirl
from sqirl.diagnosis.verify import Verification
from sqirl.envs.catalogue import catalogue
from sqirl.errors import SqirlError
from test_whatif import corridor, random_mdp
from tiny_tables import enumerated_return


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_the_length_of_random_play_is_the_return_of_a_reward_for_every_step(sticky: float) -> None:
    mdp = random_mdp().sticky(sticky)
    assert mdp.outcomes is not None
    ones = replace(
        mdp,
        rewards=np.ones_like(mdp.rewards),
        outcomes=replace(mdp.outcomes, rewards=np.ones_like(mdp.outcomes.rewards)),
    )
    expected = enumerated_return(ones, lambda *_: np.full(3, 1 / 3))
    assert random_length(mdp, 4) == pytest.approx(expected, abs=1e-12)


def test_the_first_good_k() -> None:
    analysis = sqirl.analyze(corridor())
    assert first_good_k(analysis) == 1 and allowed_loss(analysis) == pytest.approx(0.1 * (1 - analysis.random_return))
    bad = replace(analysis, greedy_returns=(0.0, 0.2, 1.0))
    assert first_good_k(bad) == 3
    assert first_good_k(replace(analysis, greedy_returns=(0.0, 0.2))) is None


def test_a_table_that_takes_too_long_is_not_analysed() -> None:
    assert analysed(corridor(), 8, seconds=0.0) is not None  # a small one always is
    large = replace(corridor(length=2000), horizon=1000)
    assert analysed(large, 1000, seconds=0.0) is None


def test_simulated_sqirl_solves_a_corridor() -> None:
    mdp = corridor()
    found = simulate_sqirl(mdp, sqirl.analyze(mdp), seconds=5)
    assert found is not None and found.good and found.share >= 0.9 and f"m = {found.m}" in found.line


@pytest.mark.parametrize("env", [envs.Walk, envs.Slips, envs.StartsAnywhere])
def test_a_probe_finds_where_randomness_is(env: type[envs.Walk]) -> None:
    found = probe(EnvSimulator(env(), env.__name__, horizon=20))
    assert (found.random_start, found.random_steps) == (env is envs.StartsAnywhere, env is envs.Slips)
    assert found.steps_per_second > 100


def test_nested_values_are_compared() -> None:
    one = {"a": np.array([1.0, np.nan]), "b": (1, [2, "x"])}
    assert same(one, {"a": np.array([1.0, np.nan]), "b": (1, [2, "x"])})
    assert not same(one, {"a": np.array([1.0, 2.0]), "b": (1, [2, "x"])}) and not same(one, {"a": one["a"]})


def test_a_verification_in_words() -> None:
    found = Verification("ppo", 2e5, 1e5, 4e5, 400_000, 0.67, 0.8, 90_000, 90_000, 10_000)
    said = "PPO reached 0.67 after 90,000 steps (predicted 100,000 to 400,000 steps)"
    assert str(found) == f"{said}: the prediction was wrong"
    never = replace(found, reached_at=None, steps=400_000)
    assert "did not reach 0.67 within 400,000 steps" in str(never)


def test_a_time_limit_of_zero_is_refused() -> None:
    with pytest.raises(SqirlError, match="time limit 0 s is not above 0 and at most"):
        sqirl.diagnose(corridor(), time_limit=0)


def test_no_solved_row_of_the_paper_needs_fewer_steps_than_random_play_to_a_good_episode() -> None:
    """Predictions have this as their least value; an episode has at most as many steps as the horizon."""
    known = [(row, found) for row in catalogue() if (found := archived_analyses().get(str(row.env_id)))]
    least = [(row, episodes_to_half(found) * found.horizon) for row, found in known]
    solved = [(few, steps) for row, few in least for steps in row.paper_steps.values() if steps is not None]
    assert len(solved) > 100 and all(few <= steps for few, steps in solved)
    assert sum(few > 5_000_000 for _, few in least) >= 8  # and it says something
