"""Full-length Atari games: ale-py's vectorised games are the game frame by frame, and the same on any number of threads."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch as th

from sqirl.algorithms.gorp.algorithm import GORP
from sqirl.errors import SqirlError, UnknownEnv
from sqirl.experiments.protocol import planned_run
from sqirl.play.full_atari import AtariGames, full_atari_env
from sqirl.runs.run import Run
from sqirl.runs.store import RecordStore


def test_a_game_is_the_emulators() -> None:
    """Rewards and ends are those of single frames added up; a picture is the mean of what each pixel covers of the maximum of
    the last two frames, which is worked out here by two matrices."""
    games = AtariGames("BreakoutNoFrameskip-v4", 1, seed=0, stickiness=0.0, max_noops=0, fire=False)
    alone = gym.make("BreakoutNoFrameskip-v4", obs_type="grayscale")
    down, right = _area_means(210, 84), _area_means(160, 84)
    seen, _ = alone.reset(seed=0)
    assert np.abs(games.reset()[0, 0] - down @ seen @ right.T).max() < 1
    rng, num_rewards, over, before = np.random.default_rng(0), 0, False, np.empty(0)
    while not over:
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
        if not over:
            assert np.abs(shown[0, 0] - down @ np.maximum(*frames[-2:]) @ right.T).max() < 1
            before = shown[0]
    assert num_rewards > 0 and not infos[0]["TimeLimit.truncated"]
    # The game was over after the first of four frames, so that its last picture is the one before; then another began
    assert len(frames) == 2 and np.array_equal(infos[0]["terminal_observation"], before)
    assert not np.array_equal(shown[0], before)


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


def differences(**options) -> list[int]:
    """In how many of 50 pictures two seeds differ, and in how many a game that is seeded anew differs from itself."""
    games = AtariGames("SpaceInvadersNoFrameskip-v4", 1, **options)

    def pictures(seed: int) -> list[bytes]:
        games.seed(seed)
        return [games.reset().tobytes(), *(games.step(np.array([t % 6]))[0].tobytes() for t in range(50))]

    first = pictures(1)
    return [sum(map(bytes.__ne__, first, others)) for others in (pictures(2), pictures(1))]


def test_chance_is_stickiness_and_waiting() -> None:
    assert differences(stickiness=0.0, max_noops=0) == [0, 0]
    for chance in ({"max_noops": 0}, {"stickiness": 0.0}, {}):
        between_seeds, within = differences(**chance)
        assert between_seeds > 5 and within == 0, chance


def test_fire_is_pressed_at_the_start() -> None:
    """Without it no ball is in play, in Breakout, if the agent only waits."""

    def moves(**options) -> list[bool]:
        games = AtariGames("BreakoutNoFrameskip-v4", 32, seed=0, max_noops=0, **options)
        first = games.reset()
        seen = [games.step(np.zeros(32, int))[0] for _ in range(20)]
        return (np.array(seen)[10:] != first).any(axis=(0, 2, 3, 4)).tolist()

    assert not any(moves(fire=False)) and all(moves(stickiness=0.0))
    assert 18 <= sum(moves()) <= 30, "stickiness swallows a quarter of them"


def test_an_episode_that_lasts_too_long_is_cut_off() -> None:
    games = AtariGames("PongNoFrameskip-v4", 1, seed=0, max_frames=80)
    games.reset()
    told = [games.step(np.array([0])) for _ in range(20)]
    ends = [step for step, (_, _, end, _) in enumerate(told, start=1) if end[0]]
    assert len(ends) == 1 and told[ends[0] - 1][3][0]["TimeLimit.truncated"]


def test_a_step_that_nobody_waited_for_is_forgotten() -> None:
    """As after Ctrl-C between asking and answering."""
    games, again = (AtariGames("PongNoFrameskip-v4", 2, seed=0) for _ in range(2))
    games.reset()
    games.step_async(np.array([1, 2]))
    games.seed(3)
    again.seed(3)
    assert np.array_equal(games.reset(), again.reset())
    for action in range(4):
        one, other = (env.step(np.array([action, 0]))[0] for env in (games, again))
        assert np.array_equal(one, other)


@pytest.mark.parametrize("actions", [[6, 0], [-1, 0], [0.5, 1.0]])
def test_an_action_that_does_not_exist_is_refused(actions: list[float]) -> None:
    """ale-py would never answer."""
    games = AtariGames("PongNoFrameskip-v4", 2, seed=0)
    games.reset()
    with pytest.raises(SqirlError, match=r"actions \[.*\] are not all whole numbers in 0..5"):
        games.step(np.array(actions))
    assert games.step(np.array([5, 0]))[0].shape == (2, 1, 84, 84)


def test_learning_sees_signs_and_the_report_points() -> None:
    env = full_atari_env("SpaceInvadersNoFrameskip-v4", num_envs=2, seed=0)
    env.reset()
    rng, paid, ends = np.random.default_rng(0), [], np.zeros(2, bool)
    while not ends.any():
        observations, rewards, ends, infos = env.step(rng.integers(6, size=2))
        paid.append(rewards)
    lane = int(np.flatnonzero(ends)[0])
    episode = infos[lane]["episode"]
    assert set(np.unique(paid)) == {0.0, 1.0} and episode["l"] == len(paid)
    hits = float(np.sum(paid, axis=0)[lane])
    assert 5 * hits <= episode["r"] <= 30 * hits + 200 and episode["r"] > hits, "an invader is worth 5 to 30 points"
    assert infos[lane]["terminal_observation"].shape == (4, 84, 84)
    assert not observations[lane, :3].any() and observations[lane, 3].any(), "blank frames come before a start"


def test_a_game_that_does_not_exist_is_told() -> None:
    with pytest.raises(UnknownEnv, match="no Atari game 'QuberttNoFrameskip-v4'; names are like QbertNoFrameskip-v4"):
        full_atari_env("QuberttNoFrameskip-v4", num_envs=1)
    with pytest.raises(SqirlError, match="num_envs = 0 is below 1"):
        full_atari_env("PongNoFrameskip-v4", num_envs=0)


def test_an_id_means_the_same_game_everywhere() -> None:
    model = GORP(env="PongNoFrameskip-v4", k=1, m=1, seed=0)
    assert isinstance(model.env.unwrapped, AtariGames) and model.observation_space.shape == (4, 84, 84)


def test_gorp_has_lanes_for_all_of_its_episodes(tmp_path: Path) -> None:
    """One for each of Seaquest's 18 actions, though m is 1; SQIRL's m of 10 has 10."""

    def lanes(algorithm: str) -> int:
        config = planned_run(algorithm, "SeaquestNoFrameskip-v4", seed=0, timesteps=1000)
        return Run(config, RecordStore(tmp_path), "cpu", 60.0, None, None).env.num_envs

    assert [lanes("gorp"), lanes("sqirl"), lanes("ppo")] == [18, 10, 8]
