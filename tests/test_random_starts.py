"""Envs whose reset draws the start: all starts or a sample of them, with the right means, said in the first line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor, ForgetfulKey
from sqirl.analysis.analyze import analyze
from sqirl.analysis.analyze_env import analyze_env
from sqirl.analysis.intervals import mean_interval
from sqirl.envs.check import check_env
from sqirl.envs.description import describe
from sqirl.envs.starts import Starts, starts_of
from sqirl.errors import WorkFailed
from sqirl.mdp.build import build_mdp
from sqirl.mdp.build_files import build_files
from sqirl.mdp.scope import scope_of
from sqirl.mdp.tabular import TabularMDP


class RandomStart(Corridor):
    """Starts anywhere but at the end; `weights` says how likely the cells are."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, length: int = 20, weights: tuple[float, ...] | None = None) -> None:
        super().__init__(length)
        self.weights = weights

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.cell = int(self.np_random.choice(self.length - 1, p=self.weights))
        return self.cell, {}

    def render(self):
        return np.full((2, 2, 3), self.cell, np.uint8)


class FineStart(RandomStart):
    """So many starts that a hundred seeds show no one twice."""

    def __init__(self) -> None:
        super().__init__(1_000_000)


class Unseeded(RandomStart):
    """Its starts do not follow from the seed."""

    rng = np.random.default_rng(7)

    def reset(self, **kwargs: Any):
        super().reset(**kwargs)
        self.cell = int(type(self).rng.integers(self.length - 1))
        return self.cell, {}


def game_of(env: gym.Env) -> Any:
    return describe(env).make_game()


def test_the_mean_over_equally_likely_starts_is_exact() -> None:
    mdp = build_mdp(RandomStart(), horizon=15)
    assert mdp.num_states == 19 and len(mdp.start_states) == 19 and set(mdp.start_probabilities) == {1 / 19}
    analysis = analyze(mdp)
    assert analysis.optimal_return == pytest.approx(15 / 19, abs=1e-12) and analysis.intervals == {}
    assert str(analysis).splitlines()[0].startswith("RandomStart: the mean over all 19 starts, taken as equally likely")
    assert analysis.bounds is not None and analysis.bounds.gorp is None, "GORP repeats one sequence from one start"


def test_unequal_starts_have_their_frequencies_and_intervals() -> None:
    mdp = build_mdp(RandomStart(4, (0.6, 0.3, 0.1)), horizon=2)
    by_cell = dict(zip(mdp.screens[mdp.screen_mapping[mdp.start_states]].ravel(), mdp.start_probabilities, strict=True))
    assert [by_cell[cell] for cell in range(3)] == pytest.approx([0.6, 0.3, 0.1], abs=0.08)
    analysis = analyze(mdp)
    low, high = analysis.intervals["optimal_return"]
    assert analysis.optimal_return == pytest.approx(by_cell[1] + by_cell[2]) and low < 0.4 < high < low + 0.06
    assert "as often as 2,000 seeds led to them" in analysis.scope


def test_many_starts_are_sampled_and_the_interval_holds_the_truth() -> None:
    mdp = build_mdp(FineStart(), horizon=3)
    assert len(mdp.start_states) == 100 and not mdp.provenance["starts"]["complete"]
    assert "100 random starts, drawn with 100 seeds, stand for all starts" in scope_of(mdp)
    fewer = build_mdp(RandomStart(), horizon=15, starts=12)
    low, high = analyze(fewer).intervals["optimal_return"]
    assert len(fewer.start_states) <= 12 and low < 15 / 19 < high
    one = build_mdp(RandomStart(), horizon=15, starts=1)
    assert "1 random starts, drawn with 1 seed, stand" in scope_of(one)


@pytest.mark.parametrize(("draws", "hits"), [(20, 0.9), (200, 0.9)])
def test_intervals_of_means_hold_the_mean(draws: int, hits: float) -> None:
    values, rng = np.array([0.0, 1.0, 3.0]), np.random.default_rng(0)
    p, held = np.array([0.5, 0.3, 0.2]), 0
    for _ in range(300):
        low, high = mean_interval(values, rng.multinomial(draws, p).astype(float), (0.0, 3.0))
        held += low <= p @ values <= high
    assert held / 300 > hits


