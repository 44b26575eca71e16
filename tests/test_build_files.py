"""`build_files`: which files are written, how states are merged, and what becomes of the journal."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor
from sqirl.errors import InvalidMDP, SqirlError, UnknownEnv, WorkFailed
from sqirl.mdp import build_files as module
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.build_files import MERGE_MODES, BuiltFile, build_files, journal_folder, merged
from sqirl.mdp.convert import to_stochastic
from sqirl.mdp.journal import lock_of, remove_journal
from sqirl.mdp.store import open_mdp, user_folder
from sqirl.mdp.tabular import TabularMDP

LAMPS = "test_build_files:Lamps"
EMPTY, DOORKEY = "BRIDGE/MiniGrid-Empty-5x5-v0", "BRIDGE/MiniGrid-DoorKey-5x5-v0"


class Lamps(Corridor):
    """Two rooms with a lamp and a hidden switch that change nothing else. The observation shows the room and the lamp."""

    action_space = gym.spaces.Discrete(3)

    def reset(self, **options: Any):
        super().reset(**options)
        self.room, self.lamp, self.hidden = 0, 0, 0
        return 0, {}

    def step(self, action: int):
        self.lamp, self.hidden, self.room = (
            self.lamp ^ (action == 0),
            self.hidden ^ (action == 1),
            self.room + (action == 2),
        )
        return 2 * self.room + self.lamp, float(self.room == 2), self.room == 2, False, {}


def build(*names: str, **options) -> list[BuiltFile]:
    return list(build_files(names, jobs=1, **options))


def test_a_file_a_folder_and_the_store(tmp_path: Path) -> None:
    (file,) = build(EMPTY, out=tmp_path / "one.npz")
    assert file.path == tmp_path / "one.npz" and TabularMDP.load(file.path).name == EMPTY
    folder = build(EMPTY, DOORKEY, out=tmp_path / "new" / "folder")
    assert [built.path.name for built in folder] == ["MiniGrid-Empty-5x5.npz", "MiniGrid-DoorKey-5x5.npz"]
    assert {built.path.parent for built in folder} == {tmp_path / "new" / "folder"}
    (stored,) = build("envs_for_tests:Corridor", horizon=9)
    assert stored.path == user_folder() / "mdps" / "envs_for_tests_Corridor.npz" and stored.path.is_file()


def test_the_summary_of_a_file(tmp_path: Path) -> None:
    (built,) = build(EMPTY, out=tmp_path / "one.npz")
    assert built.to_dict() == {
        "env_id": EMPTY, "num_states": 32, "num_actions": 3, "horizon": 100, "depth": None, "partial": False,
        "file": str(tmp_path / "one.npz"), "scope": "", "kept": False,
    }  # fmt: skip
    assert str(built) == f"{EMPTY}: 32 states, 3 actions, closed -> {tmp_path / 'one.npz'}"
    (short,) = build(EMPTY, out=tmp_path / "one.npz", horizon=3)
    assert "to step 3" in str(short) and not short.to_dict()["partial"]


def test_a_sticky_id_and_its_game_are_one_build(tmp_path: Path) -> None:
    sticky = EMPTY.replace("-v0", "-Sticky-v0")
    (built,) = build(EMPTY, sticky, out=tmp_path / "one.npz")
    assert built.env_id == sticky and built.mdp.stickiness == 0.25 and built.mdp.num_states == 32
    assert len(build(EMPTY, EMPTY, out=tmp_path)) == 1


@pytest.mark.parametrize("names", [("A", "B"), (EMPTY, DOORKEY), ("leaper",), (EMPTY, "envs_for_tests:broken")])
def test_several_envs_and_one_file_are_refused_before_an_env_is_made(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "describe", lambda target: pytest.fail(f"{target} was described"))
    with pytest.raises(SqirlError, match=r"one\.npz' is one file, but [24] envs were named; give a folder"):
        build(*names, out=tmp_path / "one.npz")
    assert not list(tmp_path.iterdir())


def test_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(SqirlError, match="merge = 'colour' is not one of auto, none, screen, reward"):
        build(EMPTY, merge="colour")
    with pytest.raises(UnknownEnv, match="NoSuchEnv-v0"):
        build(EMPTY, "NoSuchEnv-v0", out=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SqirlError, match="is a file; give the name of a folder"):
        build(EMPTY, out=tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and not user_folder().exists()


@pytest.mark.parametrize(("merge", "states"), [("none", 8), ("screen", 4), ("auto", 4), ("reward", 2)])
def test_merge_modes(merge: str, states: int, tmp_path: Path) -> None:
    assert merge in MERGE_MODES
    (built,) = build(LAMPS, out=tmp_path / "m.npz", merge=merge, horizon=20)
    plain = build_mdp(Lamps(), horizon=20)
    expected = plain if merge == "none" else plain.merge(by="screen" if merge == "auto" else merge)
    assert np.array_equal(built.mdp.transitions, expected.transitions)
    assert built.mdp.num_states == TabularMDP.load(built.path).num_states == states
    assert (built.mdp.screens is None) == (merge == "reward")


def test_auto_merges_only_what_can_be_merged() -> None:
    mdp = build_mdp(Corridor(), horizon=9)
    random, blind = to_stochastic(mdp), TabularMDP.deterministic(mdp.transitions, mdp.rewards)
    assert merged(random, "auto") is random and merged(blind, "auto") is blind and merged(mdp, "none") is mdp
    with pytest.raises(InvalidMDP, match="no screens"):
        merged(blind, "screen")


def test_screens_can_be_left_out(tmp_path: Path) -> None:
    (built,) = build(EMPTY, out=tmp_path / "m.npz", screens=False)
    loaded = TabularMDP.load(built.path)
    assert loaded.screens is None and loaded.screen_mapping is not None


def test_the_journal_is_kept_while_the_build_is_partial(tmp_path: Path) -> None:
    journal = user_folder() / "builds" / "MiniGrid-DoorKey-5x5"
    (partial,) = build(DOORKEY, out=tmp_path / "m.npz", max_states=60)
    assert partial.mdp.is_partial and partial.to_dict()["partial"] and TabularMDP.load(partial.path).is_partial
    kept = {path.name: path.stat().st_size for path in journal.iterdir()}
    assert {"identity.json", "lock", "rows_0000"} <= kept.keys()
    (whole,) = build(DOORKEY, out=tmp_path / "m.npz", merge="none")
    assert not whole.mdp.is_partial and not journal.exists()
    assert np.array_equal(whole.mdp.transitions, build_mdp(DOORKEY).transitions), "resumed and built at once are equal"


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks that are expanded from now on."""
    from sqirl.mdp import enumeration

    sizes: list[int] = []
    expand = enumeration.expand

    def counting(game, packed):
        sizes.append(len(packed))
        return expand(game, packed)

    monkeypatch.setattr(enumeration, "expand", counting)
    return sizes


