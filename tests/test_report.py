"""The statistics against the paper's own tables, and the data of the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection

from fifth_algorithm import RandomSearch
from sqirl.algorithms import registry
from sqirl.algorithms.registry import DQN, GORP, PPO, SQIRL
from sqirl.analysis.episode import optimal_episode
from sqirl.errors import SqirlError
from sqirl.mdp.store import stored_mdp
from sqirl.report.data import ReportData, report_data
from sqirl.report.figures import figure_5_learning_curves
from sqirl.report.learning_curve import learning_curve
from sqirl.report.own_analyses import read_analysis
from sqirl.report.page import page_data, report_page
from sqirl.report.page_rows import CURVE_POINTS
from sqirl.report.tables import complexity_table, return_table, table_2_environments_solved, write_tables
from sqirl.report.training_page import training_page
from sqirl.results.outcomes import outcomes, paper_tables
from sqirl.results.statistics import (
    WITHIN_FACTOR,
    censored_median,
    compare,
    num_solved,
    share_solved_where,
    spearman,
)
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import pack_records, shipped_records, unpack_records

FREEWAY = "BRIDGE/freeway_10_fs30-Sticky-v0"


@pytest.fixture(scope="module")
def shipped() -> ReportData:
    return report_data(shipped_records())


def test_the_papers_own_numbers() -> None:
    """96, 76, 69 and 26 solved; the correlations and ratios that its printed, rounded table yields."""
    tables = paper_tables()
    assert [num_solved(tables[name]) for name in ("ppo", "dqn", "sqirl", "gorp")] == [96, 76, 69, 26]
    expected = {
        ("sqirl", "ppo"): (67, 0.836, 1.375),
        ("sqirl", "dqn"): (59, 0.544, 1.0),
        ("ppo", "dqn"): (67, 0.483, 0.587),
    }
    for (a, b), (count, correlation, ratio) in expected.items():
        c = compare(a, b, tables, resamples=200)
        assert c.both == count == c.correlation.count
        assert c.correlation.value == pytest.approx(correlation, abs=6e-4)
        assert c.median_ratio.value == pytest.approx(ratio, abs=6e-4)
        assert c.correlation.low < c.correlation.value < c.correlation.high
        assert c.both + c.only_first + c.only_second + c.neither == 155
    ppo, dqn = tables["ppo"], tables["dqn"]
    both = share_solved_where(tables["sqirl"], lambda env: ppo[env] is not None and dqn[env] is not None)
    neither = share_solved_where(tables["sqirl"], lambda env: ppo[env] is None and dqn[env] is None)
    assert both == pytest.approx(0.8507, abs=5e-5) and neither == 0


def test_medians_do_not_drop_what_never_solved() -> None:
    assert censored_median([10, None, 30]) == 30 and censored_median([10, None, None]) is None
    assert censored_median([10, 20]) == 15 and censored_median([]) is None
    assert spearman(np.array([1.0, 2, 2, 9]), np.array([1.0, 5, 5, 7])) == pytest.approx(1.0)


def run(algorithm: str, seed: int, steps: int | None, **options: int) -> RunRecord:
    config = RunConfig(algorithm, FREEWAY, seed=seed, options=options)
    curve = (Point(10_000, 0.5, 0.5),) if steps is None else (Point(steps, 1.0, 0.9), Point(steps + 1, 1.0, 1.0))
    return RunRecord(config, curve, optimal_return=1.0, random_return=0.03, played_from="table")


def test_outcomes_take_the_setting_with_the_best_median() -> None:
    records = [run("sqirl", seed, 9_000, k=1, m=50) for seed in range(2)]
    records += [run("sqirl", seed, None, k=1, m=50) for seed in range(2, 5)]  # three of five never solve
    records += [run("sqirl", seed, 23_000, k=1, m=100) for seed in range(5)]
    records.append(RunRecord(RunConfig("sqirl", FREEWAY, seed=9), error="failed"))
    outcome = outcomes(records)[FREEWAY, "sqirl"]
    assert outcome.setting == "k=1 m=100" and outcome.complexity == 20_000 and outcome.num_settings == 2
    assert outcome.exact_complexity == 23_001 and len(outcome.records) == 5


def test_records_are_packed_and_shipped(tmp_path: Path) -> None:
    records = [run("ppo", seed, 10_000, rollout=128) for seed in range(3)]
    pack_records(records, tmp_path / "r.gz")
    assert unpack_records(tmp_path / "r.gz") == records
    (tmp_path / "r.gz").write_bytes(b"no")
    with pytest.raises(SqirlError, match="not a file of records"):
        unpack_records(tmp_path / "r.gz")


def test_the_shipped_runs_agree_with_the_paper(shipped: ReportData) -> None:
    """At least twelve environments; SQIRL within WITHIN_FACTOR times the paper's steps where both solve; five seeds each."""
    found = shipped.outcomes
    paper = paper_tables()["sqirl"]
    envs = {env for env, _ in found}
    assert len(envs) >= 12
    solved = {env: o for (env, name), o in found.items() if name == "sqirl" and o.complexity is not None}
    assert len(solved) >= 11
    for env, outcome in solved.items():
        assert len(outcome.records) == 5 and (paper[env] is None or outcome.complexity <= WITHIN_FACTOR * paper[env])
    agreement = shipped.agreement_of(SQIRL)
    assert agreement.within == agreement.comparison.both == sum(paper[env] is not None for env in solved)


