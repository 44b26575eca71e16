"""MDPs estimated from draws: near the exact ones, with intervals that hold the truth, and said to be estimates."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor, Slippery
from sqirl.analysis.analyze import analyze
from sqirl.analysis.analyze_env import analyze_env
from sqirl.analysis.backward import value
from sqirl.analysis.intervals import bootstrap_intervals, resampled
from sqirl.analysis.sweeps import MAXIMUM, MEAN
from sqirl.envs.check import check_env
from sqirl.envs.counters import step_counters
from sqirl.envs.description import describe
from sqirl.envs.randomness import global_randomness
from sqirl.errors import NotEnumerable
from sqirl.mdp.build import build_mdp
from sqirl.mdp.scope import is_estimated, scope_of
from sqirl.mdp.tabular import TabularMDP

LENGTH = 6


def exact_slippery(horizon: int) -> TabularMDP:
    """`Slippery` from its definition: with probability 1/2, action 0 is taken instead."""

    def after(cell: int, action: int) -> tuple[int, float, bool]:
        following = min(max(cell + (1 if action else -1), 0), LENGTH - 1)
        return following, float(following == LENGTH - 1), following == LENGTH - 1

    P: Any = {
        cell: {action: [(0.5, *after(cell, action)), (0.5, *after(cell, 0))] for action in (0, 1)}
        for cell in range(LENGTH)
    }
    return TabularMDP.from_dynamics(P, horizon=horizon)


def test_an_estimate_is_near_the_exact_mdp_and_its_intervals_hold_it(tmp_path: Path) -> None:
    truth = analyze(exact_slippery(12))
    found = analyze_env("envs_for_tests:Slippery", horizon=12, draws=400)
    assert found.num_states == truth.num_states == 5 and abs(found.optimal_return - truth.optimal_return) < 0.1
    for name in ("optimal_return", "random_return", "worst_return"):
        low, high = found.intervals[name]
        assert low <= getattr(truth, name) <= high and high - low < 0.3
    assert "greedy_returns[0]" in found.intervals
    first = str(found).splitlines()[0]
    assert "estimated from 4,000 draws of random outcomes (400 of each state and action)" in first
    mdp = build_mdp(Slippery(), horizon=12)
    mdp.save(tmp_path / "a.npz")
    loaded = TabularMDP.load(tmp_path / "a.npz")
    assert is_estimated(loaded) and scope_of(loaded) == scope_of(mdp) and "1,000 draws" in scope_of(mdp)
    assert is_estimated(mdp.cut(3)) and not is_estimated(exact_slippery(3))


def test_an_estimate_does_not_change_from_call_to_call() -> None:
    one, other = build_mdp(Slippery(), horizon=6, draws=20), build_mdp(Slippery(), horizon=6, draws=20)
    assert np.array_equal(one.outcomes.probabilities, other.outcomes.probabilities)


def test_bootstrap_intervals_hold_the_exact_returns() -> None:
    """With 30 draws of each row of FrozenLake, about 95 of 100 intervals hold the exact value."""
    exact = build_mdp("FrozenLake-v1", horizon=12)
    rows = exact.num_states * exact.num_actions
    source = replace(exact, outcomes=replace(exact.outcomes, draws=np.full(rows, 30)))
    rng, held, trials = np.random.default_rng(3), np.zeros(2), 25
    for trial in range(trials):
        estimate = resampled(source, rng)
        intervals = bootstrap_intervals(estimate, analyze(estimate, search_k=1, max_k=1), resamples=40, seed=trial)
        for place, (name, rule) in enumerate((("optimal_return", MAXIMUM), ("random_return", MEAN))):
            held[place] += intervals[name][0] <= value(exact, 12, rule) <= intervals[name][1]
    assert (held / trials >= 0.8).all()


def test_resampling_keeps_the_number_of_draws() -> None:
    mdp = build_mdp(Slippery(), horizon=6, draws=50)
    again = resampled(mdp, np.random.default_rng(0))
    assert np.array_equal(again.outcomes.draws, mdp.outcomes.draws)
    counts = again.outcomes.probabilities * 50
    assert np.allclose(counts, np.rint(counts)) and not np.array_equal(counts, mdp.outcomes.probabilities * 50)


class HiddenCard(gym.Env):
    """A card that is not seen decides whether a bet wins (two of three times); the deck never looks the same twice."""

    action_space, observation_space, render_mode = gym.spaces.Discrete(2), gym.spaces.Discrete(2), None

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.deck, self.time = self.np_random.random(8), 0
        return 0, {}

    def step(self, action: int):
        self.time += 1
        self.deck[-1] = self.np_random.random()
        wins = self.deck[self.time] < 2 / 3
        return 1, (1.0 if wins else -1.0) if action else 0.0, self.time == 2, False, {}


def test_what_the_agent_does_not_see_is_drawn_and_not_known() -> None:
    """An agent that knew the deck would win 2/3 in each of two steps; one that sees the observation wins 1/3."""
    mdp = build_mdp(HiddenCard(), horizon=2, draws=1500)
    assert mdp.num_states == 2 and "its states are what the agent sees" in scope_of(mdp)
    assert analyze(mdp).optimal_return == pytest.approx(2 / 3, abs=0.12)


class GlobalChance(Corridor):
    """Draws from Python's own generator."""

    def outcome(self, action: int) -> tuple[int, float]:
        return super().outcome(action if random.random() < 0.5 else 0)