def test_a_smaller_result_does_not_replace_a_larger_one(tmp_path: Path) -> None:
    (whole,) = build(DOORKEY, out=tmp_path / "m.npz")
    content = whole.path.read_bytes()
    for smaller in ({"max_states": 50}, {"horizon": 3}, {"max_states": 1, "horizon": 4}):
        (kept,) = build(DOORKEY, out=tmp_path / "m.npz", **smaller)
        assert kept.path.read_bytes() == content and kept.mdp.num_states == whole.mdp.num_states
        assert kept.smaller.num_states < 60 and kept.covers_what_was_asked and kept.to_dict()["kept"]
        assert "kept" in str(kept) and "was not written" in str(kept)
    (partial,) = build(DOORKEY, out=tmp_path / "p.npz", max_states=150)
    (less,) = build(DOORKEY, out=tmp_path / "p.npz", horizon=3)
    assert less.smaller.depth == 3 and TabularMDP.load(less.path).depth == partial.mdp.depth > 3
    (other,) = build(EMPTY, out=tmp_path / "m.npz", horizon=3)
    assert other.smaller is None and TabularMDP.load(other.path).name == EMPTY, "a file of another env is replaced"


def test_builds_that_were_complete_are_not_enumerated_again(expanded: list[int]) -> None:
    builds = build_files([DOORKEY, EMPTY], jobs=1, merge="none")
    next(builds)
    del builds  # as if the command was killed during the second build
    first = sum(expanded)
    build(DOORKEY, EMPTY, merge="none")
    second = build_mdp(EMPTY).num_states
    assert first == 260 and sum(expanded) - second == 260 + second
    assert not list((user_folder() / "builds").iterdir())


def test_the_journal_is_locked_until_the_build_has_been_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    from sqirl.mdp import build as build_module

    replay, refused = build_module.check_replays, []

    def a_second_build(*arguments: Any) -> None:
        with pytest.raises(WorkFailed, match="another build is running"):
            build_mdp(EMPTY, folder=journal_folder("MiniGrid-Empty-5x5"))
        refused.append(True)
        replay(*arguments)

    monkeypatch.setattr(build_module, "check_replays", a_second_build)
    build(EMPTY)
    assert refused


def test_a_journal_in_use_is_not_removed() -> None:
    folder = journal_folder("MiniGrid-Empty-5x5")
    build_mdp(EMPTY, folder=folder)
    with lock_of(folder):
        remove_journal(folder)
    assert folder.exists()
    remove_journal(folder)
    assert not list(folder.parent.iterdir())


def test_what_a_kill_during_the_clean_up_leaves_is_cleaned_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from sqirl.mdp import journal

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stopped = SimpleNamespace(rmtree=lambda path, **_: interrupt() if path.exists() else None)
        patch.setattr(journal, "shutil", stopped)
        build(DOORKEY, merge="none")
    assert list((user_folder() / "builds").iterdir())
    (again,) = build(DOORKEY, merge="none")
    assert again.mdp.num_states == 260 and not list((user_folder() / "builds").iterdir())


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_resumed_build_expands_only_what_is_missing(expanded: list[int]) -> None:
    build(DOORKEY, max_states=60)
    first = sum(expanded)
    build(DOORKEY, merge="none")
    assert 0 < first < 260 and sum(expanded) == 260


def test_each_build_has_its_own_display() -> None:
    events: list[str] = []

    @contextmanager
    def display(name: str):
        events.append(f"start {name}")
        yield lambda progress: events.append(type(progress).__name__)
        events.append(f"end {name}")

    build(EMPTY, DOORKEY, display=display)
    named = [event for event in events if event != BuildProgress.__name__]
    assert named == [f"{when} {name}" for name in (EMPTY, DOORKEY) for when in ("start", "end")]


def test_files_are_yielded_one_by_one_and_found_in_the_store() -> None:
    builds = build_files([EMPTY, DOORKEY], jobs=1)
    first = next(builds)
    assert first.path.is_file() and not (user_folder() / "mdps" / "MiniGrid-DoorKey-5x5.npz").exists()
    (second,) = builds
    assert open_mdp(DOORKEY).num_states == second.mdp.num_states == 260
