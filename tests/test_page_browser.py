"""The page in a real browser: every section, keyboard only, a phone, dark, hostile names, the user's own environments."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fifth_algorithm import RandomSearch
from sqirl.algorithms import registry
from sqirl.algorithms.registry import PPO, SQIRL
from sqirl.analysis.archive import archived_analyses
from sqirl.report.answer import answer_of
from sqirl.report.data import ReportData, report_data
from sqirl.report.environments import environment_rows
from sqirl.report.marks import bound_marks, horizon_marks, num_neither, pair_marks
from sqirl.report.page import report_page
from sqirl.report.predictors import DRAWN
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import shipped_records

sys.path.append(str(Path(__file__).parent.parent / "scripts"))
from browser import Browser, chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium: `make browser` installs it where it can")
FREEWAY = "BRIDGE/freeway_10_fs30-Sticky-v0"
SECTIONS = ("answer", "horizon", "games", "algorithms", "paper", "environments", "curves", "full", "words")
HOSTILE = "m:<!--<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;{{BUDGET}}/*SCRIPT*/"
OWN = "my_package:Cliff"


def evaluated(
    env: str, algorithm: str, *points: tuple[int, float], seed: int = 0, optimal: float | None = 1.0, **options: int
) -> RunRecord:
    curve = tuple(Point(steps, mean) for steps, mean in points)
    return RunRecord(
        RunConfig(algorithm, env, seed=seed, options=options), curve, optimal_return=optimal, random_return=0.03
    )


@pytest.fixture(scope="module")
def shipped() -> ReportData:
    return report_data(shipped_records())


@pytest.fixture(scope="module")
def page(shipped: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(shipped, tmp_path_factory.mktemp("page"))


def written(data: ReportData, folder: Path) -> Path:
    file = folder / "report.html"
    file.write_text(report_page(data, pictures=False), encoding="utf-8")
    return file


def opened(page: Path, folder: Path, **options: Any) -> Browser:
    browser = Browser(folder, **options)
    browser.open(page)
    return browser


@pytest.fixture(scope="module")
def desktop(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(page, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def check_quiet(browser: Browser) -> None:
    """No error, no message in the console, no request besides the page itself."""
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith(("data:", "file:"))] == []
    assert len([url for url in browser.requests if url.startswith("file:")]) == 1


def count(browser: Browser, selector: str) -> int:
    return int(browser.run(f"document.querySelectorAll({selector!r}).length"))


def text(browser: Browser, selector: str) -> str:
    return " ".join(str(browser.run(f"document.querySelector({selector!r}).innerText")).split())


def choose(browser: Browser, selector: str, value: str) -> None:
    """Set the value of an input, as a visitor does."""
    browser.run(
        f"(e => {{ e.value = {value!r}; e.dispatchEvent(new Event('input')) }})(document.querySelector({selector!r}))"
    )


def test_every_section_is_there(desktop: Browser, shipped: ReportData) -> None:
    assert desktop.run("[...document.querySelectorAll('main > section')].map(s => s.id)") == list(SECTIONS)
    for section in SECTIONS[1:]:
        assert count(desktop, f"#{section} h2") == 1 and len(text(desktop, f"#{section}")) > 60
        assert count(desktop, f"nav a[href='#{section}']") == 1
    assert text(desktop, "#sentence") == answer_of(shipped).sentence
    marks = [mark for spec in DRAWN for mark in horizon_marks(shipped, 0.1, spec)]
    assert count(desktop, "#f-horizon .mark") == len(marks) and any(mark.ours for mark in marks)
    assert (
        count(desktop, "#f-horizon .rail") == 3 and count(desktop, "#f-horizon svg svg") == 3
    )  # rails and fitted lines
    pair = pair_marks(shipped, SQIRL, PPO)
    shown = len(pair) - num_neither(pair, ours=True) - num_neither(pair, ours=False)
    assert count(desktop, "#f-pairs > :first-child .mark") == shown
    assert count(desktop, "#f-bound .mark") == len(bound_marks(shipped))
    assert count(desktop, "#f-estimates .mark") == 2 * 3 * len(shipped.predictors)
    assert count(desktop, "#f-mink .mark") == count(desktop, "#f-exact .mark") == shipped.num_built
    assert count(desktop, "#f-games article") == 2 and "loses" in text(desktop, "#f-games")
    assert text(desktop, "#legend") == "SQIRL GORP PPO DQN" and count(desktop, "#t-agree tbody tr") == 4
    assert "Table 2" in text(desktop, "#paper") and "Figure 2" in text(desktop, "#paper")
    assert "Table 3" in text(desktop, "#algorithms") and "Figure 3" in text(desktop, "#algorithms")
    assert count(desktop, "#full-curves h4") == len(shipped.full_length) >= 3
    check_quiet(desktop)


def test_ours_and_the_papers_are_columns_of_their_own(desktop: Browser) -> None:
    heads = desktop.run("[...document.querySelectorAll('#rows thead tr:last-child th')].map(th => th.innerText)")
    assert (
        heads[:7] == ["environment", "T", "states", "optimal", "min k", "H̄ 10 %", "H̄"]
        and heads[7:] == ["ours", "paper"] * 4
    )
    groups = desktop.run("[...document.querySelectorAll('#rows th.group')].map(th => th.innerText)")
    assert groups == ["SQIRL", "GORP", "PPO", "DQN"]
    desktop.run(
        "document.querySelector('#q').value = 'freeway_10_'; document.querySelector('#q').dispatchEvent(new Event('input'))"
    )
    cells = desktop.run("[...document.querySelectorAll('#rows tbody tr:first-child td')].map(td => td.innerText)")
    assert cells[0] == "freeway_10_fs30" and cells[7:9] == ["10k", "10k"] and text(desktop, "#count") == "1 of 155"
    desktop.run(
        "document.querySelector('#q').value = ''; document.querySelector('#q').dispatchEvent(new Event('input'))"
    )
    assert (
        text(desktop, "#count") == "155 of 155" and count(desktop, "#rows tbody tr") < 155
    )  # the rest comes with scrolling
    desktop.run("(f => { f.scrollTop = f.scrollHeight })(document.querySelector('.scroll'))")
    desktop.wait(0.2)
    assert count(desktop, "#rows tbody tr") > 60


def test_hover_shows_points_and_definitions(desktop: Browser) -> None:
    desktop.move("#f-horizon .mark")
    assert "log A · H̄ = " in tip(desktop) and "PPO" in tip(desktop)
    desktop.move("#simpler")
    assert tip(desktop) == ""
    terms = desktop.run("[...new Set([...document.querySelectorAll('[data-term]')].map(e => e.dataset.term))]")
    assert len(terms) > 15 and desktop.run(f"{terms!r}.filter(t => !D.glossary[t])") == []


def tip(browser: Browser) -> str:
    """The text of the tip that is shown; empty if none is."""
    shown = browser.run("document.querySelector('#tip').matches(':popover-open')")
    return text(browser, "#tip") if shown else ""


def focus_is_in(browser: Browser, selector: str) -> bool:
    return bool(browser.run(f"!!document.activeElement.closest({selector!r})"))


def tab_to(browser: Browser, selector: str, *, at_most: int = 80) -> None:
    for _ in range(at_most):
        browser.press("Tab")
        if focus_is_in(browser, selector):
            return
    raise AssertionError(f"{selector} is not reached with {at_most} tabs")


def test_with_the_keyboard_alone(page: Path, tmp_path: Path) -> None:
    with opened(page, tmp_path) as browser:
        tab_to(browser, "[data-term='effective horizon']")
        assert tip(browser).startswith("effective horizon: how far ahead")
        browser.press("Escape")
        assert tip(browser) == ""
        tab_to(browser, "#f-horizon .mark")
        browser.wait(0.1)  # the focus may scroll, and the tip goes with it
        first = tip(browser)
        browser.press("ArrowRight", 3)
        assert focus_is_in(browser, "#f-horizon .mark") and tip(browser) != first and "log A · H̄ = " in first
        browser.press("Enter")
        assert browser.run("document.querySelector('#card').open") and len(text(browser, "#card-body")) > 100
        browser.press("Escape")
        assert not browser.run("document.querySelector('#card').open")
        browser.press("Tab", 3)
        assert not focus_is_in(browser, "#f-horizon > :first-child .mark")  # a chart is one stop
        browser.run("document.querySelector('#rows thead button').focus()")
        browser.press("Tab")
        browser.press("Enter")  # sorts by T
        assert browser.run("document.querySelectorAll('#rows thead tr:last-child th')[1].ariaSort") == "ascending"
        tab_to(browser, "#rows tbody button")
        browser.press("ArrowDown", 70)  # more rows than are drawn at first
        assert (
            browser.run(
                "[...document.querySelectorAll('#rows tbody tr')].indexOf(document.activeElement.closest('tr'))"
            )
            == 70
        )
        check_quiet(browser)


#: Elements that end beyond the window, or whose text is cut, unless a place around them can be scrolled.
CLIPPED = """[...document.querySelectorAll('main *, .bar *')].filter(e => e.getClientRects().length
  && !e.closest('.panel, .scroll, details:not([open])') && !e.closest('svg svg')
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120)).slice(0, 5)"""


def test_on_a_phone_nothing_is_clipped(page: Path, tmp_path: Path) -> None:
    with opened(page, tmp_path, width=390, height=844, phone=True) as browser:
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.run(CLIPPED) == []
        first = browser.run("document.querySelector('#rows tbody td').getBoundingClientRect().width")
        assert 80 < first < 0.4 * 390
        browser.run("openCard('BRIDGE/freeway_10_fs30-Sticky-v0')")
        box = browser.run("(b => [b.left, b.right])(document.querySelector('#card').getBoundingClientRect())")
        assert box[0] >= 0 and box[1] <= 390
        browser.run("document.querySelector('#card').close(); scrollTo(0, 4000)")
        browser.wait(0.2)
        assert browser.run("document.querySelector('#legend').getBoundingClientRect().top") == 0  # the legend stays
        check_quiet(browser)


#: The contrast of the text of an element with the background of the page (WCAG asks for 4.5).
CONTRAST = """(selector => {
  const linear = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const a = light(getComputedStyle(document.querySelector(selector)).color);
  const b = light(getComputedStyle(document.body).backgroundColor);
  return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), b];
})"""


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_can_be_read(page: Path, tmp_path: Path, dark: bool) -> None:
    with opened(page, tmp_path, dark=dark) as browser:
        for selector in ("#sentence", "#simpler", "#rows td.papers", "figure, h4", ".bar nav a", "#glossary dd"):
            contrast, background = browser.run(f"{CONTRAST}({selector!r})")
            assert contrast > 4.5 and (background < 0.05 if dark else background > 0.9)
        check_quiet(browser)


def test_markup_in_names_stays_text_and_many_seeds_are_drawn(tmp_path: Path) -> None:
    many = [evaluated(HOSTILE, "sqirl", (10_000, 0.5), seed=seed, optimal=None) for seed in range(3000)]
    whole = [evaluated("PongNoFrameskip-v4", "ppo", (0, 1.0), (100_000, 2.0), optimal=None)]
    analysis = replace(next(iter(archived_analyses().values())), env_id=HOSTILE + "2")
    page = written(report_data([*many, *whole], [analysis]), tmp_path)
    assert "<!--<script>" not in page.read_text() and "\\u003c!--" in page.read_text()
    with opened(page, tmp_path) as browser:
        browser.run(f"openCard({HOSTILE!r})")
        assert browser.run("document.querySelector('#card-title').textContent") == HOSTILE
        assert HOSTILE in browser.run("document.querySelector('#all-curves h4').textContent")
        assert (
            count(browser, "img") == 0 and count(browser, "body script") == 2 and count(browser, "#card-body svg") == 1
        )
        browser.wait(0.1)
        check_quiet(browser)


def test_a_long_name_does_not_widen_the_page(tmp_path: Path) -> None:
    name = "my_package.environments:" + "VeryLongName" * 30
    records = [evaluated(name, algorithm, (10_000, 0.5), (20_000, 1.0)) for algorithm in ("sqirl", "ppo")]
    page = written(report_data(records, [replace(archived_analyses()[FREEWAY], env_id=name)]), tmp_path)
    with opened(page, tmp_path, width=390, height=844, phone=True) as browser:
        assert browser.run("document.documentElement.scrollWidth") <= 390 and browser.run(CLIPPED) == []
        browser.run(f"openCard({name!r})")
        assert browser.run("document.querySelector('#card').scrollWidth <= document.querySelector('#card').clientWidth")
        check_quiet(browser)


def test_ones_own_environments_are_among_the_others(tmp_path: Path) -> None:
    """In the table, in the first figure, in Figure 3 and among the curves; solved, not solved, and evaluated once."""
    analysis = replace(archived_analyses()[FREEWAY], env_id=OWN)
    records = [evaluated(OWN, name, (10_000, 0.5), (20_000, 1.0)) for name in ("sqirl", "ppo")]
    records += [evaluated("other:Env", name, (10_000, 0.25)) for name in ("sqirl", "ppo", "dqn")]
    data = report_data(records, [analysis])
    with opened(written(data, tmp_path), tmp_path) as browser:
        rows = browser.run("D.rows.filter(row => row.own).map(row => [row.id, row.suite, row.min_k ?? null])")
        assert rows == [[OWN, "own", 1], ["other:Env", "own", None]]
        choose(browser, "#state", "own")
        shown = browser.run(
            "[...document.querySelectorAll('#rows tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
        )
        assert [row[0] for row in shown] == [OWN, "other:Env"]
        assert shown[0][7] == "20k" and shown[0][8] == ""  # the paper has no such environment
        assert shown[1][7] == "–" and shown[1][11] == "> 10k"  # all iterations of SQIRL were done; PPO could go on
        assert count(browser, f"#f-horizon .mark[data-id='{OWN}']") == 2
        assert count(browser, f"#f-pairs .mark[data-id='{OWN}']") == 1
        assert (
            count(browser, "#f-pairs .mark[data-id='other:Env']") == 0
        )  # neither solves it: it is in the count of the corner
        titles = browser.run("[...document.querySelectorAll('#all-curves h4')].map(h => h.innerText)")
        assert titles == [OWN, "other:Env"]
        browser.run("document.querySelector('#all-curves').scrollIntoView()")
        browser.wait(0.3)
        assert count(browser, "#all-curves .curve") == 2 and count(browser, "#all-curves .mark") == 4 + 3
        check_quiet(browser)


def test_a_fifth_algorithm_has_its_colour_and_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registry, RandomSearch.name, RandomSearch())
    records = [evaluated(FREEWAY, name, (10_000, 0.5), (20_000, 1.0)) for name in ("ppo", RandomSearch.name)]
    with opened(written(report_data(records), tmp_path), tmp_path) as browser:
        assert text(browser, "#legend").endswith("DQN Random search")
        assert "Random search 1 of 1" in text(browser, "#t-solved")
        assert browser.run("[...document.querySelectorAll('#rows th.group')].at(-1).innerText") == "Random search"
        browser.run(f"openCard({FREEWAY!r})")
        strokes = browser.run("[...document.querySelectorAll('#card-body .curve')].map(p => p.getAttribute('stroke'))")
        assert strokes == ["var(--algorithm-2)", "var(--algorithm-4)"]
        (line,) = [line for line in browser.run("[...document.querySelectorAll('#card-body tr')].map(r => r.innerText)")
                   if line.startswith("Random search")]  # fmt: skip
        assert line.split("\t")[1:3] == ["20k", ""]  # ours; the paper does not have it
        check_quiet(browser)


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_twenty_thousand_records(tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool) -> None:
    """On 2,000 environments of one's own, or all settings of the paper's: written and opened in seconds, drawn in pieces."""
    envs = [f"m:Env{i}" for i in range(2000)] if own else [row.env_id for row in environment_rows()]
    settings = 1 if own else 13
    points = [(10_000 * t, t / 60) for t in range(1, 60)]
    records = [
        evaluated(env, name, *points, seed=seed, k=k)
        for env in envs
        for name in ("sqirl", "gorp")
        for k in range(1, settings + 1)
        for seed in range(5)
    ][:20_000]
    start = time.process_time()
    page = written(report_data(records), tmp_path)
    spent = time.process_time() - start
    with Browser(tmp_path) as browser:
        seconds = browser.open(page)
        size = page.stat().st_size / 1e6
        with capsys.disabled():
            print(
                f"{len(records):,} records: {size:.1f} MB, written in {spent:.1f} s of CPU, opened in {seconds:.2f} s"
            )
        rows = len({*envs, *(row.env_id for row in environment_rows())})
        assert text(browser, "#count") == f"{rows:,} of {rows:,}" and count(browser, "#rows tbody tr") <= 60
        assert count(browser, "#all-curves .curve-panel") == 12
        assert browser.run("document.querySelectorAll('*').length") < 15_000
        check_quiet(browser)
