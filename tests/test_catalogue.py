from __future__ import annotations

import pytest

from sqirl.envs.catalogue import catalogue, lookup
from sqirl.envs.ids import EnvId, parse_id
from sqirl.errors import UnknownEnv


def test_the_catalogue_holds_the_papers_155_rows() -> None:
    rows = catalogue()
    suites = [row.env_id.suite for row in rows]
    assert len(rows) == 155 == len({row.env_id for row in rows})
    assert (suites.count("atari"), suites.count("procgen"), suites.count("minigrid")) == (67, 55, 33)
    solved = {
        name: sum(steps <= 5e6 for row in rows if (steps := row.paper_steps[name]) is not None)
        for name in ("ppo", "dqn", "sqirl", "gorp")
    }
    assert solved == {"ppo": 96, "dqn": 76, "sqirl": 69, "gorp": 26}


def test_every_id_parses_into_its_parts_and_back() -> None:
    for row in catalogue():
        for env_id in (row.env_id, row.env_id.deterministic()):
            assert parse_id(str(env_id)) == env_id
    assert parse_id("BRIDGE/montezuma_revenge_15_fs24-Sticky-v0") == EnvId("atari", "montezuma_revenge", 15, 24, True)
    assert parse_id("BRIDGE/leaper_exploration_l0_20_fs6-v0") == EnvId(
        "procgen", "leaper", 20, 6, False, "exploration", 0
    )
    assert parse_id("BRIDGE/MiniGrid-DoorKey-5x5-Sticky-v0").stem == "MiniGrid-DoorKey-5x5"


@pytest.mark.parametrize(
    "wrong",
    ["pong", "BRIDGE/pong_20-v0", "BRIDGE/pong_20_fs30", "BRIDGE/maze_medium_l0_30_fs1-v0", "BRIDGE/pong_0_fs30-v0"],
)
def test_what_is_no_id_is_refused(wrong: str) -> None:
    with pytest.raises(UnknownEnv):
        parse_id(wrong)


def test_an_id_outside_the_catalogue_names_near_ones() -> None:
    assert lookup("BRIDGE/pong_20_fs30-v0").paper_returns["optimal"] == -1.01
    with pytest.raises(UnknownEnv, match="BRIDGE/pong_20_fs30-v0"):
        lookup("BRIDGE/pong_21_fs30-v0")
