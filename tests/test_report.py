"""The statistics against the paper's own tables, and the page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sqirl.analysis.episode import optimal_episode
from sqirl.envs.ids import parse_id
from sqirl.errors import SqirlError
from sqirl.mdp.store import stored_mdp
from sqirl.report.page import report_data, report_page
from sqirl.report.tables import complexity_table, write_tables
from sqirl.results.frame import outcomes, pack_records, paper_tables, shipped_records, unpack_records
from sqirl.results.records import Point, RunConfig, RunRecord
from sqirl.results.statistics import censored_median, compare, num_solved, share_solved_where, spearman

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


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
    import numpy as np

    assert spearman(np.array([1.0, 2, 2, 9]), np.array([1.0, 5, 5, 7])) == pytest.approx(1.0)


def run(algorithm: str, seed: int, steps: int | None, **options: int) -> RunRecord:
    config = RunConfig(algorithm, "BRIDGE/freeway_10_fs30-Sticky-v0", seed=seed, **options)
    curve = (Point(10_000, 0.5, 0.5),) if steps is None else (Point(steps, 1.0, 0.9), Point(steps + 1, 1.0, 1.0))
    return RunRecord(config, curve, optimal_return=1.0, random_return=0.03, played_from="table")


def test_outcomes_take_the_setting_with_the_best_median() -> None:
    records = [run("sqirl", seed, 9_000, k=1, m=50) for seed in range(2)]
    records += [run("sqirl", seed, None, k=1, m=50) for seed in range(2, 5)]  # three of five never solve
    records += [run("sqirl", seed, 23_000, k=1, m=100) for seed in range(5)]
    records.append(RunRecord(RunConfig("sqirl", "BRIDGE/freeway_10_fs30-Sticky-v0", seed=9), error="out of luck"))
    outcome = outcomes(records)["BRIDGE/freeway_10_fs30-Sticky-v0", "sqirl"]
    assert outcome.setting == "k=1 m=100" and outcome.complexity == 20_000 and outcome.num_settings == 2
    assert outcome.exact_complexity == 23_001 and len(outcome.records) == 5


def test_records_are_packed_and_shipped(tmp_path: Path) -> None:
    records = [run("ppo", seed, 10_000, rollout=128) for seed in range(3)]
    pack_records(records, tmp_path / "r.gz")
    assert unpack_records(tmp_path / "r.gz") == records
    (tmp_path / "r.gz").write_bytes(b"no")
    with pytest.raises(SqirlError, match="not a file of records"):
        unpack_records(tmp_path / "r.gz")


def test_the_shipped_runs_agree_with_the_paper() -> None:
    """At least twelve environments; SQIRL within three times the paper's steps wherever both solve; five seeds each."""
    found = outcomes(shipped_records())
    paper = paper_tables()["sqirl"]
    envs = {env for env, _ in found}
    assert len(envs) >= 12
    solved = {env: o for (env, name), o in found.items() if name == "sqirl" and o.complexity is not None}
    assert len(solved) >= 11
    for env, outcome in solved.items():
        assert len(outcome.records) == 5 and (paper[env] is None or outcome.complexity <= 3 * paper[env])


def test_an_optimal_episode_is_optimal() -> None:
    mdp = stored_mdp(parse_id("BRIDGE/MiniGrid-DoorKey-5x5-v0"))
    state, total = 0, 0.0
    for action in optimal_episode(mdp):
        total += mdp.rewards[state, action]
        state = mdp.transitions[state, action]
    assert total == 1.0 and state == -1


def test_the_page_has_every_row_and_is_small() -> None:
    page = report_page(shipped_records(), pictures=False)
    assert (
        len(page) < 3_000_000
        and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        and "https://" not in page
    )
    data = report_data([], pictures=False)
    assert len(data["rows"]) == 155 and data["ours"]["solved"]["ppo"] == [0, 0]
    assert data["paper"]["solved"]["sqirl"] == [69, 155]