def test_an_optimal_episode_is_optimal() -> None:
    mdp = stored_mdp("BRIDGE/MiniGrid-DoorKey-5x5-v0")
    state, total = 0, 0.0
    for action in optimal_episode(mdp):
        total += mdp.rewards[state, action]
        state = mdp.transitions[state, action]
    assert total == 1.0 and state == -1


def evaluated(seed: int, *points: tuple[int, float], env: str = FREEWAY, algorithm: str = SQIRL.name) -> RunRecord:
    """A record with these (steps, mean return)."""
    curve = tuple(Point(steps, mean) for steps, mean in points)
    return RunRecord(RunConfig(algorithm, env, seed=seed), curve, optimal_return=1.0, random_return=0.03)


def test_a_curve_does_not_go_beyond_the_budget() -> None:
    record = evaluated(0, (0, 1.0), (5_000_000, 2.0), (5_000_300, 3.0), env="PongNoFrameskip-v4")
    curve = learning_curve([replace(record, config=replace(record.config, timesteps=5_000_000, eval_every=100_000))])
    assert curve is not None and curve.steps.tolist() == [0, 5_000_000, 5_000_300]


def test_a_learning_curve_holds_the_last_evaluation_and_takes_the_true_median() -> None:
    curve = learning_curve(
        [
            evaluated(0, (10_000, 0.1), (20_000, 0.2), (40_000, 0.9)),
            evaluated(1, (20_008, 0.6)),  # due at 20,000; its first value counts before, its last value after
            evaluated(2, (10_000, 0.3), (10_400, 0.5), (40_000, 0.7)),  # the second evaluation counts for 20,000
            evaluated(3, (30_000, 0.0), (40_000, 0.1)),
            evaluated(4),  # was never evaluated
        ]
    )
    assert curve is not None and curve.steps.tolist() == [10_000, 20_000, 30_000, 40_000]
    # values at 20,000: 0.2, 0.6, 0.5, 0.0; at 30,000 the same; at 40,000: 0.9, 0.6, 0.7, 0.1
    assert curve.median == pytest.approx([0.2, 0.35, 0.35, 0.65])
    assert curve.low.tolist() == [0.0, 0.0, 0.0, 0.1] and curve.high.tolist() == [0.6, 0.6, 0.6, 0.9]
    assert learning_curve([evaluated(0)]) is None


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    curve = learning_curve([evaluated(0, *((10_000 * i, i / 500) for i in range(1, 501)))])
    thin = curve.thinned(CURVE_POINTS)
    assert CURVE_POINTS <= len(thin.steps) <= 2 * CURVE_POINTS + 1
    assert thin.steps[0] == 10_000 and thin.steps[-1] == 5_000_000 and thin.median[-1] == 1.0
    assert set(zip(thin.steps, thin.median, strict=True)) <= set(zip(curve.steps, curve.median, strict=True))
    short = learning_curve([evaluated(0, (10_000, 0.5))]).thinned(CURVE_POINTS)
    assert short.steps.tolist() == [10_000]


def test_the_page_and_the_figure_show_the_same_curves(shipped: ReportData) -> None:
    pages = {row["id"]: row for row in page_data(shipped, pictures=False)["rows"]}
    for env in (FREEWAY, "BRIDGE/qbert_10_fs30-Sticky-v0"):
        axes = figure_5_learning_curves(shipped.runs[env]).axes[0]
        lines = {line.get_label(): line for line in axes.lines}
        fills = [each for each in axes.collections if isinstance(each, FillBetweenPolyCollection)]
        bands = dict(zip(shipped.runs[env].curves, fills, strict=True))
        assert pages[env]["runs"].keys() == shipped.runs[env].curves.keys() and len(pages[env]["runs"]) == 4
        for name, run in pages[env]["runs"].items():
            line, curve = lines[registry.algorithm(name).label], run["curve"]
            assert line.get_xdata().tolist() == curve["steps"]
            assert line.get_ydata() == pytest.approx(curve["median"], rel=1e-5)
            corners = bands[name].get_paths()[0].vertices  # the edge of the range
            low, high = curve.get("low", curve["median"]), curve.get("high", curve["median"])
            for steps, least, most in zip(curve["steps"], low, high, strict=True):
                at = corners[corners[:, 0] == steps, 1]
                assert [at.min(), at.max()] == pytest.approx([least, most], rel=1e-5)
        for name, value in pages[env]["lines"].items():
            assert f"{name} {value:.4g}" in lines
        axis = pages[env]["axes"]
        assert axes.get_xlim() == pytest.approx(axis["steps"], rel=1e-5)
        assert axes.get_ylim() == pytest.approx(axis["returns"], rel=1e-5)


