"""The data of the package equal the paper in every printed digit, a new analysis, and the live game."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.result import Analysis
from sqirl.envs.ids import parse_id
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import open_mdp, shipped_folder
from sqirl.mdp.tabular import TabularMDP
from sqirl.report.environments import environment_rows

FILES = sorted(shipped_folder().glob("*.npz"))
SMALL = [path for path in FILES if path.stat().st_size < 20_000]


def test_every_analysed_row_equals_the_papers_optimal_return_as_printed() -> None:
    rows = [row for row in environment_rows() if row.optimal is not None]
    assert len(rows) >= 30
    assert [row.env_id for row in rows if not row.agrees] == []


def test_every_minigrid_row_is_analysed() -> None:
    assert [row.env_id for row in environment_rows("minigrid") if row.optimal is None] == []


def test_the_one_row_where_the_optimum_is_no_round_number() -> None:
    """All other MiniGrid rows print as 1.00, which many errors would too."""
    assert f"{archived_analyses()['BRIDGE/MiniGrid-LavaCrossingS11N5-Sticky-v0'].optimal_return:.4f}" == "0.4149"


def test_files_are_small_and_say_where_they_come_from() -> None:
    assert sum(path.stat().st_size for path in FILES) < 24 << 20
    for path in FILES:
        assert path.stat().st_size < 3 << 20
    for path in SMALL:
        mdp = TabularMDP.load(path)
        library = {"minigrid": "minigrid", "atari": "ale-py", "procgen": "procgen-mirror"}[parse_id(mdp.name).suite]
        assert {"sqirl", "gymnasium", library} <= mdp.provenance.keys()
        assert parse_id(mdp.name).stem == path.stem and not mdp.stickiness and not mdp.is_partial


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_the_shipped_analysis_is_what_a_fresh_one_says(path: Path) -> None:
    name = TabularMDP.load(path).name
    for env_id in (name, name.replace("-v0", "-Sticky-v0")):
        fresh, shipped = analyze(open_mdp(env_id)), archived_analyses()[env_id]
        assert fresh.env_id == shipped.env_id
        assert_close(fresh, shipped)


def assert_close(fresh: Analysis, shipped: Analysis) -> None:
    """Equal verdicts, and values up to the rounding of another processor."""
    for field in (
        "num_states",
        "solvable",
        "min_k",
        "approx_min_k",
        "effective_horizon_k",
        "effective_planning_window",
    ):
        assert getattr(fresh, field) == getattr(shipped, field), field
    for field in ("optimal_return", "random_return", "worst_return", "greedy_returns", "effective_horizon"):
        assert getattr(fresh, field) == pytest.approx(getattr(shipped, field), rel=1e-12), field


@pytest.mark.parametrize("path", [p for p in SMALL if p.stem.startswith("MiniGrid")][::3], ids=lambda path: path.stem)
def test_the_shipped_mdp_is_what_the_live_game_gives(path: Path) -> None:
    shipped = TabularMDP.load(path)
    live = build_mdp(shipped.name).merge()
    assert np.array_equal(live.transitions, shipped.transitions) and np.array_equal(live.rewards, shipped.rewards)
    assert np.array_equal(live.screens[live.screen_mapping], shipped.screens[shipped.screen_mapping])
