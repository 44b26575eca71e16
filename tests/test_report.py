"""The statistics against the paper's own tables, and the page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqirl.algorithms import registry
from sqirl.algorithms.registry import DQN, GORP, PPO, SQIRL
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.analysis.episode import optimal_episode
from sqirl.errors import SqirlError
from sqirl.mdp.store import stored_mdp
from sqirl.report.data import ReportData, report_data
from sqirl.report.figures import figure_5_learning_curves
from sqirl.report.learning_curve import learning_curve
from sqirl.report.page import CURVE_POINTS, page_data, report_page
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
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


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
        bands = dict(zip(shipped.runs[env].curves, axes.collections, strict=True))
        assert pages[env]["runs"].keys() == shipped.runs[env].curves.keys() and len(pages[env]["runs"]) == 4
        for name, run in pages[env]["runs"].items():
            line, curve = lines[registry.algorithm(name).label], run["curve"]
            assert line.get_xdata().tolist() == curve["steps"] and line.get_ydata().tolist() == curve["median"]
            corners = bands[name].get_paths()[0].vertices  # the edge of the range
            for steps, low, high in zip(curve["steps"], curve["low"], curve["high"], strict=True):
                at = corners[corners[:, 0] == steps, 1]
                assert at.min() == low and at.max() == high
        for name, value in pages[env]["lines"].items():
            assert f"{name} {value:.4g}" in lines


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


class RandomSearch(AlgorithmSpec):
    """A fifth algorithm, which the paper does not have."""

    name, label, colour, dark_colour = "random-search", "Random search", "#123456", "#abcdef"

    def presets(self, env):
        return {}

    def make_model(self, env, description, options, *, timesteps, seed, device):
        raise NotImplementedError

    def table_policy(self, model, table):
        raise NotImplementedError

    def state(self, model):
        raise NotImplementedError

    def restore(self, model, state):
        raise NotImplementedError


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


#: What a visitor does, in the page itself; the results are written into an element that the test reads.
VISIT = """
<script>
window.addEventListener("load", () => {
  const found = {errors: window.__errors}, q = s => document.querySelector(s), first = () => q("#rows tbody tr").dataset.id;
  found.rows = document.querySelectorAll("#rows tbody tr").length;
  const sortT = document.querySelectorAll("#rows th button")[2]; sortT.click(); const up = first(); sortT.click();
  found.sorted = [byId[up].horizon, byId[first()].horizon, document.querySelectorAll("#rows th")[2].getAttribute("aria-sort")];
  q("#q").value = "freeway_10_"; q("#q").dispatchEvent(new Event("input")); found.filtered = [first(), q("#count").textContent];
  q("#rows tbody tr").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  found.card = [q("#card").open, q("#card-title").textContent, q("#card-body svg") !== null];
  q("#close").click(); found.closed = !q("#card").open;
  const dot = q("#f-pairs .dot"); dot.dispatchEvent(new MouseEvent("mouseenter", {clientX: 10, clientY: 10}));
  found.tip = [q("#tip").style.opacity, q("#tip").textContent]; dot.dispatchEvent(new MouseEvent("mouseleave"));
  q("#suite").value = "minigrid"; q("#q").value = ""; q("#suite").dispatchEvent(new Event("input"));
  found.minigrid = document.querySelectorAll("#rows tbody tr").length;
  found.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  found.curves = document.querySelectorAll("#all-curves svg").length;
  found.full_length_games = document.querySelectorAll("#full-curves svg").length;
  found.legends = [...document.querySelectorAll(".key")].slice(-2).map(p => p.textContent.replace(/\\s+/g, " "));
  found.solved = q("#t-solved").innerText.split("\\n");
  found.columns = [...document.querySelectorAll("#rows th")].map(th => th.textContent);
  found.strokes = [...new Set([...document.querySelectorAll("#all-curves path[stroke]")].map(p => p.getAttribute("stroke")))];
  openCard("BRIDGE/freeway_10_fs30-Sticky-v0");
  found.runs = [...document.querySelectorAll("#card-body tr")].map(r => r.innerText);
  q("#close").click();
  found.agreement = document.querySelectorAll("#t-agree tbody tr").length;
  const out = document.createElement("pre"); out.id = "found"; out.textContent = JSON.stringify(found); document.body.append(out);
});
</script>
"""
EARLY = '<script>window.__errors = []; addEventListener("error", e => __errors.push(e.message));</script>'


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `make browser` installs it where it can")


def visit(page: str, folder: Path) -> dict[str, Any]:
    """What the visitor finds on the page; an error or a message in the console fails the test."""
    file = folder / "report.html"
    file.write_text(page.replace("<head>", "<head>" + EARLY, 1).replace("</body>", VISIT + "</body>"))
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
               "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom", file.as_uri()]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
    assert match, result.stderr[-2000:]
    found = json.loads(match[1].replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<"))
    assert found["errors"] == [] and found["requests"] == [] and "CONSOLE" not in result.stderr
    return found


@needs_browser
def test_the_page_in_a_real_browser(shipped: ReportData, tmp_path: Path) -> None:
    found = visit(report_page(shipped, pictures=False), tmp_path)
    assert found["rows"] == 155 and found["minigrid"] == 33 and found["curves"] >= 12
    assert found["full_length_games"] >= 3 and found["agreement"] == 4
    assert found["sorted"][0] < found["sorted"][1] and found["sorted"][2] == "descending"
    assert found["filtered"] == [FREEWAY, "1 of 155"]
    assert found["card"] == [True, FREEWAY, True] and found["closed"]
    assert found["tip"][0] == "1" and "SQIRL" in found["tip"][1]
    assert all("SQIRLGORPPPODQN" in text for text in found["legends"]) and len(found["strokes"]) == 4


@needs_browser
def test_a_fifth_algorithm_on_the_page(with_a_fifth: ReportData, tmp_path: Path) -> None:
    found = visit(report_page(with_a_fifth, pictures=False), tmp_path)
    assert all("DQNRandom search" in text for text in found["legends"])
    assert "var(--algorithm-4)" in found["strokes"] and found["full_length_games"] == 1
    assert "Random search" in found["columns"] and "Random search return" in found["columns"]
    assert "Random search\t1 of 1\t" in found["solved"]
    (card,) = [line for line in found["runs"] if line.startswith("Random search")]
    # Solved, true return not known, the same with settings of other seeds, not in the paper
    assert card.split("\t")[:5] == ["Random search", "20k", "", "20k", ""]
    assert found["agreement"] == 4  # the paper has no results of it


def test_the_command(sqirl, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    code, said, _ = sqirl("report", "-o", str(out), "--no-pictures", "--figures", str(tmp_path / "f"), "--no-shipped")
    assert code == 0 and "0 runs" in said and out.stat().st_size > 50_000 and (tmp_path / "f" / "min-k.pdf").is_file()
    code, _, err = sqirl("report", "--runs", str(tmp_path / "nowhere"))
    assert code == 2 and "no folder" in err
    page = tmp_path / "never.html"
    code, _, err = sqirl("report", "-o", str(page), "--no-pictures", "--tables", str(out))
    assert code == 2 and "r.html' is a file; give the name of a folder" in err and not page.exists()