def test_the_page_has_every_row_and_is_small(shipped: ReportData) -> None:
    page = report_page(shipped, pictures=False)
    assert (
        len(page) < 3_000_000
        and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        and "https://" not in page
        and "{{" not in page
    )
    data = page_data(report_data([]), pictures=False)
    assert len(data["rows"]) == 155 and data["ours"]["solved"]["ppo"] == (0, 0)
    assert data["paper"]["solved"]["sqirl"] == (69, 155)
    above = next(row for row in data["rows"] if "road_runner_10_" in row["id"])
    assert above["paper_solved"]["gorp"] is None  # the paper prints 5.22 million steps, which is above its budget


def test_luck_is_counted_among_solved_cases(shipped: ReportData) -> None:
    luck = shipped.solved_by_luck
    solved = [o for o in shipped.outcomes.values() if o.suite.is_bridge and o.complexity is not None]
    lucky = [o for o in solved if o.exact_complexity is None]
    assert luck.num_solved == len(solved) > 50 and len(luck.cases) == len(lucky) > 10
    page = " ".join(training_page(shipped, []).split())
    assert (
        f"In {len(lucky)} of the {len(solved)} solved cases the true return of the median run is never optimal" in page
    )
    within = sum(
        o.complexity <= WITHIN_FACTOR * (shipped.paper_complexities["sqirl"][o.env_id] or 0)
        for o in solved if o.algorithm == "sqirl"
    )  # fmt: skip
    assert f"In {within} of them it needs at most {WITHIN_FACTOR} times the paper's steps" in page
    exact = report_data([run("ppo", seed, 10_000, rollout=128) for seed in range(3)])
    assert exact.solved_by_luck.num_solved == 1 and exact.solved_by_luck.cases == ()
    live = report_data([evaluated(0, (10_000, 1.0))])  # the true return is not known: no case
    assert live.solved_by_luck.num_solved == 0


def test_tables_as_csv_and_latex(tmp_path: Path) -> None:
    table = complexity_table(report_data([run("ppo", 0, 10_000, rollout=128)]))
    row = dict(zip(table.header, next(r for r in table.rows if "freeway_10_" in str(r[0])), strict=True))
    assert row["ppo_ours"] == 10_000 and row["ppo_paper"] == 10_000 and row["dqn_ours"] is None
    own = replace(run("ppo", 0, 10_000, rollout=128), optimal_return=None)
    data = report_data([replace(own, config=replace(own.config, env_id="CartPole-v1"))])
    rows = complexity_table(data).rows
    own_row = dict(zip(complexity_table(data).header, rows[-1], strict=True))  # its optimal return is not known
    assert {name: cell for name, cell in own_row.items() if cell is not None} == {
        "env": "CartPole-v1",
        "ppo_variant": "ours",
    }
    assert len(rows) == 156
    returns = return_table(data)
    assert dict(zip(returns.header, returns.rows[-1], strict=True))["ppo_ours"] == 1.0
    written = write_tables(report_data([]), tmp_path)
    assert {path.suffix for path in written} == {".csv", ".tex"}
    assert (tmp_path / "complexities.csv").read_text().count("\n") == 156
    assert "SQIRL,0,0,69,155" in (tmp_path / "table-2-environments-solved.csv").read_text()
    assert "SQIRL,PPO,paper,0.83" in (tmp_path / "table-3-comparisons.csv").read_text()


@pytest.fixture
def with_a_fifth(monkeypatch: pytest.MonkeyPatch) -> ReportData:
    """Results of the four algorithms and of a fifth one, which is registered for one test."""
    monkeypatch.setitem(registry._registry, RandomSearch.name, RandomSearch())
    names = [*(spec.name for spec in (SQIRL, GORP, PPO, DQN)), RandomSearch.name]
    mine = [evaluated(seed, (10_000, 0.5), (20_000, 1.0), algorithm=name) for name in names for seed in range(3)]
    full = evaluated(0, (0, 1.0), (100_000, 2.0), env="PongNoFrameskip-v4", algorithm=RandomSearch.name)
    return report_data([*mine, replace(full, optimal_return=None)])


