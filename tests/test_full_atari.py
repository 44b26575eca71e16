"""Whole Atari games: ale-py's vectorised games are the game frame by frame, and the same on any number of threads."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th

from sqirl.algorithms.full_atari import AtariGames, full_atari_env
from sqirl.errors import UnknownEnv


def test_a_game_is_the_emulators() -> None:
    """Rewards and ends are those of single frames added up; a picture is the mean of what each pixel covers of the maximum of
    the last two frames, which is worked out here by two matrices."""
    games = AtariGames("BreakoutNoFrameskip-v4", 1, seed=0, stickiness=0.0, waiting=0, fire=False)
    alone = gym.make("BreakoutNoFrameskip-v4", obs_type="grayscale")
    down, right = _area_means(210, 84), _area_means(160, 84)
    seen, _ = alone.reset(seed=0)
    assert np.abs(games.reset()[0, 0] - down @ seen @ right.T).max() < 1
    rng, num_rewards = np.random.default_rng(0), 0
    for _ in range(2000):
        action = int(rng.integers(alone.action_space.n))
        frames, paid, over = [seen], 0.0, False
        for _ in range(4):
            seen, reward, over, _, _ = alone.step(action)
            frames.append(seen)
            paid += float(reward)
            if over:
                break
        shown, rewards, ends, infos = games.step(np.array([action]))
        assert rewards[0] == paid and ends[0] == over
        num_rewards += paid != 0
        if over:
            assert infos[0]["terminal_observation"].shape == (1, 84, 84) and not infos[0]["TimeLimit.truncated"]
            break
        assert np.abs(shown[0, 0] - down @ np.maximum(*frames[-2:]) @ right.T).max() < 1
    assert over and num_rewards > 0


def _area_means(many: int, few: int) -> np.ndarray:
    """(few, many) weights of the means over equal stretches."""
    edges = np.linspace(0, many, few + 1)
    pixels = np.arange(many)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.clip(covered, 0, None) * few / many


def test_threads_change_nothing_and_seeds_do() -> None:
    threads = th.get_num_threads()

    def played(number: int, seed: int) -> list[np.ndarray]:
        th.set_num_threads(number)
        env = full_atari_env("PongNoFrameskip-v4", num_envs=3, seed=seed)
        rng, seen = np.random.default_rng(0), [env.reset()]
        for _ in range(100):
            observations, rewards, _, _ = env.step(rng.integers(6, size=3))
            seen += [observations.copy(), rewards]
        return seen

    try:
        first, again, other = played(1, 5), played(3, 5), played(1, 6)
    finally:
        th.set_num_threads(threads)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))
    assert not np.array_equal(first[-2][0], first[-2][1]), "every lane has its own chance"


def test_learning_sees_signs_and_the_report_points() -> None:
    env = full_atari_env("SpaceInvadersNoFrameskip-v4", num_envs=2, seed=0)
    env.reset()
    rng, signs, steps, ends = np.random.default_rng(0), set(), 0, np.zeros(2, bool)
    while not ends.any():
        observations, rewards, ends, infos = env.step(rng.integers(6, size=2))
        signs |= set(rewards.tolist())
        steps += 1
    lane = int(np.flatnonzero(ends)[0])
    episode = infos[lane]["episode"]
    assert signs == {0.0, 1.0}
    assert episode["r"] >= 5 * 1 and episode["r"] % 5 == 0 and episode["l"] == steps
    assert infos[lane]["terminal_observation"].shape == (4, 84, 84)
    assert not observations[lane, :3].any() and observations[lane, 3].any(), "blank frames come before a start"


def test_a_game_that_does_not_exist_is_told() -> None:
    with pytest.raises(UnknownEnv, match="no Atari game 'PungNoFrameskip-v4'; names are like PongNoFrameskip-v4"):
        full_atari_env("PungNoFrameskip-v4", num_envs=1)