def test_global_generators_are_seeded_and_left_alone() -> None:
    random.seed(5)
    before = random.getstate()
    mdp = build_mdp(GlobalChance(), horizon=6, draws=30)
    assert is_estimated(mdp) and random.getstate() == before
    with global_randomness(3):
        one = random.random(), np.random.random()  # noqa: NPY002
    with global_randomness(3):
        assert one == (random.random(), np.random.random())  # noqa: NPY002


class Counting(Corridor):
    """Counts its steps, which changes nothing else."""

    def reset(self, **kwargs: Any):
        self.elapsed = 0
        return super().reset(**kwargs)

    def step(self, action: int):
        self.elapsed += 1
        return super().step(action)


HELD = 'test_empirical:Counting {"sqirl:hold": ["elapsed"]}'


def test_step_counters_are_found_and_held() -> None:
    assert step_counters(describe(Counting()).make_game()) == ["elapsed"]
    assert step_counters(describe(Corridor()).make_game()) == []
    assert "--hold elapsed" in str(check_env(Counting(), steps=30))
    assert build_mdp("test_empirical:Counting", horizon=9).num_states > 2 * LENGTH
    held = build_mdp(HELD, horizon=9)
    assert held.num_states == LENGTH - 1 and "its elapsed held at the value of the start" in scope_of(held)
    assert check_env(HELD, steps=30).counters == ()
    played = describe('test_empirical:Counting {"sqirl:hold": ["elapsed"], "sqirl:horizon": 4}').make_env()
    played.reset(seed=0)
    assert [played.step(0)[3] for _ in range(4)] == [False] * 3 + [True]  # it is played as it is analysed
    assert played.unwrapped.elapsed == 0  # type: ignore[attr-defined]
    with pytest.raises(NotEnumerable, match="no attribute 'nothing'"):
        build_mdp('test_empirical:Counting {"sqirl:hold": ["nothing"]}', horizon=3)


@pytest.mark.slow
def test_blackjack_is_estimated_over_what_the_agent_sees() -> None:
    """Known: optimal play of Gymnasium's Blackjack loses about 0.045 a hand, the uniformly random one about 0.395."""
    found = analyze_env("Blackjack-v1", horizon=10, draws=60)
    low, high = found.intervals["optimal_return"]
    assert low < -0.045 < high and abs(found.random_return + 0.395) < 0.05 and "draws of random outcomes" in found.scope
