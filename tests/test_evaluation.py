"""Exact and sampled returns: against the enumeration of everything that can happen, and against each other."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from envs_for_tests import Corridor
from sqirl.errors import WorkFailed
from sqirl.evaluation import exact
from sqirl.evaluation.exact import Nodes, exact_return
from sqirl.evaluation.returns import TablePolicy, evaluate_live, evaluate_on_table
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.sampling import sampled_return
from sqirl.play.table import Table
from strategies import Example, deterministic, random_tables, stochastic
from tiny_tables import enumerated_return, tiny_table

SEEDS = st.integers(0, 10**6)
EXAMPLES = st.one_of(deterministic(max_horizon=3), stochastic(max_horizon=3))
STICKINESS = st.sampled_from([0.0, 0.25, 0.75])


@given(example=EXAMPLES, stickiness=STICKINESS, seed=SEEDS, random=st.booleans())
def test_a_policy_of_states_is_worth_the_sum_over_all_sequences(
    example: Example, stickiness: float, seed: int, random: bool
) -> None:
    mdp = example.mdp.sticky(stickiness)
    A, rng = mdp.num_actions, np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(A), (mdp.horizon, mdp.num_states, A + 1))  # the last axis but one: executed before
    if not random:
        chances = np.eye(A)[chances.argmax(axis=-1)]
    if not stickiness:
        chances = np.repeat(chances[:, :, :1], A + 1, axis=2)  # without stickiness nobody knows what was executed
    expected = enumerated_return(mdp, lambda t, path, executed: chances[t, path[-1], executed].tolist())

    def choose(t: int, nodes: Nodes) -> np.ndarray:
        found = chances[t, nodes.states, nodes.executed]
        return found if random else found.argmax(axis=1)

    assert exact_return(mdp, choose) == pytest.approx(expected, abs=1e-12)


def hashing(table: Table, seed: int) -> TablePolicy:
    """A policy that depends on every number of the key, and on the time."""
    weights = np.random.default_rng(seed).integers(1, 1000, size=table.key_length)
    return TablePolicy.of_keys(lambda t, keys: (keys.astype(np.int64) @ weights + 7 * t) // 3 % table.mdp.num_actions)


@given(example=EXAMPLES, stickiness=STICKINESS, seed=SEEDS, stacked=st.integers(1, 3), clock=st.booleans())
def test_a_policy_of_stacked_screens_is_worth_the_sum_over_all_sequences(
    example: Example, stickiness: float, seed: int, stacked: int, clock: bool
) -> None:
    """The stack is built here from the path, not by `Table.next_keys`."""
    table = tiny_table(example.mdp.sticky(stickiness), stacked=stacked, clock=clock, seed=seed)
    policy, mapping = hashing(table, seed), table.mdp.screen_mapping

    def choose(t: int, path: tuple[int, ...], executed: int) -> list[float]:
        seen = [table.blank] * stacked + [int(mapping[state]) for state in path]
        key = np.array([[*seen[-stacked:], t if clock else 0]], np.int32)
        return np.eye(table.mdp.num_actions)[policy.act(np.array([t]), key)[0]].tolist()

    expected = enumerated_return(table.mdp, choose)
    assert exact_return(table, policy.node_policy) == pytest.approx(expected, abs=1e-12)


@given(example=EXAMPLES, stickiness=STICKINESS, seed=SEEDS)
def test_a_policy_that_looks_at_nothing_needs_no_keys(example: Example, stickiness: float, seed: int) -> None:
    table = tiny_table(example.mdp.sticky(stickiness), seed=seed)
    A, rng = table.mdp.num_actions, np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(A), table.horizon)
    policy = TablePolicy(
        lambda t, keys: np.array([rng.choice(A, p=chances[time]) for time in t]),
        lambda t, nodes: np.tile(chances[t], (len(nodes.states), 1)),
        observes=False,
    )
    found = evaluate_on_table(policy, table, episodes=1, rng=rng).exact
    assert found == pytest.approx(exact_return(table, policy.node_policy), abs=1e-12)
    assert found == pytest.approx(enumerated_return(table.mdp, lambda t, path, executed: chances[t]), abs=1e-12)


def test_nodes_are_distinct_and_their_probabilities_sum_to_what_is_alive() -> None:
    """An episode that ends with probability 1/2 in every step: after t steps 2^-t is left."""
    half = {0: {a: [(0.5, 0, 1.0, False), (0.5, 0, 0.0, True)] for a in (0, 1)}}
    table = tiny_table(TabularMDP.from_dynamics(half, horizon=5).sticky(0.25))
    seen: list[Nodes] = []

    def choose(t: int, nodes: Nodes) -> np.ndarray:
        seen.append(nodes)
        return np.full((len(nodes.states), 2), 0.5)

    assert exact_return(table, choose) == pytest.approx(0.5 * sum(0.5**t for t in range(5)))
    for t, nodes in enumerate(seen):
        assert nodes.probabilities.sum() == pytest.approx(0.5**t)
        rows = np.column_stack([nodes.states, nodes.executed, nodes.keys])
        assert len(np.unique(rows, axis=0)) == len(rows) == (1 if t == 0 else 2)  # by the action executed last


def test_too_many_histories_leave_the_mean_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiny_table(random_tables(3, 12, 3, 6).sticky(0.25), num_screens=6, stacked=4)
    policy = hashing(table, 1)
    whole = evaluate_on_table(policy, table, episodes=50, rng=np.random.default_rng(0))
    skipped = evaluate_on_table(policy, table, episodes=50, rng=np.random.default_rng(0), exact=False)
    monkeypatch.setattr(exact, "MAX_NODES", 4)
    with pytest.raises(WorkFailed, match=r"\d+ different histories at step \d; the limit is 4"):
        exact_return(table, policy.node_policy)
    limited = evaluate_on_table(policy, table, episodes=50, rng=np.random.default_rng(0))
    assert whole.exact is not None and limited.exact is None is skipped.exact
    assert limited.mean == whole.mean == skipped.mean


@pytest.mark.parametrize("episodes", [1, 17])
def test_without_chance_the_mean_is_the_exact_return(episodes: int) -> None:
    for seed in range(20):
        table = tiny_table(random_tables(seed, 8, 3, 7, signed=True), num_screens=4, clock=True)
        policy = hashing(table, seed)
        found = evaluate_on_table(policy, table, episodes=episodes, rng=np.random.default_rng(0))
        assert found.mean == pytest.approx(found.exact, abs=1e-12)


@given(example=stochastic(max_horizon=4), seed=SEEDS)
def test_with_chance_the_mean_comes_near_the_exact_return(example: Example, seed: int) -> None:
    table = tiny_table(example.mdp.sticky(0.25), seed=seed)
    policy, episodes = hashing(table, seed), 4000
    mean = sampled_return(table, policy.act, episodes, np.random.default_rng(seed))
    spread = table.horizon * np.abs(table.mdp.outcomes.rewards).max()  # no standard deviation is larger
    assert abs(mean - exact_return(table, policy.node_policy)) <= 4.5 * spread / episodes**0.5 + 1e-12
    assert mean == sampled_return(table, policy.act, episodes, np.random.default_rng(seed))


def test_only_lanes_that_still_play_are_asked_for_actions() -> None:
    """Action 0 ends the episode at once, and a lane that is over is not started again for the mean."""
    table = tiny_table(TabularMDP.deterministic([[-1, 0]], [[5.0, 1.0]], horizon=3))
    asked, first = [], np.array([0, 1, 1, 0])

    def act(t: np.ndarray, keys: np.ndarray) -> np.ndarray:
        asked.append((len(t), t.tolist()))
        return first if t[0] == 0 else np.ones(len(t), int)

    assert sampled_return(table, act, 4, np.random.default_rng(0)) == (5 + 3 + 3 + 5) / 4
    assert asked == [(4, [0] * 4), (2, [1] * 2), (2, [2] * 2)]


class AlwaysRight:
    """Stands for a model of Stable-Baselines3."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        return np.ones(len(observation), int), state


def test_a_live_evaluation_is_in_the_units_of_the_game() -> None:
    def make() -> gym.Env:
        env = Monitor(gym.wrappers.TransformReward(Corridor(4), lambda reward: 10 * reward))
        return gym.wrappers.TransformReward(env, lambda reward: reward / 1000)  # for learning

    found = evaluate_live(AlwaysRight(), DummyVecEnv([make, make]), episodes=5, seed=0)
    assert found.mean == 10.0 and found.exact is None
