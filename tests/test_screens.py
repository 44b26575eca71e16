"""Screens drawn by replaying paths, compared with the live game; and the command `sqirl screens`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from envs_for_tests import Corridor
from sqirl.envs.description import describe
from sqirl.envs.ids import parse_id
from sqirl.errors import InvalidMDP, WorkFailed
from sqirl.mdp.build import build_mdp
from sqirl.mdp.convert import to_stochastic
from sqirl.mdp.screens import cached_frames_path, draw_screens, frames_of, with_screens
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game, picture_after, play

NAMES = ["BRIDGE/freeway_10_fs30-v0", "BRIDGE/maze_easy_l0_30_fs1-v0", "BRIDGE/MiniGrid-DoorKey-5x5-v0"]


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_what_the_live_game_shows(name: str) -> None:
    mdp, game, view = stored_mdp(parse_id(name)), describe(name).make_game(), describe(name).view()
    frames = frames_of(mdp, view)
    assert len(frames) == mdp.screen_mapping.max() + 1
    for state in np.random.default_rng(0).integers(mdp.num_states, size=12).tolist():
        play(game, mdp.path_to(state))
        assert np.array_equal(frames[mdp.screen_mapping[state]], view.frame_of(game.screen()))


def test_frames_are_drawn_once() -> None:
    env_id = parse_id("BRIDGE/maze_easy_l0_30_fs1-Sticky-v0")
    mdp, drawn = replace(stored_mdp(env_id), screens=None), []
    first = frames_of(mdp, describe(env_id).view(), progress=lambda done, total: drawn.append((done, total)))
    assert drawn[-1] == (len(first), len(first))
    again = frames_of(mdp, describe(env_id).view(), progress=lambda done, total: pytest.fail("drawn twice"))
    assert np.array_equal(first, again)
    cached_frames_path(mdp).write_bytes(b"damaged")
    with pytest.raises(WorkFailed, match="remove it"):
        frames_of(mdp, describe(env_id).view())


def test_an_mdp_without_a_mapping_says_so() -> None:
    mdp = TabularMDP.deterministic(np.array([[-1]]), np.array([[0.0]]), horizon=1, name="bare")
    with pytest.raises(InvalidMDP, match="screen_mapping"):
        with_screens(mdp)


def test_pictures_need_a_game_that_can_be_rendered() -> None:
    table = TabularMDP.deterministic([[0, -1]], [[0.0, 1.0]], horizon=2, name="NoSuchEnv-v0")
    with pytest.raises(WorkFailed, match="the game of the MDP 'NoSuchEnv-v0' is not available"):
        live_game(table)
    mdp = build_mdp(Corridor(), horizon=5)
    assert mdp.env_at(3).state_key() != mdp.env_at(2).state_key()
    for make in (lambda: mdp.render(2), lambda: picture_after(mdp, [1, 1])):
        with pytest.raises(WorkFailed, match="cannot be rendered; make its env with render_mode='rgb_array'"):
            make()
    with pytest.raises(WorkFailed, match="random outcomes, so a path to state 2 cannot be replayed"):
        to_stochastic(mdp).env_at(2)


def test_stored_screens_equal_drawn_ones() -> None:
    mdp = stored_mdp(parse_id("BRIDGE/MiniGrid-Empty-5x5-v0"))
    drawn = draw_screens(replace(mdp, screens=None), describe(mdp.name).make_game(), np.asarray)
    assert np.array_equal(drawn, mdp.screens)


def test_the_command_finds_and_writes(sqirl, tmp_path) -> None:
    out = tmp_path / "maze.npz"
    code, stdout, _ = sqirl("screens", "BRIDGE/maze_easy_l0_30_fs1-v0", "--json", "-o", str(out))
    facts = json.loads(stdout)
    assert code == 0 and facts["frame_shape"] == [64, 64, 3] and facts["file"] == "shipped with the MDP"
    written = TabularMDP.load(out)
    assert written.screens.shape == (facts["screens"], 64, 64, 3)


def test_the_command_needs_a_built_mdp(sqirl) -> None:
    code, _, stderr = sqirl("screens", "BRIDGE/alien_10_fs30-v0")
    assert code == 2 and "sqirl build BRIDGE/alien_10_fs30-v0" in stderr
