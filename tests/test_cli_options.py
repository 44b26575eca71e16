"""Options of the command line: every option of every algorithm, and the texts that a person types."""

from __future__ import annotations

import inspect
import io
import re
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sqirl.algorithms import registry
from sqirl.algorithms.registry import algorithms_with, all_options
from sqirl.algorithms.spec import Option
from sqirl.analysis.progress import AnalysisProgress
from sqirl.cli import progress
from sqirl.cli.options import parse_seeds, parse_steps, with_algorithm_options
from sqirl.cli.progress import counting_display, duration
from sqirl.errors import SqirlError
from waiting import wait_until

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"


def command_with_options() -> tuple[typer.Typer, list[dict[str, int | None]]]:
    """A command like `sqirl train`, and what it was called with."""
    app, called = typer.Typer(), []

    @app.command()
    @with_algorithm_options
    def command(name: str, options: dict[str, int | None], loud: bool = False) -> None:
        """Does nothing."""
        called.append({"name": name, "loud": loud, **options})

    return app, called


def test_the_help_shows_every_option_with_its_algorithms(sqirl) -> None:
    code, out, _ = sqirl("train", "--help")
    plain = re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", out))
    assert code == 0
    for option in all_options().values():
        assert f" {option.command_flag} " in plain
        assert f"{', '.join(spec.label for spec in algorithms_with(option.name))}: " in plain


def test_options_reach_the_command_by_name() -> None:
    app, called = command_with_options()
    arguments = ["x", "-k", "2", "--epsilon-steps", "700", "--loud"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert called == [{"name": "x", "loud": True, "k": 2, "m": None, "rollout": None, "num_envs": None,
                       "epsilon_steps": 700}]  # fmt: skip


def test_an_option_that_is_registered_is_an_option_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec(type(registry.PPO)):
        name, label, options = (
            "fifth",
            "Fifth",
            (Option("breadth_first", "how broad", (1,)), Option("m", "other", (2,))),
        )

    monkeypatch.setitem(registry._registry, "fifth", Spec())
    app, called = command_with_options()
    assert CliRunner().invoke(app, ["x", "--breadth-first", "3"]).exit_code == 0
    assert called[0]["breadth_first"] == 3 and len(called[0]) == 2 + 6  # m is shared
    assert [spec.name for spec in algorithms_with("m")] == ["sqirl", "gorp", "fifth"]


def test_the_signature_hides_nothing() -> None:
    wrapped = with_algorithm_options(lambda name, options: None)
    parameters = inspect.signature(wrapped).parameters
    assert list(parameters) == ["name", *all_options()] and "options" not in parameters
    assert all(parameters[name].default is None for name in all_options())


@pytest.mark.parametrize("text", ["two", "2.5", "", "1e3"])
@pytest.mark.parametrize("flag", ["-k", "-m", "--rollout", "--epsilon-steps"])
def test_a_value_of_the_wrong_type_is_one_line(sqirl, flag: str, text: str, own_store: Path) -> None:
    code, out, err = sqirl("train", "sqirl", EMPTY, flag, text)
    assert code == 2 and not out and err.count("\n") == 1 and err.startswith("sqirl: ") and flag.strip("-")[0] in err
    assert not own_store.exists()


# Seeds and steps -----------------------------------------------------------------------------------------------------


@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20, unique=True))
def test_seeds_one_by_one(seeds: list[int]) -> None:
    assert parse_seeds(",".join(map(str, seeds))) == seeds


@given(ranges=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 30)), min_size=1, max_size=5))
def test_seeds_in_ranges(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" for first, more in ranges)
    expected = [seed for first, more in ranges for seed in range(first, first + more + 1)]
    if len(set(expected)) == len(expected):
        assert parse_seeds(text) == expected
    else:
        with pytest.raises(SqirlError, match="name one twice"):
            parse_seeds(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not of the form"), ("-1", "not of the form"), ("1-", "not of the form"), ("0;1", "not of the form"),
        ("1.5", "not of the form"), ("4-2", "name none"), ("0-2,2", "name one twice"), ("4294967296", "outside 0..4294967295"),
        ("0-99999999999999", "outside 0..4294967295"), ("0-4294967295", "more than 10,000 seeds"),
    ],
)  # fmt: skip
def test_wrong_seeds(text: str, words: str) -> None:
    with pytest.raises(SqirlError, match=words) as caught:
        parse_seeds(text)
    assert f"'{text}'" in str(caught.value) and "\n" not in str(caught.value)


