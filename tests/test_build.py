"""Enumeration of live games: the right table, replays, limits, and the way back to the live game."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor, CorridorWithSnapshots, HiddenGlobal, IdleRandom, Unpicklable
from sqirl.analysis.analyze import analyze
from sqirl.envs.adapters import as_game
from sqirl.envs.minigrid import MiniGridGame
from sqirl.errors import InvalidMDP, NotEnumerable, PartialMDP, SqirlError, UnknownEnv
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.store import shipped_folder
from sqirl.mdp.tabular import TabularMDP

CORRIDOR = np.array([[0, 1], [0, 2], [1, 3], [2, 4], [3, -1]])


@pytest.mark.parametrize("make", [Corridor, CorridorWithSnapshots, IdleRandom])
def test_a_users_env_becomes_its_table(make: type[gym.Env]) -> None:
    mdp = build_mdp(make(), horizon=20)
    assert mdp.transitions.tolist() == CORRIDOR.tolist() and mdp.depth is None and not mdp.is_partial
    assert mdp.rewards.tolist() == [[0, 0]] * 4 + [[0, 1]]
    assert mdp.screens[mdp.screen_mapping].tolist() == [0, 1, 2, 3, 4]
    assert mdp.name == make.__name__ and mdp.horizon == 20


def test_module_and_class_by_name() -> None:
    assert build_mdp("envs_for_tests:Corridor", horizon=9).num_states == 5


def test_a_horizon_cuts_the_enumeration() -> None:
    mdp = build_mdp(Corridor(), horizon=3)
    assert mdp.num_states == 3 and mdp.depth == 3 and not mdp.is_partial
    assert mdp.transitions.tolist() == [[0, 1], [0, 2], [1, -1]]
    whole = build_mdp(Corridor(), horizon=20)
    assert np.array_equal(whole.cut(3).transitions, mdp.transitions) and whole.cut(3).depth == 3
    with pytest.raises(PartialMDP, match="enumerated to 3 steps only, not to horizon 4"):
        analyze(mdp, horizon=4)


def test_a_limit_leaves_a_partial_mdp_that_analysis_refuses() -> None:
    mdp = build_mdp("BRIDGE/MiniGrid-DoorKey-6x6-v0", max_states=300)
    assert mdp.is_partial and 0 < mdp.depth < 100 and mdp.num_states <= 300
    with pytest.raises(PartialMDP, match=f"--horizon {mdp.depth}"):
        analyze(mdp)
    with pytest.raises(PartialMDP):
        mdp.cut(mdp.depth + 1)
    whole = TabularMDP.load(shipped_folder() / "MiniGrid-DoorKey-6x6.npz")
    cut = whole.cut(mdp.depth)
    assert np.array_equal(cut.transitions, mdp.transitions) and np.array_equal(cut.rewards, mdp.rewards)
    assert analyze(mdp, horizon=mdp.depth).to_dict() | {"env_id": ""} == analyze(cut).to_dict() | {"env_id": ""}
    assert build_mdp("BRIDGE/MiniGrid-DoorKey-6x6-v0", time_limit=0.02).is_partial
    assert build_mdp("BRIDGE/MiniGrid-DoorKey-6x6-v0", max_states=1).depth == 1


def test_a_build_that_does_not_replay_fails() -> None:
    with pytest.raises(NotEnumerable, match="when restored and stepped again; get_state"):
        build_mdp(HiddenGlobal(), horizon=10)


def test_what_cannot_be_copied_says_what_to_implement() -> None:
    with pytest.raises((NotEnumerable, UnknownEnv), match=r"get_state|made"):
        build_mdp("envs_for_tests:Unpicklable", horizon=3)
    assert issubclass(Unpicklable, gym.Env)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("envs_for_tests:Continuous", "Discrete"),
        ("envs_for_tests:not_an_env", "not a gymnasium.Env"),
        ("envs_for_tests:broken", "no licence file"),
        ("envs_for_tests:Nothing", "no class or function 'Nothing'"),
        ("no_such_module:Thing", "no_such_module"),
        ("FrozenLake-v9", "FrozenLake"),
        ("BRIDGE/MiniGrid-DoorKey-5x6-v0", "DoorKey-5x6"),
    ],
)
def test_wrong_targets(target: str, message: str) -> None:
    with pytest.raises(SqirlError, match=message):
        build_mdp(target, horizon=5)


def test_a_horizon_is_needed_and_positive() -> None:
    with pytest.raises(InvalidMDP, match="--horizon"):
        build_mdp(Corridor())
    with pytest.raises(InvalidMDP, match="below 1"):
        build_mdp(Corridor(), horizon=0)


def test_progress_is_reported() -> None:
    seen: list[BuildProgress] = []
    build_mdp("BRIDGE/MiniGrid-DoorKey-8x8-v0", progress=seen.append)
    assert seen and seen[-1].states > seen[0].states and all(p.done <= p.frontier for p in seen)


def test_every_state_can_be_traced_back_to_the_live_game() -> None:
    mdp = build_mdp("BRIDGE/MiniGrid-DoorKey-5x5-v0")
    loaded = mdp.merge()
    for state in range(0, mdp.num_states, 7):
        game = mdp.env_at(state)
        assert np.array_equal(game.screen(), mdp.screens[mdp.screen_mapping[state]])
        assert np.array_equal(loaded.env_at(state).screen(), loaded.screens[loaded.screen_mapping[state]])
    picture = mdp.render(3)
    assert picture.dtype == np.uint8 and picture.shape[2] == 3 and picture.std() > 0
    longer = mdp.path_to(5, steps=20)
    state = 0
    for action in longer:
        state = mdp.transitions[state, action]
    assert state == 5 and len(longer) == 20
    with pytest.raises(InvalidMDP, match="outside"):
        mdp.path_to(10**6)
    with pytest.raises(InvalidMDP, match="exactly 0 steps"):
        mdp.path_to(5, steps=0)


@pytest.mark.parametrize("name", ["Empty-6x6", "LavaGapS5", "KeyCorridorS3R1"])
def test_live_and_table_agree_over_random_steps(name: str) -> None:
    mdp = build_mdp(f"BRIDGE/MiniGrid-{name}-v0").merge()
    game, rng = MiniGridGame(name), np.random.default_rng(0)
    state = 0
    for _ in range(4000):
        assert np.array_equal(game.screen(), mdp.screens[mdp.screen_mapping[state]])
        action = int(rng.integers(mdp.num_actions))
        reward, over = game.step(action)
        assert reward == mdp.rewards[state, action]
        state = int(mdp.transitions[state, action])
        assert over == (state == -1)
        if over:
            game.reset()
            state = 0


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("FrozenLake-v1", {"is_slippery": False}),
        ("CliffWalking-v1", {}),
        (next(name for name in ("Taxi-v3", "Taxi-v4") if name in gym.registry), {}),
    ],
)
def test_toy_text_by_enumeration_equals_its_own_dynamics(env_id: str, options: dict) -> None:
    """The states found by playing, matched to P's by following the same actions from the same start."""
    env = gym.make(env_id, **options)
    from_dynamics = build_mdp(env, horizon=30)
    assert from_dynamics.outcomes is not None
    game = as_game(lambda: gym.make(env_id, max_episode_steps=-1, **options), env_id)
    played = build_mdp(game, horizon=30)
    base = game.env.unwrapped
    game.reset()
    name = {0: int(base.s)}  # number in the enumeration -> number in P
    for state in range(played.num_states):
        for action in range(played.num_actions):
            row = name[state] * played.num_actions + action
            ((entry),) = range(from_dynamics.outcomes.indptr[row], from_dynamics.outcomes.indptr[row + 1])
            successor = int(from_dynamics.outcomes.next_states[entry])
            assert played.rewards[state, action] == from_dynamics.rewards[name[state], action]
            mine = int(played.transitions[state, action])
            if mine == -1:
                assert successor == -1 or played.depth is not None
            else:
                assert name.setdefault(mine, successor) == successor
    assert len(set(name.values())) == len(name) == played.num_states


def test_slippery_frozen_lake_is_read_from_its_dynamics() -> None:
    mdp = build_mdp("FrozenLake-v1", horizon=50)
    assert mdp.transitions is None and mdp.num_states == 16
    a = analyze(mdp)
    # A second value iteration, from Gymnasium's own table
    P = gym.make("FrozenLake-v1").unwrapped.P
    V = np.zeros(16)
    for _ in range(50):
        V = np.array([max(sum(p * (r + (0 if done else V[n])) for p, n, r, done in P[s][a]) for a in P[s]) for s in P])
    assert a.optimal_return == pytest.approx(V[0], rel=1e-12)
    assert mdp.env_at(6).env.unwrapped.s == 6


def test_a_cluster_needs_a_name_that_its_workers_know() -> None:
    with pytest.raises(SqirlError, match="object of this process"):
        build_mdp(gym.make("MiniGrid-Empty-5x5-v0"), horizon=5, cluster="tcp://127.0.0.1:1")
