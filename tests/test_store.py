"""Stored MDPs: those of the package, the user's own, and longer ones that are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sqirl.envs.ids import parse_id
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import is_prefix, open_mdp, shipped_folder, stored_mdp, targets_named, user_folder
from sqirl.mdp.tabular import TabularMDP

DOORKEY = "BRIDGE/MiniGrid-DoorKey-5x5-v0"


def put(name: str, mdp: TabularMDP) -> Path:
    path = user_folder() / "mdps" / f"{parse_id(name).stem}.npz"
    mdp.save(path)
    return path


def test_the_shipped_mdp_answers_for_both_ids() -> None:
    for name in (DOORKEY, DOORKEY.replace("-v0", "-Sticky-v0")):
        mdp = open_mdp(name)
        assert mdp.name == name and mdp.horizon == 100 and mdp.stickiness == parse_id(name).stickiness


def test_a_users_build_of_fewer_steps_does_not_change_what_the_id_means() -> None:
    put(DOORKEY, build_mdp(DOORKEY, horizon=10))
    assert open_mdp(DOORKEY).horizon == 100 and open_mdp(DOORKEY).num_states == 260
    put(DOORKEY, build_mdp(DOORKEY, max_states=50))
    assert not open_mdp(DOORKEY).is_partial


def test_a_users_build_comes_before_the_shipped_one() -> None:
    built = build_mdp(DOORKEY)
    put(DOORKEY, TabularMDP.deterministic(built.transitions, built.rewards + 1, horizon=100))
    assert open_mdp(DOORKEY).rewards.min() == 1


def test_a_shorter_horizon_is_cut_from_a_longer_build() -> None:
    whole = build_mdp("BRIDGE/pong_12_fs30-v0", replays=2)
    put("BRIDGE/pong_12_fs30-v0", whole)
    short = stored_mdp(parse_id("BRIDGE/pong_6_fs30-Sticky-v0"))
    assert short is not None and short.horizon == 6 and short.stickiness == 0.25
    assert np.array_equal(short.transitions, build_mdp("BRIDGE/pong_6_fs30-v0", replays=2).transitions)
    assert stored_mdp(parse_id("BRIDGE/pong_13_fs31-v0")) is None
    assert (shipped_folder() / "pong_40_fs30.npz").is_file() and open_mdp("BRIDGE/pong_30_fs30-v0").depth == 30


@pytest.mark.parametrize(("one", "other", "answer"), [
    ("BRIDGE/pong_20_fs30-v0", "BRIDGE/pong_30_fs30-Sticky-v0", True),
    ("BRIDGE/pong_30_fs30-v0", "BRIDGE/pong_20_fs30-v0", False),
    ("BRIDGE/pong_20_fs30-v0", "BRIDGE/pong_30_fs4-v0", False), ("BRIDGE/skiing_5_fs30-v0", "BRIDGE/skiing_10_fs30-v0", False),
    ("BRIDGE/skiing_10_fs30-v0", "BRIDGE/skiing_10_fs30-v0", True),
    ("BRIDGE/maze_easy_l0_9_fs1-v0", "BRIDGE/maze_easy_l1_30_fs1-v0", False),
])  # fmt: skip
def test_which_episodes_are_the_first_steps_of_which(one: str, other: str, answer: bool) -> None:
    assert is_prefix(parse_id(one), parse_id(other)) is answer


def test_a_game_by_its_name_is_its_longest_row_at_every_level() -> None:
    assert targets_named("breakout") == ["BRIDGE/breakout_200_fs30-v0"]
    assert targets_named("leaper") == [
        f"BRIDGE/leaper_{level}_20_fs6-v0" for level in ("easy_l1", "easy_l2", "hard_l0", "exploration_l0")
    ]
    assert targets_named("FrozenLake-v1") == ["FrozenLake-v1"]
