"""Players and episodes: against sequences played by hand, and arrays against lists."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

from envs_for_tests import Continuous, Serial
from envs_for_tests import Corridor as Cells
from sqirl.algorithms.gorp.sequences import follow
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.episodes import Episodes, play_episodes
from sqirl.play.lanes import Lanes
from sqirl.play.live import LivePlayer, SingleEnv
from sqirl.play.own_env import EPISODE_LIMIT
from sqirl.play.players import TablePlayer, as_player, state_observations
from sqirl.play.training_env import frames_stacked, horizon_of, player_of, training_env
from sqirl.play.vec_env import TableVecEnv
from strategies import Example, deterministic, random_tables
from test_fit import Corridor
from tiny_tables import outcomes_of, played_by_hand, tiny_table

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"
SEEDS = st.integers(0, 10**6)


def seeded(number: int = 0) -> np.random.Generator:
    return np.random.default_rng(number)


# The table player ----------------------------------------------------------------------------------------------------


@given(
    example=deterministic(max_horizon=4), seed=SEEDS, max_lanes=st.sampled_from([1, 2, 3, 5, 99]), table=st.booleans()
)
def test_episodes_are_dealt_to_lanes_and_come_back_in_order(
    example: Example, seed: int, max_lanes: int, table: bool
) -> None:
    """However many lanes there are, episode e earns what its own plan earns by hand."""
    mdp, rng = example.mdp, seeded(seed)
    plans = rng.integers(mdp.num_actions, size=(7, mdp.horizon))
    player = TablePlayer(tiny_table(mdp) if table else mdp, max_lanes=max_lanes)
    lanes_of: dict[int, set[int]] = {}

    def act(t: np.ndarray, keys: np.ndarray, episode: np.ndarray) -> np.ndarray:
        for lane, number in enumerate(episode.tolist()):
            lanes_of.setdefault(number, set()).add(lane)
        return follow(plans, mdp.num_actions, rng)(t, keys, episode)

    played = play_episodes(player, act, 7, rng)
    by_hand = [played_by_hand(mdp, plan) for plan in plans.tolist()]
    assert player.num_lanes == min(7, max_lanes)
    assert played.returns().tolist() == [total for total, _ in by_hand]
    assert played.num_steps == sum(steps for _, steps in by_hand)
    assert all(lanes_of[number] == {number % player.num_lanes} for number in range(6))
    assert 6 % player.num_lanes in lanes_of[6]  # lanes that have played their share go on with it


@pytest.mark.parametrize("stickiness", [0.0, 0.5])
def test_keys_of_a_plain_mdp_are_state_and_executed_action(stickiness: float) -> None:
    mdp = random_tables(5, 6, 3, 8).sticky(stickiness)
    player, rng = TablePlayer(mdp), seeded(1)
    player.start(40, rng)
    assert player.keys.tolist() == [[0, -1]] * 40 and player.key_length == 2 and player.horizon == 8
    for _ in range(30):
        before = player.keys.copy()
        rewards, ends, _ = player.step(rng.integers(3, size=40), np.ones_like)
        for (state, _), (after, executed), reward, over in zip(before, player.keys, rewards, ends, strict=True):
            if over:
                assert (after, executed) == (0, -1)
            else:
                assert list(outcomes_of(mdp, state, executed)) == [(1.0, reward, after)]


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_every_situation_of_a_plain_mdp_has_a_number_of_its_own(stickiness: float) -> None:
    mdp = random_tables(0, 5, 3, 4).sticky(stickiness)
    states, executed = (part.ravel() for part in np.meshgrid(np.arange(5), np.arange(-1, 3)))
    numbers = state_observations(mdp, states, executed)
    assert numbers.min() == 0 and len(set(numbers.tolist())) == (20 if stickiness else 5)
    assert np.array_equal(TablePlayer(mdp).observations(np.stack([states, executed], axis=1)), numbers)


def test_observations_of_a_table_are_its_frames_channels_first() -> None:
    table = tiny_table(random_tables(1, 6, 2, 5), num_screens=3, stacked=2)
    player = TablePlayer(table)
    seen = player.observations(np.array([[table.blank, 1, 0], [0, 2, 4]], np.int32))
    assert seen.shape == (2, 2, 2, 3) and seen[:, :, 0, 0].tolist() == [[0, 20], [10, 30]]


def test_rewards_are_scaled_for_learning_and_reported_in_game_units() -> None:
    mdp = random_tables(2, 9, 3, 6, signed=True)
    plans, reported = seeded().integers(3, size=(50, 6)), {}

    def note(steps: int, infos: list[dict[str, Any]], rewards: np.ndarray, ends: np.ndarray) -> bool:
        assert len(infos) == ends.sum()
        for lane, info in zip(np.flatnonzero(ends).tolist(), infos, strict=True):
            reported.setdefault(lane, (info["episode"]["r"], info["episode"]["l"]))  # a lane goes on after its episode
        return True

    player = TablePlayer(mdp, reward_factor=4.0, max_lanes=50)
    played = play_episodes(player, follow(plans, 3, seeded()), 50, seeded(), note)
    by_hand = [played_by_hand(mdp, plan) for plan in plans.tolist()]
    assert (4 * played.returns()).tolist() == [total for total, _ in by_hand]
    assert [reported[lane] for lane in range(50)] == by_hand


def test_the_vec_env_and_the_player_play_the_same_episodes() -> None:
    table = tiny_table(random_tables(4, 9, 3, 6).sticky(0.25), clock=True)
    player, env, rng = TablePlayer(table, reward_factor=2.0), TableVecEnv(table, 5, reward_factor=2.0, seed=8), seeded()
    player.start(5, seeded(8))
    for _ in range(40):
        assert np.array_equal(player.keys, env.keys)
        actions = rng.integers(3, size=5)
        rewards, ends, _ = player.step(actions, np.ones_like)
        _, same_rewards, same_ends, _ = env.step(actions)
        assert np.array_equal(rewards.astype(np.float32), same_rewards) and np.array_equal(ends, same_ends)


def test_a_vec_env_goes_on_from_its_state() -> None:
    table = tiny_table(random_tables(6, 9, 3, 6).sticky(0.25), num_screens=4)
    first, second, rng = TableVecEnv(table, 3, seed=1), TableVecEnv(table, 3, seed=2), seeded()
    for _ in range(4):
        first.step(rng.integers(3, size=3))
    second.restore(first.state())
    second.lanes.t = second.lanes.t.copy()  # a state from a file shares no arrays
    second._totals = second._totals.copy()
    for _ in range(20):
        actions = rng.integers(3, size=3)
        mine, theirs = first.step(actions), second.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(mine[:3], theirs[:3], strict=True))
        totals = [[info.get("episode", {}).get("r") for info in infos] for infos in (mine[3], theirs[3])]
        assert totals[0] == totals[1]


def test_the_last_observation_of_an_episode_ends_with_a_blank_screen() -> None:
    table = tiny_table(TabularMDP.deterministic([[1, -1], [1, 1]], [[1.0, 7.0], [2.0, 0.0]], horizon=3))
    env = TableVecEnv(table, 2, reward_factor=10.0)
    first = env.reset()
    observations, rewards, ends, infos = env.step(np.array([1, 0]))
    assert ends.tolist() == [True, False] and rewards.tolist() == pytest.approx([0.7, 0.1]) and infos[1] == {}
    assert infos[0]["episode"]["r"] == 7.0 and infos[0]["episode"]["l"] == 1
    assert not infos[0]["terminal_observation"][..., -1].any() and np.array_equal(observations[0], first[0])
    assert env.env_is_wrapped(Monitor) == [True, True] and env.env_is_wrapped(gym.wrappers.TimeLimit) == [False, False]
    assert env.get_attr("horizon", [1]) == [3]
    env.step(np.zeros(2, int))
    _, _, ends, infos = env.step(np.zeros(2, int))
    assert ends.tolist() == [False, True] and infos[1]["episode"]["r"] == 1 + 2 + 2  # the horizon is an end
    _, _, ends, infos = env.step(np.zeros(2, int))
    assert ends.tolist() == [True, False] and infos[0]["episode"]["r"] == 1 + 2 + 2  # without the 7 of the one before


def test_random_starts_come_with_their_probabilities() -> None:
    mdp = TabularMDP.deterministic(
        [[-1], [-1], [-1]], [[1.0], [2.0], [3.0]], horizon=1, start_states=np.array([0, 2], np.int32),
        start_probabilities=np.array([0.2, 0.8]),
    )  # fmt: skip
    lanes = Lanes(mdp, 20_000, seeded())
    assert abs((lanes.states == 2).mean() - 0.8) < 0.02 and not (lanes.states == 1).any()


# Whole episodes ------------------------------------------------------------------------------------------------------


def random_episodes(seed: int) -> Episodes:
    """Lanes that end at random, and are asked for a share of episodes each."""
    rng = seeded(seed)
    L, n = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    ends = rng.random((L, n)) < 0.4
    ends[-1] = True
    t, wanted = np.zeros((L, n), np.int64), rng.integers(0, 4, size=n)
    for step in range(1, L):
        t[step] = np.where(ends[step - 1], 0, t[step - 1] + 1)
    number = np.cumsum(t == 0, axis=0) - 1
    return Episodes(
        keys=rng.integers(99, size=(L + 1, n, 2)).astype(np.int32), actions=rng.integers(3, size=(L, n)),
        rewards=rng.choice([0.0, 0.5, 1.0, -2.0], (L, n)), ends=ends, active=number < wanted, t=t,
    )  # fmt: skip


@given(seed=SEEDS, gamma=st.sampled_from([1.0, 0.5]), since=st.integers(0, 4))
def test_episodes_as_arrays_equal_episodes_as_lists(seed: int, gamma: float, since: int) -> None:
    played = random_episodes(seed)
    rows, firsts = [], []
    for lane in range(played.ends.shape[1]):
        count = 0
        for step in range(len(played.ends)):
            over = step
            while not played.ends[over, lane]:
                over += 1
            to_go = sum(gamma ** (later - step) * played.rewards[later, lane] for later in range(step, over + 1))
            assert played.returns_to_go(gamma)[step, lane] == pytest.approx(to_go)
            if not played.active[step, lane]:
                continue
            if played.t[step, lane] == 0:
                firsts.append((count, lane, to_go))
                count += 1
            rows.append((
                int(played.t[step, lane]), played.keys[step, lane].tolist(), played.keys[step + 1, lane].tolist(),
                int(played.actions[step, lane]), float(played.rewards[step, lane]), to_go, over > step,
            ))  # fmt: skip
    assert played.num_steps == len(rows)
    assert played.returns(gamma).tolist() == pytest.approx([to_go for _, _, to_go in sorted(firsts)])
    for found, expected in (
        (played.since(since, gamma), [row[1:] for row in rows if row[0] >= since]),
        (played.at(since, gamma), [row[1:] for row in rows if row[0] == since]),
    ):
        assert len(found) == len(expected)
        columns = (found.keys, found.next_keys, found.actions, found.rewards, found.returns, found.continues)
        assert [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)] == [list(r) for r in expected]


@pytest.mark.parametrize(("after", "whole"), [(1, False), (3, False), (4, True), (9, True)])
def test_episodes_that_are_stopped_before_their_end_are_none(after: int, whole: bool) -> None:
    """Two lanes, three episodes of two steps: the last step is the fourth."""
    player, steps = TablePlayer(TabularMDP.deterministic([[0]], [[1.0]], horizon=2), max_lanes=2), []

    def stop(count: int, *_: object) -> bool:
        steps.append(count)
        return len(steps) < after

    played = play_episodes(player, lambda t, keys, episode: np.zeros(len(t), int), 3, seeded(), stop)
    assert (played is not None) is whole and len(steps) == min(after, 4)
    assert steps == [2, 2, 1, 1][:after]  # steps of episodes that nobody asked for are not counted


# Live envs -----------------------------------------------------------------------------------------------------------


class SerialFromOne(Serial):
    """The same with actions 1, 2 and 3; it remembers them and returns the new number as the reward."""

    action_space, taken = gym.spaces.Discrete(3, start=1), ()

    def step(self, action):
        self.taken = (*self.taken, action)
        observation, _, *rest = super().step(action)
        return observation, float(self.serial), *rest


@pytest.mark.parametrize(("first", "kept"), [(0, 3 * 5), (1, 1 + 3 * 4), (3, 1 + 3 * 2), (9, 1)])
def test_only_frames_that_are_learned_from_are_kept(first: int, kept: int) -> None:
    """Three episodes of five steps. The very first frame is always kept."""
    player = as_player(SerialFromOne(), episodes=3, horizon=5)
    played = play_episodes(player, lambda t, keys, episode: np.zeros(1, int), 3, np.random.SeedSequence(0), first=first)
    assert player.memory.count == kept
    steps = played.since(first)
    if first:
        assert player.memory.holds(steps.keys).all()
    assert np.array_equal(player.observations(steps.keys)[:, 0] + 1, steps.rewards)


def test_actions_are_counted_from_the_envs_own_first_one() -> None:
    env = SerialFromOne()
    player = as_player(env, episodes=1, horizon=3)
    play_episodes(player, lambda t, keys, episode: t % 3, 1, seeded())
    assert env.taken == (1, 2, 3) and player.num_actions == 3


def test_discrete_observations_are_numbers() -> None:
    player = as_player(Cells(4), episodes=2, horizon=9)
    played = play_episodes(player, lambda t, keys, episode: np.ones(1, int), 2, seeded())
    cells = player.observations(played.since(0).keys)
    assert cells.tolist() == [0, 1, 2] * 2 and played.returns().tolist() == [1.0, 1.0] and cells.shape == (6,)


class Dice(Cells):
    """Pays what it throws."""

    def step(self, action):
        return 0, float(self.np_random.integers(1000)), False, False, {}


def test_one_seed_fixes_all_episodes_of_a_live_env() -> None:
    def thrown(seed: int) -> list[float]:
        player = as_player(Dice(), episodes=4, horizon=2)
        act = lambda t, keys, episode: np.zeros(1, int)  # noqa: E731
        return play_episodes(player, act, 4, np.random.SeedSequence(seed)).rewards.ravel().tolist()

    assert thrown(0) == thrown(0) != thrown(1) and len(set(thrown(0))) > 4  # an end does not seed again


@pytest.mark.parametrize("paid", [float("nan"), float("inf")])
def test_rewards_that_are_no_numbers_are_refused(paid: float) -> None:
    env = gym.wrappers.TransformReward(Cells(), lambda reward: paid)
    single = SingleEnv(env, 3)
    single.reset()
    with pytest.raises(SqirlError, match=f"the env returned the reward {paid}; rewards must be finite"):
        single.step(np.array([0]))


def test_the_horizon_of_a_live_env() -> None:
    limited = gym.wrappers.TimeLimit(Cells(9), 6)
    assert SingleEnv(limited).horizon == 6 and SingleEnv(limited, 4).horizon == 4
    game = as_player(EMPTY, episodes=1).horizon
    assert SingleEnv(gym.make(EMPTY)).horizon == game == 100
    with pytest.raises(SqirlError, match="give horizon="):
        SingleEnv(Cells())
    with pytest.raises(SqirlError, match="horizon 0 is below 1"):
        SingleEnv(Cells(), 0)
    with pytest.raises(SqirlError, match="need Discrete ones"):
        SingleEnv(Continuous(), 3)


def test_whatever_can_be_played_becomes_a_player() -> None:
    stored = as_player(EMPTY, episodes=1, horizon=7, max_lanes=3)
    assert isinstance(stored, TablePlayer) and stored.horizon == 7 and stored.max_lanes == 3
    mdp = random_tables(0, 5, 2, 4)
    assert as_player(mdp, episodes=1).mdp is mdp and as_player(mdp, episodes=1, horizon=2).horizon == 2
    live = as_player("CartPole-v1", episodes=2, horizon=5)
    assert isinstance(live, LivePlayer) and live.horizon == 5 and live.memory.capacity == 2 * 6 + 1
    assert as_player(Corridor(), episodes=2, horizon=5).num_actions == 2 and as_player(live, episodes=1) is live
    for wrong in (None, 3, [mdp], DummyVecEnv([Corridor])):
        with pytest.raises(SqirlError, match=f"{type(wrong).__name__} is not an id, a TabularMDP"):
            as_player(wrong, episodes=1)


# The env that is trained in ------------------------------------------------------------------------------------------


def test_a_training_env_tells_its_horizon_and_its_stack() -> None:
    def limited(steps: int) -> DummyVecEnv:
        return DummyVecEnv([lambda: gym.wrappers.TimeLimit(Corridor(), steps)])

    assert horizon_of(limited(6)) == 6 and horizon_of(limited(EPISODE_LIMIT + 1)) is None
    assert horizon_of(DummyVecEnv([Corridor])) is None and horizon_of(training_env(EMPTY)) == 100
    assert frames_stacked(limited(6)) == 1 and frames_stacked(VecFrameStack(limited(6), 4)) == 4
    assert horizon_of(training_env("envs_for_tests:Corridor")) is None  # our own limit on its episodes is not a horizon


def test_the_player_of_an_env_plays_from_the_table_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    name = "BRIDGE/atlantis_10_fs30-Sticky-v0"
    player = player_of(training_env(name, verbose=1), buffer_size=10)
    assert isinstance(player, TablePlayer) and player.reward_factor == 100.0
    assert f"{name} is played from its table (" in capsys.readouterr().err
    live = player_of(training_env(EMPTY, live=True, num_envs=2, verbose=1), buffer_size=10)
    assert isinstance(live, LivePlayer) and live.num_lanes == 2 and "the live game" in capsys.readouterr().err
