"""Playing from the table against the live game: observations, rewards and ends, step by step."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecTransposeImage

import sqirl
from sqirl.envs.description import describe
from sqirl.envs.ids import parse_id
from sqirl.envs.suites import PAPER
from sqirl.mdp.build import build_mdp
from sqirl.play.lanes import Lanes
from sqirl.play.table import load_table, make_table
from sqirl.play.vec_env import TableVecEnv
from table_envs import TableEnv

#: id -> steps to compare (Atari's emulator is slow)
REPLAYS = {
    "BRIDGE/freeway_10_fs30-Sticky-v0": 1000,
    "BRIDGE/breakout_20_fs30-v0": 600,
    "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0": 2500,
    "BRIDGE/MiniGrid-DoorKey-5x5-Sticky-v0": 4000,
    "BRIDGE/MiniGrid-LavaGapS5-v0": 2000,
}


@pytest.mark.parametrize("name", REPLAYS)
def test_with_the_same_seed_the_table_is_the_live_game(name: str) -> None:
    live, played = sqirl.make_env(name), TableEnv(load_table(name))
    assert live.observation_space == played.observation_space and live.action_space == played.action_space
    rng, steps, seed = np.random.default_rng(0), 0, 0
    while steps < REPLAYS[name]:
        seed += 1
        (a, _), (b, _) = live.reset(seed=seed), played.reset(seed=seed)
        assert np.array_equal(a, b)
        over = False
        while not over:
            action = int(rng.integers(live.action_space.n))
            (a, reward, over, _, info), (b, *other) = live.step(action), played.step(action)
            assert other == [reward, over, False, info]
            assert over or np.array_equal(a, b)
            steps += 1


@pytest.mark.parametrize("name", ["BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/MiniGrid-LavaGapS5-Sticky-v0"])
def test_lanes_see_what_single_envs_see(name: str) -> None:
    """Replay what each lane executed in an env of its own without stickiness: the same rewards, ends and observations."""
    table = load_table(name)
    free = make_table(table.mdp.sticky(0.0), table.view)
    lanes, rng = Lanes(table, 5, np.random.default_rng(3)), np.random.default_rng(4)
    envs = [TableEnv(free) for _ in range(5)]
    expected = [env.reset(seed=0)[0] for env in envs]
    for _ in range(300):
        assert np.array_equal(table.observations(lanes.keys), np.stack(expected))
        rewards, ends = lanes.step(rng.integers(table.mdp.num_actions, size=5))
        for lane, env in enumerate(envs):
            expected[lane], reward, over, _, _ = env.step(int(lanes.executed[lane]))
            assert reward == rewards[lane] and over == ends[lane]
            if over:
                expected[lane], _ = env.reset()
        lanes.reset(ends)


def test_stickiness_repeats_a_quarter_of_the_actions_and_never_the_first() -> None:
    lanes = Lanes(load_table("BRIDGE/freeway_10_fs30-Sticky-v0").mdp, 20_000, np.random.default_rng(0))
    lanes.step(np.zeros(20_000, int))
    assert (lanes.executed == 0).all()
    lanes.step(np.ones(20_000, int))
    assert abs((lanes.executed == 0).mean() - 0.25) < 0.01


def test_random_outcomes_come_with_their_probabilities() -> None:
    mdp = build_mdp(gym.make("FrozenLake-v1"), horizon=20)
    lanes = Lanes(mdp, 100_000, np.random.default_rng(0))
    lanes.step(np.full(100_000, 2))  # right, from the corner: right, down or up (which stays), a third each
    values, counts = np.unique(lanes.states, return_counts=True)
    assert values.tolist() == [0, 1, 4] and np.allclose(counts / 100_000, 1 / 3, atol=0.01)


def test_a_vec_env_restarts_in_the_same_step() -> None:
    env = TableVecEnv(load_table("BRIDGE/freeway_10_fs30-Sticky-v0"), 3, seed=1)
    first = env.reset()
    for _ in range(10):
        observations, _, ends, infos = env.step(np.zeros(3, int))
    assert ends.all() and not any(info["TimeLimit.truncated"] for info in infos) and np.array_equal(observations, first)
    assert all(env.observation_space.contains(observation) for observation in observations)
    assert np.array_equal(first, TableVecEnv(load_table("BRIDGE/freeway_10_fs30-Sticky-v0"), 3, seed=1).reset())


def test_a_table_that_truncates_says_so_where_the_game_is_not_over() -> None:
    table = load_table(describe("BRIDGE/MiniGrid-LavaGapS5-v0", variant=PAPER))
    assert table.truncates and not load_table("BRIDGE/MiniGrid-LavaGapS5-v0").truncates
    env, lengths = TableVecEnv(table, 20, seed=1), {True: set(), False: set()}
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(300):
        actions = np.where(np.arange(20) < 10, 0, rng.integers(6, size=20))  # half of the lanes only turn
        *_, ends, infos = env.step(actions)
        for lane in np.flatnonzero(ends):
            lengths[infos[lane]["TimeLimit.truncated"]].add(infos[lane]["episode"]["l"])
    assert lengths[True] == {100} and min(lengths[False]) < 100


def test_the_keys_of_a_table_shift_and_keep_the_time() -> None:
    atari, grid = load_table("BRIDGE/freeway_10_fs30-Sticky-v0"), load_table("BRIDGE/MiniGrid-Empty-5x5-v0")
    keys = atari.first_keys(np.array([0]))
    shown = atari.mdp.screen_mapping
    assert keys.tolist() == [[atari.blank] * 3 + [shown[0], 0]]
    after = atari.next_keys(keys, np.array([5]), 1)
    assert (
        after.tolist() == [[atari.blank] * 2 + [shown[0], shown[5], 0]] and keys[0, -2] == shown[0]
    )  # the old keys stay
    assert atari.next_keys(after, np.array([-1]), 2)[0, -2] == atari.blank  # the end of the game shows nothing
    assert grid.next_keys(grid.first_keys(np.array([0])), np.array([1]), 7)[0, -1] == 7  # MiniGrid observes the time


def test_the_sb3_vec_env_reports_episodes_in_game_units() -> None:
    env = TableVecEnv(load_table("BRIDGE/maze_easy_l0_30_fs1-Sticky-v0"), 4, reward_factor=10.0, seed=0)
    wrapped, rng = VecTransposeImage(env), np.random.default_rng(0)
    assert wrapped.reset().shape == (4, 3, 64, 64)
    seen = []
    for _ in range(200):
        _, rewards, ends, infos = wrapped.step(rng.integers(9, size=4))
        assert rewards.max() <= 1.0
        for lane in np.flatnonzero(ends):
            assert infos[lane]["terminal_observation"].shape == (3, 64, 64)
            seen.append(infos[lane]["episode"]["r"])
    assert set(seen) == {0.0, 10.0}


def test_a_seed_given_to_the_sb3_vec_env_fixes_its_episodes() -> None:
    env = TableVecEnv(load_table("BRIDGE/freeway_10_fs30-Sticky-v0"), 4)
    runs = []
    for _ in range(2):
        env.seed(7)
        env.reset()
        runs.append([env.step(np.full(4, t % 3))[0].sum() for t in range(30)])
    assert runs[0] == runs[1]


def test_a_table_is_there_only_where_the_mdp_is() -> None:
    assert load_table("BRIDGE/alien_10_fs30-v0") is None
    assert load_table(parse_id("BRIDGE/MiniGrid-Empty-5x5-v0")).mdp.name == "BRIDGE/MiniGrid-Empty-5x5-v0"