def test_equal_draws_leave_room_for_what_was_not_drawn() -> None:
    low, high = mean_interval(np.array([1.0]), np.array([100.0]), (0.0, 1.0))
    assert low == pytest.approx(1 - 0.03, abs=0.001) and high == 1.0
    assert mean_interval(np.array([2.0]), np.array([1.0]), (0.0, 4.0)) == (0.0, 4.0)


def test_a_fixed_start_stays_fixed() -> None:
    for env in (Corridor(), ForgetfulKey()):
        starts = starts_of(game_of(env))
        assert not starts.is_random and starts.facts() is None and starts.seeds is None
    assert scope_of(build_mdp(Corridor(), horizon=4)) == ""
    assert starts_of(describe("BRIDGE/MiniGrid-Empty-5x5-v0").make_game()).facts() is None


def test_states_are_played_and_drawn_from_their_own_start(tmp_path: Path) -> None:
    mdp = build_mdp(RandomStart(6), horizon=9)
    cells = mdp.screens[mdp.screen_mapping].ravel().tolist()
    assert [int(mdp.render(state).max()) for state in range(mdp.num_states)] == cells and sorted(cells) == [
        0,
        1,
        2,
        3,
        4,
    ]
    mdp.save(tmp_path / "starts.npz")
    loaded = TabularMDP.load(tmp_path / "starts.npz")
    assert loaded.start_seeds.tolist() == mdp.start_seeds.tolist() and scope_of(loaded) == scope_of(mdp)
    assert analyze(loaded).to_dict() == analyze(mdp).to_dict()


def test_merging_keeps_a_seed_of_every_start() -> None:
    mdp = build_mdp(RandomStart(6), horizon=9).merge(by="reward")
    assert len(mdp.start_seeds) == len(mdp.start_states) == len(mdp.start_probabilities)
    assert mdp.start_probabilities.sum() == pytest.approx(1)


def test_starts_without_a_seed_are_kept_but_not_played_again() -> None:
    mdp = build_mdp(Unseeded(6), horizon=9)
    assert len(mdp.start_states) == 5 and mdp.start_seeds is None
    with pytest.raises(WorkFailed, match="draws its starts without a seed"):
        mdp.render(4)


def test_a_resumed_build_has_the_same_starts(tmp_path: Path) -> None:
    whole = build_mdp("test_random_starts:RandomStart", horizon=12)
    stopped = build_mdp("test_random_starts:RandomStart", horizon=12, max_states=1, folder=tmp_path)
    resumed = build_mdp("test_random_starts:RandomStart", horizon=12, folder=tmp_path)
    assert stopped.is_partial or stopped.num_states == whole.num_states
    assert np.array_equal(resumed.transitions, whole.transitions)
    assert resumed.start_seeds.tolist() == whole.start_seeds.tolist()


def test_the_first_line_of_every_command_says_it(tmp_path: Path) -> None:
    report = check_env(RandomStart(), steps=50)
    assert str(report).splitlines()[0].startswith("RandomStart: deterministic steps, 19 random starts")
    assert "100 or more random starts" in str(check_env(FineStart(), steps=20))
    (built,) = build_files(["test_random_starts:RandomStart"], out=tmp_path / "a.npz", horizon=9, jobs=1)
    assert "the mean over all 19 starts" in str(built).splitlines()[0]
    assert "the mean over all 19 starts" in analyze_env(str(tmp_path / "a.npz")).scope


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0"])
def test_classic_control_is_random_in_its_starts(name: str) -> None:
    analysis = analyze_env(name, horizon=3, starts=10)
    assert "10 random starts" in analysis.scope and "optimal_return" in analysis.intervals


def test_minigrid_layouts_are_starts() -> None:
    pytest.importorskip("minigrid")
    starts = starts_of(describe("MiniGrid-Empty-Random-5x5-v0").make_game())
    assert isinstance(starts, Starts) and len(starts.states) == 32 and starts.equally_likely
