"""The description of an environment: for every suite, for full-length games, and for a user's own env."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor, CorridorWithSnapshots
from sqirl.envs import named
from sqirl.envs.adapters import ToyText, WholeEnvCopies, as_game
from sqirl.envs.atari import MINIMAL_ACTIONS, AtariGame, num_actions_of_rom, rom_of_full_length
from sqirl.envs.catalogue import CatalogueRow, catalogue
from sqirl.envs.check import check_env
from sqirl.envs.description import describe, time_limit, without_bookkeeping
from sqirl.envs.game_env import GameEnv
from sqirl.envs.ids import EnvId, parse_id
from sqirl.envs.minigrid import MiniGridGame
from sqirl.envs.named import named_env
from sqirl.envs.procgen import ProcgenGame
from sqirl.envs.registration import make_env
from sqirl.envs.suites import ATARI, FULL_ATARI, MINIGRID, OWN, PROCGEN, SUITES, suite_of
from sqirl.errors import InvalidMDP, UnknownEnv, WorkFailed
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import stored_mdp
from sqirl.play.own_env import EPISODE_LIMIT
from sqirl.play.training_env import horizon_of, training_env

ROWS = {str(row.env_id): row for row in catalogue()}
PONG_GAME = "PongNoFrameskip-v4"


@pytest.fixture(scope="module", autouse=True)
def ale_ids() -> None:
    """Importing ale-py registers the ids of full-length games."""
    pytest.importorskip("ale_py")


# BRIDGE ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_every_row_of_the_catalogue(row: CatalogueRow) -> None:
    sticky, plain = describe(str(row.env_id)), describe(row.env_id.deterministic())
    assert sticky.name == str(row.env_id) and plain.name == str(row.env_id).replace("-Sticky", "")
    assert sticky.horizon == plain.horizon == row.env_id.horizon
    assert (sticky.stickiness, plain.stickiness) == (0.25, 0.0)
    assert sticky.row is plain.row is row and sticky.reward_factor == row.reward_factor > 0
    assert sticky.suite is SUITES[row.env_id.suite] and sticky.is_bridge and not sticky.is_full_length
    assert sticky.file_stem == plain.file_stem == sticky.game_title == row.env_id.stem
    assert sticky.remote_name == sticky.name and sticky.dynamics is None
    assert sticky.deterministic().name == plain.name and plain.deterministic().bridge_id == plain.bridge_id
    assert sticky.num_actions() == plain.num_actions() >= 3
    if row.num_actions is not None:
        assert sticky.num_actions() == row.num_actions


@pytest.mark.parametrize(
    ("env_id", "suite", "horizon", "discount", "network", "stem", "num_actions"),
    [
        ("BRIDGE/freeway_10_fs30-Sticky-v0", ATARI, 10, 1.0, "nature", "freeway_10_fs30", 3),
        ("BRIDGE/montezuma_revenge_15_fs24-v0", ATARI, 15, 1.0, "nature", "montezuma_revenge_15_fs24", 18),
        ("BRIDGE/maze_easy_l0_30_fs1-v0", PROCGEN, 30, 1.0, "nature", "maze_easy_l0_30_fs1", 9),
        ("BRIDGE/starpilot_hard_l0_10_fs8-Sticky-v0", PROCGEN, 10, 1.0, "nature", "starpilot_hard_l0_10_fs8", 11),
        ("BRIDGE/MiniGrid-DoorKey-5x5-v0", MINIGRID, 100, 0.99, "minigrid", "MiniGrid-DoorKey-5x5", 6),
        ("BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", MINIGRID, 100, 0.99, "minigrid", "MiniGrid-Empty-5x5", 3),
    ],
)
def test_the_setup_of_each_suite(env_id, suite, horizon, discount, network, stem, num_actions) -> None:
    d = describe(env_id)
    assert (d.suite, d.horizon, d.suite.discount, d.suite.network) == (suite, horizon, discount, network)
    assert (d.file_stem, d.num_actions()) == (stem, num_actions)
    assert (suite.timesteps, suite.eval_every, suite.eval_episodes) == (5_000_000, 10_000, 100)
    assert suite.is_bridge and suite_of(env_id) is suite


@pytest.mark.parametrize(
    "env_id",
    [
        "BRIDGE/breakout_10_fs30-v0",
        "BRIDGE/qbert_10_fs30-v0",
        "BRIDGE/skiing_10_fs30-v0",
        "BRIDGE/maze_easy_l0_30_fs1-v0",
        "BRIDGE/coinrun_easy_l1_10_fs8-v0",
        "BRIDGE/starpilot_hard_l0_10_fs8-v0",
        "BRIDGE/MiniGrid-Empty-6x6-v0",
        "BRIDGE/MiniGrid-LavaGapS5-v0",
    ],
)
def test_the_live_game_agrees_with_its_description(env_id: str) -> None:
    d = describe(env_id)
    game, env = d.make_game(), d.make_env()
    assert isinstance(env, GameEnv)
    assert game.num_actions == d.num_actions() == env.action_space.n
    assert (env.horizon, env.stickiness) == (d.horizon, 0.0)
    screen = game.screen()
    assert screen is not None
    view = d.view(screen.shape)
    assert view.observation_shape == d.view().observation_shape == env.observation_space.shape
    observation, _ = env.reset(seed=0)
    assert observation.shape == view.observation_shape and observation.dtype == np.uint8
    assert view.frame_of(screen).shape == view.frame_shape


def test_an_id_outside_the_catalogue() -> None:
    d = describe("BRIDGE/pong_7_fs4-Sticky-v0")
    assert d.row is None and d.reward_factor == 1.0 and d.num_actions() == 6 and d.is_bridge
    assert (d.horizon, d.stickiness, d.file_stem) == (7, 0.25, "pong_7_fs4")
    level = describe("BRIDGE/starpilot_easy_l77_5_fs2-v0")
    assert level.row is None and level.num_actions() == 11, "the catalogue's number holds for all levels of a game"


def test_only_minigrid_shows_the_time() -> None:
    names = ["BRIDGE/pong_20_fs30-v0", "BRIDGE/maze_easy_l0_30_fs1-v0", "BRIDGE/MiniGrid-Empty-5x5-v0"]
    assert [describe(name).view().uses_clock for name in names] == [False, False, True]
    assert [describe(name).view().stacked for name in names] == [4, 1, 1]


def test_make_env_takes_a_text_or_a_parsed_id() -> None:
    for target in ("BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", parse_id("BRIDGE/MiniGrid-Empty-5x5-Sticky-v0")):
        env = make_env(target, render_mode="rgb_array")
        env.reset(seed=0)
        assert env.stickiness == 0.25 and env.render().shape[2] == 3
    assert make_env("BRIDGE/MiniGrid-Empty-5x5-v0").render() is None


# Numbers of actions --------------------------------------------------------------------------------------------------


def test_minimal_actions_are_those_of_ale() -> None:
    ale_py = pytest.importorskip("ale_py")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    found = {}
    for rom in MINIMAL_ACTIONS:
        ale = ale_py.ALEInterface()
        ale.loadROM(ale_py.roms.get_rom_path(rom))
        found[rom] = len(ale.getMinimalActionSet())
    assert found == MINIMAL_ACTIONS


def test_every_atari_game_of_the_catalogue_has_its_number_of_actions() -> None:
    assert {row.env_id.game for row in catalogue() if row.env_id.suite == "atari"} <= MINIMAL_ACTIONS.keys()
    assert num_actions_of_rom("tetris") == 5, "a ROM outside the table is loaded"


# Full-length Atari games ---------------------------------------------------------------------------------------------


def test_a_full_length_game() -> None:
    d = describe(PONG_GAME)
    assert d.suite is FULL_ATARI and d.is_full_length and not d.is_bridge and d.bridge_id is None and d.row is None
    assert (d.name, d.horizon, d.stickiness, d.num_actions()) == (PONG_GAME, None, 0.25, 6)
    assert (d.suite.discount, d.suite.network, d.suite.max_live_envs) == (0.99, "impala", 32)
    assert (d.suite.timesteps, d.suite.eval_every, d.suite.eval_episodes) == (10_000_000, 100_000, 20)
    assert d.file_stem == PONG_GAME and d.game_title == "Pong" and d.deterministic() is d
    assert rom_of_full_length("MontezumaRevengeNoFrameskip-v4") == "montezuma_revenge"
    env = d.make_env()
    assert env.action_space.n == 6
    env.close()


def test_a_full_length_game_is_checked_when_it_is_made() -> None:
    d = describe("PonngNoFrameskip-v4")
    for make in (d.make_env, d.make_game, d.num_actions):
        with pytest.raises(UnknownEnv, match="PonngNoFrameskip-v4"):
            make()
    with pytest.raises(UnknownEnv, match="names are like PongNoFrameskip-v4"):
        rom_of_full_length("PonngNoFrameskip-v4")


@pytest.mark.parametrize(
    ("name", "suite"),
    [
        ("BRIDGE/alien_10_fs30-Sticky-v0", ATARI),
        ("BRIDGE/ninja_hard_l0_10_fs8-v0", PROCGEN),
        ("BRIDGE/MiniGrid-NoSuchLevel-v0", MINIGRID),
        ("NoSuchGameNoFrameskip-v4", FULL_ATARI),
        ("ALE/QbertNoFrameskip-v4", FULL_ATARI),
        ("FrozenLake-v1", OWN),
        ("no_such_module:Env", OWN),
    ],
)
def test_the_suite_is_known_from_the_id_alone(name: str, suite) -> None:
    assert suite_of(name) is suite


def test_titles() -> None:
    assert FULL_ATARI.title_of("ALE/QbertNoFrameskip-v4") == FULL_ATARI.title_of("QbertNoFrameskip-v4") == "Qbert"
    assert OWN.title_of("my_module:Env") == "my_module:Env" and not OWN.is_bridge and not FULL_ATARI.is_bridge
    with pytest.raises(UnknownEnv, match="scheme"):
        suite_of("BRIDGE/pong-v0")


# A user's own env ----------------------------------------------------------------------------------------------------


def test_an_env_by_its_class() -> None:
    d = describe("envs_for_tests:Corridor")
    assert (d.name, d.suite, d.horizon, d.stickiness) == ("envs_for_tests:Corridor", OWN, None, 0.0)
    assert d.remote_name == "envs_for_tests:Corridor" and d.file_stem == "envs_for_tests_Corridor"
    assert d.num_actions() == 2 and isinstance(d.make_env(), Corridor) and d.make_env() is not d.make_env()
    assert isinstance(d.make_game(), WholeEnvCopies) and d.deterministic() is d
    with pytest.raises(InvalidMDP, match="not a game of a BRIDGE suite"):
        d.view()


def test_an_env_object_is_copied() -> None:
    env = CorridorWithSnapshots(length=4)
    d = describe(env)
    assert (d.name, d.remote_name, d.suite) == ("CorridorWithSnapshots", None, OWN)
    copy = d.make_env()
    copy.reset(seed=0)
    copy.step(1)
    assert copy is not env and not hasattr(env, "cell")
    assert d.make_game().num_actions == d.num_actions() == 2


def test_gymnasium_ids_and_their_dynamics() -> None:
    d = describe("FrozenLake-v1")
    assert (d.name, d.suite, d.horizon, d.remote_name) == ("FrozenLake-v1", OWN, 100, "FrozenLake-v1")
    assert d.dynamics is not None and len(d.dynamics.P) == 16 and isinstance(d.make_game(), ToyText)
    assert describe(gym.make("FrozenLake-v1", is_slippery=False)).dynamics is not None
    wrapped = gym.wrappers.TransformReward(gym.make("FrozenLake-v1"), lambda reward: -reward)
    assert describe(wrapped).dynamics is None, "P does not show what a wrapper changes"
    assert describe("CartPole-v1").dynamics is None and describe("CartPole-v1").horizon == 500


def test_an_env_of_a_bridge_id_keeps_its_horizon_and_stickiness() -> None:
    d = describe(gym.make("BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"))
    assert (d.name, d.horizon, d.stickiness) == ("BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", 100, 0.25)
    assert isinstance(d.make_game(), MiniGridGame)


def test_games_tables_and_descriptions() -> None:
    game = describe(MiniGridGame("Empty-5x5"))
    assert (game.name, game.suite, game.horizon) == ("Empty-5x5", OWN, None) and game.make_game().num_actions == 3
    table = describe(gym.make("FrozenLake-v1").unwrapped.P)
    assert (table.name, table.horizon, table.file_stem) == ("", None, "")
    for make in (table.make_game, table.make_env):
        with pytest.raises(UnknownEnv, match="table of dynamics"):
            make()
    with pytest.raises(InvalidMDP, match="a table of dynamics has no horizon of its own"):
        build_mdp(table)
    assert describe(game) is game and game.name == "Empty-5x5"
    with pytest.raises(UnknownEnv, match="3 is not an env; give an id"):
        describe(3)


def test_a_description_can_be_built_and_checked() -> None:
    d = describe("BRIDGE/MiniGrid-Empty-5x5-Sticky-v0")
    mdp = build_mdp(d)
    assert (mdp.name, mdp.stickiness, mdp.horizon) == (d.name, d.stickiness, d.horizon)
    assert mdp.num_actions == d.num_actions() and check_env(d, steps=100).name == d.name


def test_counting_wrappers_are_removed_everywhere() -> None:
    env = gym.wrappers.TransformReward(gym.make("CliffWalking-v1", max_episode_steps=9), lambda reward: 2 * reward)
    bare = without_bookkeeping(env)
    assert isinstance(bare, gym.wrappers.TransformReward) and bare.env is env.unwrapped
    assert isinstance(as_game(lambda: gym.make("BRIDGE/MiniGrid-Empty-5x5-v0"), "x"), MiniGridGame)


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":Env", "is not of the form module:Class"),
        ("module:", "is not of the form module:Class"),
        ("envs_for_tests:Nothing", "module 'envs_for_tests' has no class or function 'Nothing'"),
        ("envs_for_tests:Nothing-v0", "no environment named 'Nothing-v0'"),
        ("no_such_module:Env", "cannot import 'no_such_module' .*ModuleNotFoundError"),
        ("missing.py:Env", "no file 'missing.py'"),
        ("Nothing-v0", "no environment named 'Nothing-v0'; give an id"),
        ("pong_20_fs30", "did you mean .*BRIDGE/pong_20_fs30-v0"),
        ("pong_20_fs30-Sticky", "did you mean .*BRIDGE/pong_20_fs30-Sticky-v0"),
    ],
)
def test_an_unknown_name_is_an_error_at_once(name: str, message: str) -> None:
    with pytest.raises(UnknownEnv, match=message):
        named_env(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("envs_for_tests:broken", "'envs_for_tests:broken' could not be made: RuntimeError: no licence file"),
        ("envs_for_tests:not_an_env", "made an object of type int, not a gymnasium.Env"),
    ],
)
def test_a_factory_that_fails_is_an_error_when_it_is_called(name: str, message: str) -> None:
    make = named_env(name)
    with pytest.raises(UnknownEnv, match=message):
        make()


def test_a_removed_version_is_replaced_by_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="no longer has CliffWalking-v0; using CliffWalking-v1"):
        assert named_env("CliffWalking-v0")().spec.id == "CliffWalking-v1"
    monkeypatch.setattr(named.gym, "registry", {})
    with pytest.raises((UnknownEnv, gym.error.Error)):
        named_env("CliffWalking-v0")


def test_a_module_that_registers_an_id(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registers.py").write_text(
        "import gymnasium as gym\ngym.register('Own-v0', entry_point='envs_for_tests:Corridor', max_episode_steps=4)\n"
    )
    monkeypatch.chdir(tmp_path)
    try:
        d = describe("registers:Own-v0")
        assert (d.name, d.horizon, d.file_stem) == ("registers:Own-v0", 4, "registers_Own-v0")
        assert build_mdp(d).horizon == 4
    finally:
        gym.registry.pop("Own-v0", None)


def test_ids_of_all_suites_are_made_by_their_games() -> None:
    games = [
        ("BRIDGE/pong_20_fs30-v0", AtariGame),
        ("BRIDGE/maze_hard_l0_9_fs1-v0", ProcgenGame),
        ("BRIDGE/MiniGrid-Empty-5x5-v0", MiniGridGame),
    ]
    for name, kind in games:
        assert isinstance(describe(name).make_game(), kind)
    assert EnvId("atari", "pong", 20, 30, True).stickiness == 0.25


def test_the_horizon_of_an_env_is_its_smallest_limit() -> None:
    limited = gym.wrappers.TimeLimit(gym.wrappers.TimeLimit(Corridor(), 20), 50)
    assert describe(limited).horizon == 20 == time_limit(limited)
    assert describe(gym.make("CartPole-v1")).horizon == 500
    assert describe(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 30)).horizon == 30
    assert describe(Corridor()).horizon is None and describe("envs_for_tests:Corridor").horizon is None


def test_an_env_without_a_horizon_gets_none_from_our_own_limit() -> None:
    vectorised = training_env("envs_for_tests:Corridor")
    assert horizon_of(vectorised) is None
    assert vectorised.get_attr("_max_episode_steps")[0] == EPISODE_LIMIT
    assert horizon_of(training_env("CartPole-v1")) == 500


def test_a_bridge_env_as_an_object_is_described_as_its_id() -> None:
    name = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"
    of_object, of_id = describe(gym.make(name)), describe(name)
    assert of_object.is_bridge and of_object.suite is of_id.suite and of_object.remote_name == name
    assert of_object.num_actions() == 3 and of_object.stickiness == 0.25 and of_object.horizon == 100
    assert isinstance(of_object.make_env(), GameEnv)


def test_versions_of_two_digits_are_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registers_version_12.py").write_text(
        "import gymnasium as gym\nfrom envs_for_tests import Corridor\ngym.register('Twelve-v12', Corridor)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert describe("registers_version_12:Twelve-v12").num_actions() == Corridor().action_space.n


def test_an_exception_of_a_users_env_in_training_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env_that_raises.py").write_text(
        "from envs_for_tests import Corridor\n"
        "class Raises(Corridor):\n"
        "    def step(self, action): raise ZeroDivisionError('by zero')\n"
    )
    monkeypatch.chdir(tmp_path)
    env = training_env("env_that_raises:Raises")
    env.reset()
    with pytest.raises(WorkFailed, match=r"Raises: step\(\) failed with ZeroDivisionError: by zero"):
        env.step([0])


def test_skiing_is_not_cut_because_it_pays_at_its_horizon() -> None:
    assert describe("BRIDGE/skiing_10_fs30-v0").bridge_id.depends_on_horizon
    assert stored_mdp("BRIDGE/skiing_10_fs30-v0", horizon=5) is None