def test_tables_as_csv_and_latex(tmp_path: Path) -> None:
    header, rows = complexity_table([run("ppo", 0, 10_000, rollout=128)])
    row = dict(zip(header, next(r for r in rows if "freeway_10_" in str(r[0])), strict=True))
    assert row["ppo_ours"] == 10_000 and row["ppo_paper"] == 10_000 and row["dqn_ours"] is None
    own = replace(run("ppo", 0, 10_000, rollout=128), optimal_return=None)
    _, rows = complexity_table([replace(own, config=replace(own.config, env_id="CartPole-v1"))])
    assert rows[-1] == ["CartPole-v1"] + 8 * [None] and len(rows) == 156  # nothing is known that it could solve
    written = write_tables([], tmp_path)
    assert {path.suffix for path in written} == {".csv", ".tex"}
    assert (tmp_path / "complexities.csv").read_text().count("\n") == 156


#: What a visitor does, in the page itself; the findings end up in an element that the test reads.
VISIT = """
<script>
window.addEventListener("load", () => {
  const say = {errors: window.__errors}, q = s => document.querySelector(s), first = () => q("#rows tbody tr").dataset.id;
  say.rows = document.querySelectorAll("#rows tbody tr").length;
  const sortT = document.querySelectorAll("#rows th button")[2]; sortT.click(); const up = first(); sortT.click();
  say.sorted = [byId[up].horizon, byId[first()].horizon, document.querySelectorAll("#rows th")[2].getAttribute("aria-sort")];
  q("#q").value = "freeway_10_"; q("#q").dispatchEvent(new Event("input")); say.filtered = [first(), q("#count").textContent];
  q("#rows tbody tr").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  say.card = [q("#card").open, q("#card-title").textContent, q("#card-body svg") !== null];
  q("#close").click(); say.closed = !q("#card").open;
  const dot = q("#s-ppo .dot"); dot.dispatchEvent(new MouseEvent("mouseenter", {clientX: 10, clientY: 10}));
  say.tip = [q("#tip").style.opacity, q("#tip").textContent]; dot.dispatchEvent(new MouseEvent("mouseleave"));
  q("#suite").value = "minigrid"; q("#q").value = ""; q("#suite").dispatchEvent(new Event("input"));
  say.minigrid = document.querySelectorAll("#rows tbody tr").length;
  say.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
  say.curves = document.querySelectorAll("#all-curves svg").length;
  say.whole_games = document.querySelectorAll("#full-curves svg").length;
  say.agreement = document.querySelectorAll("#t-agree tbody tr").length;
  const out = document.createElement("pre"); out.id = "found"; out.textContent = JSON.stringify(say); document.body.append(out);
});
</script>
"""
EARLY = '<script>window.__errors = []; addEventListener("error", e => __errors.push(e.message));</script>'


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `make browser` installs it where it can")
def test_the_page_in_a_real_browser(tmp_path: Path) -> None:
    page = report_page(shipped_records(), pictures=False)
    page = page.replace("<head>", "<head>" + EARLY, 1).replace("</body>", VISIT + "</body>")
    file = tmp_path / "report.html"
    file.write_text(page)
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom", file.as_uri()]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
    assert match, result.stderr[-2000:]
    found = json.loads(match[1].replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<"))
    assert found["errors"] == [] and found["requests"] == [] and "CONSOLE" not in result.stderr
    assert found["rows"] == 155 and found["minigrid"] == 33 and found["curves"] >= 12
    assert found["whole_games"] >= 3 and found["agreement"] == 4
    assert found["sorted"][0] < found["sorted"][1] and found["sorted"][2] == "descending"
    assert found["filtered"] == ["BRIDGE/freeway_10_fs30-Sticky-v0", "1 of 155"]
    assert found["card"] == [True, "BRIDGE/freeway_10_fs30-Sticky-v0", True] and found["closed"]
    assert found["tip"][0] == "1" and "SQIRL" in found["tip"][1]


def test_the_command(sqirl, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    code, said, _ = sqirl("report", "-o", str(out), "--no-pictures", "--figures", str(tmp_path / "f"), "--no-shipped")
    assert code == 0 and "0 runs" in said and out.stat().st_size > 50_000 and (tmp_path / "f" / "min-k.pdf").is_file()
    code, _, err = sqirl("report", "--runs", str(tmp_path / "nowhere"))
    assert code == 2 and "no folder" in err
    page = tmp_path / "never.html"
    code, _, err = sqirl("report", "-o", str(page), "--no-pictures", "--tables", str(out))
    assert code == 2 and "r.html' is a file; give the name of a folder" in err and not page.exists()
