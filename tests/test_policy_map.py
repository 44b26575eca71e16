"""Policy maps of grids: where states are, where actions go, and which states are marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sqirl
from sqirl.errors import InvalidMDP
from sqirl.report.policy_map import grid_of, plot_policy_map, save_policy_map


class Field(gym.Env):
    """A field of 3 x 4 cells; the lower right one pays 1. Action 1 goes right, 0 down."""

    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(12)
    render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.position = [0, 0]
        return 0, {}

    def step(self, action: int):
        row, column = self.position
        self.position = [row, min(column + 1, 3)] if action else [min(row + 1, 2), column]
        goal = self.position == [2, 3]
        return 4 * self.position[0] + self.position[1], float(goal), goal, False, {}


class Hidden(Field):
    """Does not say where the agent is: its position is in inches."""

    def step(self, action: int):
        self.position = [int(part) for part in self.position]
        result = super().step(action)
        self.position = [float(part) for part in self.position]
        return result


def test_the_cliff_as_a_map() -> None:
    """Known: seen from random play, all but the cells near the goal look better from further up."""
    mdp = sqirl.build_mdp("CliffWalking-v1", horizon=50)
    a = sqirl.analyze(mdp)
    grid = grid_of(mdp, 50)
    assert (grid.rows, grid.columns) == (4, 12) and (
        grid.cells[:, 0] >= 0
    ).sum() == 37  # without the cliff and the goal
    assert grid.cells[36].tolist() == [3, 0]
    assert np.round(grid.moves, 9).tolist() == [[-1, 0], [0, 1], [1, 0], [0, -1]]  # up, right, down, left
    titles = [axes.get_title() for axes in plot_policy_map(mdp, a, grid).axes]
    tables = sqirl.q_tables(mdp, 1)
    wrong = (tables.greedy(tables.q(1, 0)) & ~tables.greedy(tables.optimal_q(0))).any(axis=1)
    assert titles == [
        f"greedy on $Q^{{1}}$: {wrong[grid.cells[:, 0] >= 0].sum()} states differ",
        "greedy on $Q^{11}$",
        "optimal",
    ]
    assert wrong[:5].all() and not wrong[[10, 11, 36]].any()


def test_slips_do_not_turn_the_arrows() -> None:
    grid = grid_of(sqirl.build_mdp("FrozenLake-v1"), 100)
    assert np.round(grid.moves, 9).tolist() == [[0, -1], [1, 0], [0, 1], [-1, 0]]  # left, down, right, up


def test_an_env_of_ones_own_says_where_the_agent_is(tmp_path: Path) -> None:
    mdp = sqirl.build_mdp(Field(), horizon=6)
    grid = grid_of(mdp, 6)
    assert (grid.rows, grid.columns) == (3, 4) and len(np.unique(grid.cells, axis=0)) == 11
    assert np.round(grid.moves, 9).tolist() == [[1, 0], [0, 1]]
    assert save_policy_map(mdp, sqirl.analyze(mdp), tmp_path / "field.png") is None
    assert (tmp_path / "field.png").stat().st_size > 5000


def test_what_is_no_map_is_said(tmp_path: Path) -> None:
    path = tmp_path / "none.png"
    taxi = sqirl.build_mdp("Taxi-v4", horizon=3)
    assert "not the cells of a grid" in (save_policy_map(taxi, sqirl.analyze(taxi), path) or "")
    hidden = sqirl.build_mdp(Hidden(), horizon=3)
    assert "grid_position() -> (row, column)" in (save_policy_map(hidden, sqirl.analyze(hidden), path) or "")
    mdp = sqirl.build_mdp(Field(), horizon=6)
    with pytest.raises(InvalidMDP, match="sticky"):
        plot_policy_map(mdp.sticky(0.25), sqirl.analyze(mdp), grid_of(mdp, 6))
    assert not path.exists()
