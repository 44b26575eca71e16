"""What an analysis says before and while it works: its memory, the time left, and why it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sqirl.analysis.analyze import analyze
from sqirl.analysis.memory import NotEnoughMemory
from sqirl.analysis.progress import AnalysisProgress, Meter
from sqirl.cli import progress as displays
from sqirl.mdp.reach import reachable_sets
from strategies import random_tables
from waiting import wait_until

MDP = random_tables(0, 60, 3, 6).sticky(0.25)
#: The optimal actions of each time, and of all states once more: a byte each.
RESERVED = 60 + sum(len(reachable_sets(MDP, 6).states(t)) for t in range(6))


def test_the_memory_is_known_before_the_work_begins() -> None:
    reports: list[AnalysisProgress] = []
    analyze(MDP, progress=reports.append)
    first = reports[0]
    assert first.share == 0 and first.seconds_left is None and first.stage == "Q^1..Q^5"
    # 6 columns of values with fingerprints, 6 of returns, 5 of margins, for 3 slots and a spare one
    assert first.num_bytes == 60 * 4 * 8 * (2 * 6 + 6 + 5)
    assert all(0 <= report.share <= 1 for report in reports) and reports[-1].share > 0.5
    assert all(report.seconds_left is not None for report in reports if report.share > 0)
    stages = list(dict.fromkeys(report.stage for report in reports))
    assert stages[1:] == ["planning window", "effective horizon within a tolerance", "witness"]


def test_with_less_memory_there_are_more_passes_and_the_same_results() -> None:
    reports: list[AnalysisProgress] = []
    limit = (
        60 * 8 * (6 + 1) * (2 * 3 + 1) + RESERVED
    )  # what k = 5 needs alone: two halves of 6 + 1 numbers, 3 slots and half a spare one
    found = analyze(MDP, max_k=5, search_k=5, memory=limit, progress=reports.append)
    assert "passes" in reports[0].stage and reports[0].num_bytes <= limit
    assert [horizon.searched_k for horizon in found.tolerant] == [5]  # k = 6 does not fit
    whole = analyze(MDP, max_k=5, search_k=5)
    assert replace(found, tolerant=()) == replace(whole, tolerant=())


def test_what_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(
        NotEnoughMemory, match=r"60 states and 3 actions to k = 5 needs .* GB, and .* GB are left for it"
    ) as refused:
        analyze(MDP, memory=10_000)
    assert "\n" not in str(refused.value)


def test_the_command_refuses_with_exit_code_2(sqirl, tmp_path) -> None:
    path = tmp_path / "large.npz"
    random_tables(0, 5000, 3, 4).sticky(0.25).save(path)
    code, out, err = sqirl("analyze", str(path), "--max-k", "2", "--search-k", "2", "--memory", "0.001")
    assert code == 2 and not out and err.count("\n") == 1 and "--max-k" in err


def test_the_estimate_of_the_time_left() -> None:
    reports: list[AnalysisProgress] = []
    meter = Meter(reports.append)
    meter.expect(10)
    meter.advance(5)
    assert reports[-1].share == 0.5 and reports[-1].seconds_left is not None
    meter.advance(20)  # more than was expected
    assert 0.9 < reports[-1].share < 1


def test_much_memory_is_announced_before_it_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    for num_bytes in (int(1e6), int(2e9)):
        with displays.analysis_display("game") as (_, report):
            for share in (0.0, 0.5):
                report(AnalysisProgress("Q^1..Q^5", share, None, num_bytes))
    assert capsys.readouterr().err == "sqirl: game: the analysis takes 2 GB of memory\n"


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displays, "QUIET_SECONDS", 0.02)
    with displays.analysis_display("game") as (_, report):
        report(AnalysisProgress("Q^1..Q^5", 0.25, 30.0, int(1e6)))
        said: list[str] = []
        wait_until(lambda: said.extend(capsys.readouterr().err.splitlines()) or said, "a line")
    line = said[-1]
    assert line.startswith("sqirl: game: Q^1..Q^5, 0.001 GB of memory") and line.endswith("about 30 s left")
