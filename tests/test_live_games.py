"""Atari and Procgen: the live envs, and their tables compared with them, observations included."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sqirl
from sqirl.analysis.analyze import analyze
from sqirl.envs.atari import AtariGame, grey_84
from sqirl.envs.catalogue import catalogue
from sqirl.envs.check import check_env as check_restorable
from sqirl.envs.description import describe
from sqirl.envs.procgen import BATCH, ProcgenGame, library_hash
from sqirl.errors import UnknownEnv
from sqirl.mdp.build import build_mdp
from sqirl.mdp.expand import expand, pack, step_each

ROWS = [row.env_id for row in catalogue() if row.env_id.suite != "minigrid"]
SAMPLE = ["BRIDGE/freeway_10_fs30", "BRIDGE/pong_20_fs30", "BRIDGE/montezuma_revenge_15_fs24", "BRIDGE/maze_easy_l0_30_fs1",
          "BRIDGE/leaper_exploration_l0_20_fs6", "BRIDGE/ninja_hard_l0_10_fs8"]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("suffix", ["-v0", "-Sticky-v0"])
def test_envs_pass_gymnasiums_checker(name: str, suffix: str) -> None:
    check_env(gym.make(name + suffix).unwrapped, skip_render_check=True)


def test_all_rows_are_registered_with_their_spaces() -> None:
    for env_id in ROWS:
        assert str(env_id) in gym.registry and str(env_id.deterministic()) in gym.registry
    assert gym.make("BRIDGE/pong_20_fs30-v0").observation_space.shape == (84, 84, 4)
    assert gym.make("BRIDGE/starpilot_hard_l0_10_fs8-v0").observation_space.shape == (64, 64, 3)
    assert gym.make("BRIDGE/starpilot_hard_l0_10_fs8-v0").action_space.n == 11


def test_ids_outside_the_catalogue_can_be_made() -> None:
    env = sqirl.make_env("BRIDGE/pong_7_fs4-Sticky-v0")
    env.reset(seed=0)
    ends = [env.step(0)[2] for _ in range(7)]
    assert ends == [False] * 6 + [True]
    assert sqirl.make_env("BRIDGE/bigfish_hard_l7_5_fs2-v0").action_space.n == 9
    for wrong in (
        "BRIDGE/packman_10_fs30-v0",
        "BRIDGE/tetris_easy_l0_10_fs1-v0",
        "BRIDGE/bigfish_exploration_l0_5_fs2-v0",
    ):
        with pytest.raises(UnknownEnv):
            sqirl.make_env(wrong)


def test_atari_stacks_the_last_four_steps() -> None:
    env = gym.make("BRIDGE/pong_20_fs30-v0").unwrapped
    first, _ = env.reset(seed=0)
    assert not first[..., :3].any() and np.array_equal(first[..., 3], grey_84(env.game.screen()))
    frames = [first[..., 3]]
    for action in (2, 3, 2, 3, 3):
        observation, *_ = env.step(action)
        frames.append(observation[..., 3])
    assert np.array_equal(observation, np.stack(frames[-4:], axis=-1))
    saved = env.get_state()
    expected, *_ = env.step(2)
    env.set_state(saved)
    assert np.array_equal(env.step(2)[0], expected)


def test_grey_84_is_the_mean_over_areas() -> None:
    screen = np.zeros((210, 160, 3), np.uint8)
    screen[:105] = 200
    small = grey_84(screen)
    assert small.shape == (84, 84) and (small[:42] == 200).all() and (small[42:] == 0).all()
    assert abs(float(small.mean()) - 100) < 1


def test_grey_84_is_exact_on_every_processor() -> None:
    """Against fractions, with many pixels that lie halfway between two greys: the order of a float sum would decide these."""
    screen = np.random.default_rng(0).integers(0, 4, (210, 160, 1), np.uint8).repeat(3, axis=2)
    small, ties = grey_84(screen), 0
    for y, x in product(range(84), range(0, 84, 7)):
        top, left = Fraction(y * 210, 84), Fraction(x * 160, 84)
        bottom, right = top + Fraction(210, 84), left + Fraction(160, 84)
        total = sum(
            (min(bottom, i + 1) - max(top, i)) * (min(right, j + 1) - max(left, j)) * int(screen[i, j, 0])
            for i, j in product(range(int(top), ceil(bottom)), range(int(left), ceil(right)))
        )
        mean = total / Fraction(210 * 160, 84 * 84)
        ties += mean % 1 == Fraction(1, 2)
        assert small[y, x] == round(mean)
    assert ties


@pytest.mark.parametrize(
    "name",
    [
        "BRIDGE/freeway_10_fs30-v0",
        "BRIDGE/montezuma_revenge_15_fs24-v0",
        "BRIDGE/maze_easy_l0_30_fs1-v0",
        "BRIDGE/coinrun_easy_l1_10_fs8-v0",
    ],
)
def test_games_are_restorable(name: str) -> None:
    assert check_restorable(name, steps=60).problem is None


@pytest.mark.parametrize("rom", ["qbert", "tetris", "pong"])  # the first two start in the middle of a frame
def test_atari_restored_before_every_step_is_atari_played_straight(rom: str) -> None:
    rng, detours = np.random.default_rng(0), np.random.default_rng(1)
    game, other = AtariGame(rom, 8), AtariGame(rom, 8)
    for _ in range(12):
        straight = AtariGame(rom, 8)  # never restored
        game.reset()
        state = game.get_state()
        for action in rng.integers(straight.num_actions, size=25).tolist():
            for _ in range(detours.integers(3)):  # the emulator is in another state, or at the start
                game.step(int(detours.integers(game.num_actions)))
            if detours.random() < 0.2:
                game.reset()
            game, other = other, game
            game.set_state(state)
            assert game.state_key() == straight.state_key()
            outcome = game.step(action)
            assert outcome == straight.step(action) and game.state_key() == straight.state_key()
            assert np.array_equal(game.screen(), straight.screen())
            if outcome[1]:
                break
            state = game.get_state()


@pytest.mark.parametrize("game", [ProcgenGame("maze", "easy", 0, 1, 9), ProcgenGame("starpilot", "easy", 1, 8, 11)])
def test_procgen_many_at_a_time_is_procgen_one_at_a_time(game: ProcgenGame) -> None:
    rng = np.random.default_rng(0)
    game.reset()
    states = []
    while len(states) < 10:  # ten states are more than one batch of state-action pairs
        states.append(game.get_state())
        _, over = game.step(int(rng.integers(game.num_actions)))
        if over:
            game.reset()
    assert len(states) * game.num_actions > BATCH
    together = expand(game, [pack(state) for state in states])
    apart = list(step_each(game, states))
    assert [o.key for o in apart] == together.keys and [o.reward for o in apart] == together.rewards.ravel().tolist()
    assert np.array_equal(game.rewards_of_all(states), together.rewards)


#: id -> optimal, random and worst return of the sticky game to many digits, min k, and the numbers of states where they are known
ANCHORS = {
    "BRIDGE/freeway_10_fs30-v0": (1.0, 0.031809488932291664, 0.0, 1, (399, 197, 33)),
    "BRIDGE/pong_20_fs30-v0": (-1.013665500038769, -2.759129236879138, -3.0, None, None),
    "BRIDGE/maze_easy_l0_30_fs1-v0": (10.0, 5.5408607728269175, 0.0, 1, None),
    "BRIDGE/breakout_10_fs30-v0": (1.171875, None, 0.0, 1, None),
    "BRIDGE/qbert_10_fs30-v0": (350.0, None, 0.0, 4, None),
}
GREEDY = {
    "BRIDGE/pong_20_fs30-v0": [-1.137, -1.127, -1.087, -1.043, -1.035],
    "BRIDGE/qbert_10_fs30-v0": [345.3125, 345.3125, 345.3125, 350.0, 350.0],
    "BRIDGE/breakout_10_fs30-v0": [1.172, 1.172, 1.172, 1.172, 0.938],
}


@pytest.mark.parametrize("name", ANCHORS)
def test_anchors(name: str) -> None:
    optimal, random, worst, min_k, sizes = ANCHORS[name]
    mdp = build_mdp(name, replays=5, jobs=2)
    a = analyze(mdp.sticky(0.25), search_k=5)
    assert a.optimal_return == pytest.approx(optimal, rel=1e-12) and a.worst_return == pytest.approx(worst, abs=1e-12)
    assert random is None or a.random_return == pytest.approx(random, rel=1e-12)
    assert min_k is None or a.min_k == min_k
    if name in GREEDY:
        assert a.greedy_returns[:5] == pytest.approx(GREEDY[name], abs=6e-4)
    if sizes:
        assert (mdp.num_states, mdp.merge().num_states, mdp.merge(by="reward").num_states) == sizes
    live_and_table_agree(name, mdp.merge())


def live_and_table_agree(name: str, mdp) -> None:
    """Random episodes in the live game and in the merged table: rewards, ends, and states that look the same look the same."""
    game, rng = describe(name).make_game(), np.random.default_rng(0)
    looks: dict[int, bytes] = {}
    for _ in range(12 if isinstance(game, AtariGame) else 60):
        game.reset()
        state = 0
        for t in range(mdp.horizon):
            look = game.screen().tobytes()
            assert looks.setdefault(int(mdp.screen_mapping[state]), look) == look
            action = int(rng.integers(mdp.num_actions))
            reward, over = game.step(action)
            assert reward == mdp.rewards[state, action]
            state = int(mdp.transitions[state, action])
            assert (state == -1) == (over or t == mdp.horizon - 1)
            if state == -1:
                break
    assert len(set(looks.values())) == len(looks)


def test_provenance_names_the_libraries() -> None:
    provenance = ProcgenGame("maze", "easy", 0, 1, 9).provenance()
    assert provenance["libenv_sha256"] == library_hash() and len(library_hash()) == 64
    assert {"ale-py", "rom_sha256"} <= AtariGame("pong", 30).provenance().keys()