@example(steps=1001)  # 1.001 * 1000 is a little less
@given(steps=st.integers(1, 10**9))
def test_all_ways_to_write_a_number_of_steps(steps: int) -> None:
    ways = [str(steps), f"{steps:_}", f"{steps}.0", f"{steps / 1000:.3f}k", f"{steps / 10**6:.6f}M", f"{steps:.12e}"]
    assert [parse_steps(way) for way in ways] == [steps] * 6


@pytest.mark.parametrize("text", ["", "k", "M", "5m", "five", "0x10", "1,000"])
def test_what_is_no_number_of_steps(text: str) -> None:
    with pytest.raises(SqirlError, match=f"'{text}' is not a number of steps; write 5000000"):
        parse_steps(text)


@pytest.mark.parametrize("text", ["0", "-3", "0.4", "nan", "inf", "1e12", "2000000M"])
def test_numbers_of_steps_that_make_no_sense(text: str) -> None:
    with pytest.raises(SqirlError, match=f"{text} steps make no sense"):
        parse_steps(text)
    assert parse_steps(None) is None


# Progress ------------------------------------------------------------------------------------------------------------


@given(seconds=st.floats(0, 1e12))
def test_a_duration_is_near_what_it_says(seconds: float) -> None:
    text = duration(seconds)
    if text == "more than 100 years":
        assert seconds >= 1e10
        return
    number, unit = text.split()
    size = {"s": 1, "min": 60, "h": 3600, "days": 86400}[unit]
    assert abs(float(number) * size - seconds) <= 0.51 * size


def test_what_is_printed_during_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with counting_display("screens") as tell:
        tell(3, 0)
        tell(3, 5)
        print("an env says something")
    print("the result")
    out, err = capsys.readouterr()
    assert out == "the result\n" and "an env says something" in err


def without_seconds(text: str) -> list[str]:
    """The lines, with N for the seconds that a busy machine took."""
    return re.sub(r"\b\d+ s\b", "N s", text).splitlines()


def test_off_a_terminal_a_line_with_the_time_left_comes_again_and_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.02)
    lines: list[str] = []

    def is_said(line: str) -> bool:
        lines.extend(without_seconds(capsys.readouterr().err))
        return line in lines

    with progress.analysis_display("game") as (_, analysed):
        wait_until(lambda: is_said("sqirl: game: starting, N s so far, time left unknown"), "a line at the start")
        with progress.counting_display("screens") as count:
            count(1, 4)
            wait_until(lambda: is_said("sqirl: screens: 1 of 4, N s so far, about N s left"), "a line of the screens")
            count(4, 4)
        analysed(AnalysisProgress("backward pass", 0.75, 100.0, 2_000_000_000))
        assert is_said("sqirl: game: the analysis takes 2 GB of memory")  # at once
        last = "sqirl: game: backward pass, 2 GB of memory, N s so far, about 2 min left"
        wait_until(lambda: is_said(last), "a line of the backward pass")
    is_said("")
    assert lines[0] == "sqirl: game: starting, N s so far, time left unknown" and lines[-1] == last


def test_on_a_terminal_of_80_columns_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines hold every word, and their end is erased; a name that looks like markup is text."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    name, text = "x[/foo] " + "long " * 30 + "name", "step 1/50  " + "word " * 40 + "end"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "DRAWING_SECONDS", 0.01)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress._display(name) as state:
        state.show(0.5, text)
        wait_until(lambda: "end" in terminal.getvalue(), "a drawing")
    drawn = re.sub(r"\x1b\[\d*[AJ]|\r", "\f", terminal.getvalue()).split("\f")
    whole = next(part for part in drawn if "end" in part)
    assert all(len(line) < 80 for line in whole.splitlines()) and "############............" in whole
    assert " ".join(whole.split()).startswith(name) and whole.split()[-43:] == text.split()
    assert terminal.getvalue().endswith("\r\x1b[J")
