"""One way to name an environment: ids of all packages, keyword arguments, files, old versions, and similar names."""

from __future__ import annotations

import importlib
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import sqirl
from envs_for_tests import Corridor
from sqirl.cli.main import run
from sqirl.envs import naming
from sqirl.envs.check import check_env
from sqirl.envs.description import describe
from sqirl.envs.named import registered_id
from sqirl.envs.naming import Provider, name_with, parse_kwargs, split_name, suggestions
from sqirl.errors import NotEnumerable, SqirlError, UnknownEnv
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import open_mdp
from sqirl.runtime.files import safe_file_name

ICE = 'FrozenLake-v1 {"is_slippery": false}'


def test_arguments_are_part_of_the_name() -> None:
    assert name_with("FrozenLake-v1", {"is_slippery": False}) == ICE and split_name(ICE)[1] == {"is_slippery": False}
    assert name_with(ICE, {"is_slippery": True}) == 'FrozenLake-v1 {"is_slippery": true}'
    assert name_with("A-v0", None) == "A-v0" and split_name("module:Class") == ("module:Class", {})
    by_keyword, by_name = describe("FrozenLake-v1", env_kwargs={"is_slippery": False}), describe(ICE)
    assert by_keyword.name == by_name.name == by_name.remote_name == ICE
    assert build_mdp(ICE, horizon=8).max_outcomes == 1 and build_mdp("FrozenLake-v1", horizon=8).max_outcomes == 3
    assert describe('envs_for_tests:Corridor {"length": 4}').make_env().length == 4
    assert sqirl.make_env("envs_for_tests:Corridor", env_kwargs={"length": 9}).length == 9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parse_kwargs("{slippery}"), "are not JSON"),
        (lambda: parse_kwargs("[1]"), "are not an object"),
        (lambda: name_with("A-v0", {"f": open}), "cannot be written as JSON"),
        (lambda: describe("BRIDGE/freeway_10_fs30-v0", env_kwargs={"a": 1}), "takes no arguments"),
        (lambda: describe(Corridor(), env_kwargs={"a": 1}), "is made already"),
        (lambda: describe('FrozenLake-v1 {"slips": 1}'), "could not be made: TypeError"),
    ],
)
def test_wrong_arguments_are_one_line(make, message: str) -> None:
    with pytest.raises(SqirlError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_package_that_registers_an_id_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minigrid")
    assert describe("MiniGrid-DoorKey-16x16-v0").num_actions() == 7
    missing = Provider("no_such_package", "no-such-package", "Wonder-")
    monkeypatch.setattr(naming, "PROVIDERS", (missing, *naming.PROVIDERS))
    with pytest.raises(UnknownEnv, match=r"the package no_such_package, which is not installed.*pip install no-such"):
        describe("Wonder-Land-v1")


def test_atari_ids_are_saved_by_their_emulator() -> None:
    pytest.importorskip("ale_py")
    game = describe("ALE/Pong-v5", env_kwargs={"repeat_action_probability": 0.0}).make_game()
    assert game.saved_by == "states of the emulator" and game.num_actions == 6
    start, key = game.get_state(), game.state_key()
    for _ in range(40):
        game.step(2)
    moved = game.state_key()
    game.set_state(start)
    assert game.state_key() == key != moved and game.render().shape == (210, 160, 3)
    for _ in range(40):
        game.step(2)
    assert game.state_key() == moved


def test_old_versions_are_redirected_everywhere() -> None:
    old = "CliffWalking-v0" if "CliffWalking-v1" in gym.registry else "Taxi-v3"
    with pytest.warns(UserWarning, match=f"no longer has {old}"):
        description = describe(old)
    newest = description.name
    assert newest != old and description.remote_name == newest and build_mdp(newest, horizon=3).name == newest


def test_the_newest_version_is_the_largest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in (9, 10):
        monkeypatch.setitem(gym.registry, f"Aged-v{version}", gym.envs.registration.EnvSpec(f"Aged-v{version}"))
    with pytest.warns(UserWarning, match="using Aged-v10"):
        assert registered_id("Aged-v3") == "Aged-v10"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FrozenLak-v1", "FrozenLake-v1"),
        ("CartPol-v1", "CartPole-v1"),
        ("MiniGrid-Emty-8x8-v0", "MiniGrid-Empty-8x8-v0"),
        ("BRIDGE/freway_10_fs30-v0", "BRIDGE/freeway_10_fs30-v0"),
        ("DoorKey-8x8", "MiniGrid-DoorKey-8x8-v0"),
        (ICE.replace("Lake", "Lak"), "FrozenLake-v1"),
    ],
)
def test_similar_names_are_suggested_among_all_ids(name: str, meant: str) -> None:
    importlib.import_module("minigrid")
    assert meant in suggestions(name)
    assert "did you mean" not in suggestions("Wholly unlike anything")
    assert suggestions(__file__) == f"; name the class of the env as well: {__file__}:Class"


