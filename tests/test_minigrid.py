"""Our MiniGrid games compared with the library, step by step."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from minigrid.wrappers import FullyObsWrapper

import sqirl  # noqa: F401 (registers the ids)
from sqirl.envs.catalogue import catalogue
from sqirl.envs.minigrid import MiniGridGame
from sqirl.envs.view import with_time_plane, with_truncated_time_plane
from sqirl.errors import MissingExtra, UnknownEnv

ROWS = [row for row in catalogue() if row.env_id.suite == "minigrid"]
NAMES = [row.env_id.game for row in ROWS]
pytestmark = pytest.mark.filterwarnings("ignore:.*out of date.*", "ignore:.*precision lowered.*")


@pytest.mark.parametrize("name", NAMES)
def test_the_game_replays_the_library(name: str) -> None:
    """Random walks of live MiniGrid and of our game agree in grid, reward and end, also when every step is a restore."""
    rng = np.random.default_rng(0)
    game, other = MiniGridGame(name), MiniGridGame(name)
    theirs = FullyObsWrapper(gym.make(f"MiniGrid-{name}-v0", disable_env_checker=True))
    for _ in range(3):
        observation, _ = theirs.reset(seed=0)
        game.reset()
        assert np.array_equal(observation["image"], game.screen())
        for _ in range(60):
            action = int(rng.integers(game.num_actions))
            other.set_state(game.get_state())
            assert np.array_equal(other.screen(), game.screen())
            theirs.unwrapped.step_count = 0
            observation, reward, over, _, _ = theirs.step(action)
            expected = (1.0 if reward > 0 else 0.0, over)
            assert game.step(action) == other.step(action) == expected
            assert np.array_equal(observation["image"], game.screen())
            assert game.state_key() == other.state_key()
            if over:
                break


def test_the_key_knows_what_is_carried_and_what_a_box_hid() -> None:
    """Same grid, same agent: an open box's key picked up, and nothing carried, are different states."""
    game, rng = MiniGridGame("ObstructedMaze-1Dlh"), np.random.default_rng(0)
    while game._env.carrying is None or game._env.carrying.type != "key":
        _, over = game.step(int(rng.integers(6)))
        if over:
            game.reset()
    grid, key = game.screen(), game.state_key()
    game._env.carrying = None
    assert np.array_equal(game.screen(), grid) and game.state_key() != key


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
@pytest.mark.parametrize("sticky", [False, True])
def test_every_row_is_a_gymnasium_env(row, sticky: bool) -> None:
    env_id = row.env_id if sticky else row.env_id.deterministic()
    env = gym.make(str(env_id))
    assert env.action_space == gym.spaces.Discrete(row.num_actions)
    assert env.observation_space.shape[-1] == 4 and env.observation_space.dtype == np.uint8
    check_env(env.unwrapped, skip_render_check=True)


def test_an_episode_ends_at_the_horizon_as_terminated_with_the_time_at_zero() -> None:
    env = gym.make("BRIDGE/MiniGrid-Empty-5x5-v0")
    observation, _ = env.reset(seed=0)
    planes = [observation[0, 0, 3]]
    for step in range(100):
        observation, _, terminated, truncated, _ = env.step(0)
        planes.append(observation[0, 0, 3])
        assert terminated == (step == 99) and not truncated
    assert planes[0] == 255 and planes[-1] == 0 and planes == sorted(planes, reverse=True) and len(set(planes)) == 101


def test_time_plane_covers_the_whole_grid() -> None:
    (observation,) = with_time_plane(np.zeros((1, 1, 3, 2, 3), np.uint8), np.array([0.5]))
    assert observation.shape == (3, 2, 4) and (observation[..., 3] == 128).all() and not observation[..., :3].any()


def test_the_time_plane_of_the_paper_is_one_and_then_zero() -> None:
    observations = with_truncated_time_plane(np.full((3, 1, 3, 2, 3), 7, np.uint8), np.array([1.0, 0.99, 0.0]))
    assert observations[:, 0, 0, 3].tolist() == [1, 0, 0] and (observations[..., :3] == 7).all()


def rollout(seed: int | None, env: gym.Env) -> list[tuple[int, int]]:
    rng = np.random.default_rng(7)
    env.reset(seed=seed)
    played = []
    for _ in range(80):
        action = int(rng.integers(2))
        *_, terminated, _, info = env.step(action)
        played.append((action, info["executed_action"]))
        if terminated:
            break
    return played


def test_sticky_actions_repeat_what_was_executed_a_quarter_of_the_time_and_follow_the_seed() -> None:
    env = gym.make("BRIDGE/MiniGrid-FourRooms-Sticky-v0")
    assert rollout(3, env) == rollout(3, env) != rollout(4, env)
    assert rollout(None, env) != rollout(None, env)  # goes on with the same generator, no fresh entropy needed
    repeated = total = 0
    for seed in range(60):
        played = rollout(seed, env)
        assert played[0][0] == played[0][1], "nothing to repeat at the first step"
        for (_, before), (chosen, executed) in itertools.pairwise(played):
            assert executed in (chosen, before)
            if chosen != before:
                total += 1
                repeated += executed == before
    assert abs(repeated / total - 0.25) < 4 * (0.25 * 0.75 / total) ** 0.5


def test_a_saved_episode_continues_alike() -> None:
    env = gym.make("BRIDGE/MiniGrid-DoorKey-5x5-Sticky-v0").unwrapped
    env.reset(seed=5)
    for _ in range(10):
        env.step(2)
    saved = env.get_state()
    runs = []
    for _ in range(2):
        env.set_state(saved)
        runs.append([env.step(a)[4]["executed_action"] for a in [0, 1, 2, 3, 0, 1, 2, 3] * 5])
    assert runs[0] == runs[1]


def test_an_unknown_level_and_a_missing_library_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownEnv, match="DoorKey-7x9"):
        MiniGridGame("DoorKey-7x9")
    monkeypatch.setitem(__import__("sys").modules, "minigrid", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sqirl\[minigrid\]'"):
        MiniGridGame("DoorKey-5x5")
