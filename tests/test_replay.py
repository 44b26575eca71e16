"""Replays after a build: they go to rewards, where it shows that a state leaves out what decides them."""

from __future__ import annotations

import numpy as np
import pytest

from sqirl.envs.check import Randomness
from sqirl.errors import DoesNotReplay, NotRestorable
from sqirl.mdp import build as build_module
from sqirl.mdp.build import build_mdp
from sqirl.mdp.replay import SEARCHED, way_to_reward
from sqirl.mdp.tabular import END, TabularMDP


def corridor(length: int) -> TabularMDP:
    """Action 1 goes on, action 0 stays; the last cell pays for action 1 and ends."""
    cells = np.arange(length)
    transitions = np.stack([cells, np.append(cells[1:], END)], axis=1).astype(np.int32)
    rewards = np.zeros((length, 2))
    rewards[-1, 1] = 1
    return TabularMDP.deterministic(transitions, rewards, horizon=length)


def test_the_way_to_the_nearest_reward() -> None:
    mdp = corridor(5)
    assert [way_to_reward(mdp, state, 0.0) for state in (0, 3, 4)] == [[1] * 5, [1, 1], [1]]
    assert way_to_reward(mdp, 0, 1.0) == [0]  # where 1 is usual, a reward of 0 is another one
    assert way_to_reward(corridor(SEARCHED + 10), 0, 0.0) == []


def test_a_key_that_is_left_out_is_found_where_it_decides_the_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build_mdp("diagnosis_envs:KeyedWalk", horizon=30).num_states == 9
    with pytest.raises(NotRestorable, match="in an episode without restoring"):
        build_mdp("diagnosis_envs:ForgetsTheKey", horizon=30)
    monkeypatch.setattr(build_module, "find_randomness", lambda *_, **__: Randomness(False))
    with pytest.raises(DoesNotReplay, match=r"the table has reward .* the live game has reward"):
        build_mdp("diagnosis_envs:ForgetsTheKey", horizon=30, replays=20)