def test_a_fifth_algorithm_is_in_the_data_the_tables_and_the_docs(with_a_fifth: ReportData, tmp_path: Path) -> None:
    page = report_page(with_a_fifth, pictures=False)
    assert "--algorithm-4: #123456;" in page and "--algorithm-4: #abcdef;" in page
    data = page_data(with_a_fifth, pictures=False)
    assert data["algorithms"][4] == {
        "name": RandomSearch.name, "label": "Random search", "colour": "var(--algorithm-4)", "in_paper": False,
    }  # fmt: skip
    row = next(row for row in data["rows"] if row["id"] == FREEWAY)
    assert row["runs"][RandomSearch.name]["curve"]["median"] == [0.5, 1.0]
    assert row["paper_solved"][RandomSearch.name] is None
    assert [entry["algorithm"] for entry in data["agreement"]] == [spec.name for spec in (SQIRL, GORP, PPO, DQN)]
    assert list(table_2_environments_solved(with_a_fifth).rows[4]) == ["Random search", 1, 1, None, None]
    table = complexity_table(with_a_fifth)
    freeway = dict(zip(table.header, next(r for r in table.rows if r[0] == FREEWAY), strict=True))
    assert freeway["random-search_ours"] == 20_000 and freeway["random-search_paper"] is None
    markdown = training_page(with_a_fifth, [])
    assert "DQN | paper | Random search | paper |" in markdown and "| Pong | Random search | ours |" in markdown
    legend = figure_5_learning_curves(with_a_fifth.runs[FREEWAY]).axes[0].get_legend()
    assert "Random search" in [text.get_text() for text in legend.get_texts()]
    assert write_tables(with_a_fifth, tmp_path)


def test_rows_whose_ties_are_decided_by_rounding_say_so(shipped: ReportData) -> None:
    rows = page_data(shipped, pictures=False)["rows"]
    said = {row["id"] for row in rows if row.get("caveat")}
    assert said == {env for env, analysis in shipped.analyses.items() if not analysis.exact}
    scoped = replace(next(iter(shipped.analyses.values())), env_id="m:Env", scope="one draw of its start")
    (own,) = [row for row in page_data(report_data([], [scoped]), pictures=False)["rows"] if row["own"]]
    assert "one draw of its start" in own["caveat"]


def test_an_analysis_of_ones_own_is_added(sqirl, tmp_path: Path) -> None:
    """What `sqirl analyze --json` prints can be given to the report; what is not an analysis is refused in one line."""
    code, said, _ = sqirl("analyze", "BRIDGE/MiniGrid-Empty-5x5-v0", "--json")
    mine = tmp_path / "mine.json"
    mine.write_text(said)
    found = read_analysis(mine)
    assert code == 0 and found.env_id == "BRIDGE/MiniGrid-Empty-5x5-v0"
    data = report_data([], [found])
    (row,) = [row for row in page_data(data, pictures=False)["rows"] if row["own"]]
    assert row["id"] == found.env_id and row["min_k"] == 1 and row["suite"] == "minigrid" and row["runs"] == {}
    assert len(data.leading_horizon.values) == len(
        report_data([]).leading_horizon.values
    )  # the answer is about the paper's
    plain = json.loads(said)
    for damage in ({"env_id": None}, {"num_actions": 0}, {"horizon": "x"}, {"optimal_return": None}):
        mine.write_text(json.dumps({**plain, **damage}))
        with pytest.raises(SqirlError, match=r"is not an analysis .*; make one with: sqirl analyze ENV --json"):
            read_analysis(mine)
    for text in ("", "[]", "{}", "1", "[" * 100_000, '{"witness": 3}'):
        mine.write_text(text)
        code, said, err = sqirl("report", "--no-shipped", "--no-pictures", "--analysis", str(mine))
        assert code == 2 and "is not an analysis" in err and err.count("\n") == 1 and "Traceback" not in err


def test_the_command(sqirl, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    code, said, _ = sqirl("report", "-o", str(out), "--no-pictures", "--figures", str(tmp_path / "f"), "--no-shipped")
    assert code == 0 and "0 runs" in said and out.stat().st_size > 50_000 and (tmp_path / "f" / "min-k.pdf").is_file()
    code, _, err = sqirl("report", "--runs", str(tmp_path / "nowhere"))
    assert code == 2 and "no folder" in err
    page = tmp_path / "never.html"
    code, _, err = sqirl("report", "-o", str(page), "--no-pictures", "--tables", str(out))
    assert code == 2 and "r.html' is a file; give the name of a folder" in err and not page.exists()
