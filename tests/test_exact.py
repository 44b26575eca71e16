"""The exact return of a policy: against the analysis, against brute force, and against Monte Carlo."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from sqirl.analysis.analyze import analyze
from sqirl.envs.ids import parse_id
from sqirl.evaluation.exact import exact_return
from sqirl.mdp.arrays import distinct_rows
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import stored_mdp
from sqirl.play.sampling import sampled_return
from sqirl.play.table import load_table

NAMES = ["BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/pong_20_fs30-v0", "BRIDGE/MiniGrid-LavaGapS5-Sticky-v0"]


@pytest.mark.parametrize("name", NAMES)
def test_random_play_is_worth_what_the_analysis_says(name: str) -> None:
    mdp = stored_mdp(parse_id(name))
    uniform = np.full(mdp.num_actions, 1 / mdp.num_actions)
    found = exact_return(mdp, lambda t, nodes: np.tile(uniform, (len(nodes.states), 1)))
    assert found == pytest.approx(analyze(mdp, search_k=1).random_return, rel=1e-12)


def test_random_outcomes() -> None:
    mdp = build_mdp(gym.make("FrozenLake-v1"), horizon=20)
    for variant in (mdp, mdp.sticky(0.3)):
        found = exact_return(variant, lambda t, nodes: np.full((len(nodes.states), 4), 0.25))
        assert found == pytest.approx(analyze(variant, search_k=1).random_return, rel=1e-12)


@pytest.mark.parametrize("name", ["BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/MiniGrid-LavaGapS5-Sticky-v0"])
def test_a_policy_of_what_is_seen_is_worth_its_mean(name: str) -> None:
    """A policy that hashes the key of the observation: it depends on the whole stack of screens and on the clock."""
    table = load_table(name)
    weights = np.random.default_rng(1).integers(1, 1000, size=table.view.stacked + 1)

    def act(t: np.ndarray, keys: np.ndarray) -> np.ndarray:
        return (keys.astype(np.int64) @ weights + 7 * t) % table.mdp.num_actions

    exact = exact_return(table, lambda t, nodes: act(np.full(len(nodes.states), t), nodes.keys))
    assert sampled_return(table, act, 40_000, np.random.default_rng(0)) == pytest.approx(exact, abs=0.02)


def test_distinct_rows() -> None:
    rows = np.array([[3, 1], [2, 2], [3, 1], [2, 9]])
    distinct, first, place = distinct_rows(rows)
    assert np.array_equal(distinct[place], rows) and np.array_equal(rows[first], distinct) and len(distinct) == 3
    empty, _, place = distinct_rows(np.zeros((3, 0), int))
    assert empty.shape == (1, 0) and place.tolist() == [0, 0, 0]