def test_similar_names_in_modules_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corridor.npz").write_bytes(b"")
    for name, meant in (("envs_for_tests:Coridor", "Corridor"), ("coridor.npz", "corridor.npz")):
        with pytest.raises(UnknownEnv, match=f"did you mean {meant}"):
            describe(name)


def test_a_file_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "corridor.npz"
    build_mdp(Corridor(), horizon=7).save(path)
    for target in (path, str(path), describe(path)):
        assert open_mdp(target).horizon == 7
    with pytest.raises(UnknownEnv, match="no environment that can be stepped"):
        describe(path).make_env()


def test_names_with_arguments_have_files_of_their_own() -> None:
    names = ["a:B", 'a:B {"n": 1}', 'a:B {"n": 2}', 'a:B {"n": [1, 2]}', "a:B " + "x" * 300]
    files = {safe_file_name(name) for name in names}
    assert len(files) == len(names) and safe_file_name("a:B") == "a_B"
    assert all(len(file) < 200 and not set(file) & set(' {}"/:') for file in files)


class Restarting(Corridor, gym.utils.EzPickle):
    """Its copies start anew."""

    def __init__(self) -> None:
        Corridor.__init__(self)
        gym.utils.EzPickle.__init__(self)


def test_an_env_whose_copies_start_anew_is_refused() -> None:
    with pytest.raises(NotEnumerable, match="EzPickle"):
        build_mdp(Restarting(), horizon=5)


class Painted(Corridor):
    """Draws its cell, and keeps something that cannot be copied after it has drawn."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def render(self):
        self.window = (cell for cell in ())
        return np.full((2, 2, 3), self.cell, np.uint8) if self.render_mode == "rgb_array" else None


def test_pictures_need_no_render_mode() -> None:
    mdp = build_mdp(Painted(), horizon=9)
    assert [int(mdp.render(s).max()) for s in range(mdp.num_states)] == list(range(mdp.num_states))
    game = describe(Painted()).make_game()
    game.step(1)
    assert game.render().max() == 1 and check_env(Painted(), steps=50).problem is None
    assert build_mdp("FrozenLake-v1", horizon=9).render(5).shape[2] == 3


def test_every_command_takes_arguments_of_the_env(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--env-kwargs", '{"length": 4}']
    for command in (
        ["check", "envs_for_tests:Corridor", "--steps", "50"],
        ["analyze", "envs_for_tests:Corridor", "--horizon", "4"],
    ):
        with pytest.raises(SystemExit) as done:
            run([*command, *arguments, "--json"])
        assert done.value.code == 0 and '{\\"length\\": 4}' in capsys.readouterr().out
    with pytest.raises(SystemExit) as wrong:
        run(["check", "envs_for_tests:Corridor", "--env-kwargs", "length=4"])
    assert wrong.value.code == 2 and capsys.readouterr().err.count("\n") == 1
