"""Progress on stderr: a few live lines on a terminal; elsewhere, such as in a log file, a line every half a minute."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from sqirl.analysis.progress import AnalysisProgress
    from sqirl.experiments.scheduler import SweepProgress
    from sqirl.mdp.build import BuildProgress
    from sqirl.runs.progress import RunProgress

#: An analysis that takes so many bytes says so before it takes them.
MUCH_MEMORY = 1e9
#: Seconds between two lines where stderr is no terminal, and between two drawings where it is.
QUIET_SECONDS, DRAWING_SECONDS = 30.0, 0.2
_BAR_WIDTH = 24
#: Terminal codes: go to the start of the line and erase all that follows; go up so many lines.
_ERASE, _UP = "\r\x1b[J", "\x1b[{}A"


class _State:
    """How far the work is."""

    def __init__(self, name: str) -> None:
        self.name = name if name.isprintable() else ascii(name)
        self.text, self.share = "starting", 0.0
        self._began = self._since = time.monotonic()
        self._left: str | None = None

    def show(self, share: float, text: str, left: str | None = None) -> None:
        """Remember how far it is.

        :param share: the share that is done; where it falls, another piece of work began
        :param text: what to say
        :param left: the time left, if it is known better than from the share
        """
        if share < self.share:
            self._since = time.monotonic()
        self.share, self.text, self._left = share, text, left

    @property
    def times(self) -> str:
        """The time so far and the time left."""
        now = time.monotonic()
        left = f"{about((now - self._since) * (1 / self.share - 1))} left" if self.share else "time left unknown"
        return f"{duration(now - self._began)} so far, {self._left or left}"

    def __str__(self) -> str:
        return f"{self.name}: {self.text}, {self.times}"

    def lines(self, width: int) -> list[str]:
        """The same with a bar, in lines of at most this width. Nothing is cut."""
        bar = "#" * round(self.share * _BAR_WIDTH)
        parts = (self.name, f"[{bar:.<{_BAR_WIDTH}}] {self.times}", self.text)
        return [line for part in parts for line in textwrap.wrap(part, width)]


@contextmanager
def _display(name: str, *, brief: bool = False) -> Iterator[_State]:
    """Show how far the work is. What the env itself prints goes to stderr meanwhile, so that stdout is the result alone.

    :param brief: show it only while something is half done
    """
    state, stream, over = _State(name), sys.stderr, threading.Event()
    is_shown = (lambda: 0 < state.share < 1) if brief else (lambda: True)
    show = _draw if stream.isatty() and os.environ.get("TERM") != "dumb" else _write_lines
    thread = threading.Thread(target=show, args=(state, stream, over, is_shown), daemon=True)
    with redirect_stdout(stream):
        thread.start()
        try:
            yield state
        finally:
            over.set()
            thread.join()


def _write_lines(state: _State, stream: TextIO, over: threading.Event, is_shown: Callable[[], bool]) -> None:
    """A line every half a minute."""
    while not over.wait(QUIET_SECONDS):
        if is_shown():
            print(f"sqirl: {state}", file=stream, flush=True)


def _draw(state: _State, stream: TextIO, over: threading.Event, is_shown: Callable[[], bool]) -> None:
    """Lines that are drawn again and again, and are gone at the end.

    The cursor waits at their beginning, so that what others print meanwhile stays, and they are drawn again below it.
    """
    drawn = False
    while not over.wait(DRAWING_SECONDS):
        if is_shown():
            lines = state.lines(shutil.get_terminal_size().columns - 1)
            stream.write(_ERASE + "\n".join(lines) + (_UP.format(len(lines) - 1) if len(lines) > 1 else "") + "\r")
        elif drawn:
            stream.write(_ERASE)
        drawn = is_shown()
        stream.flush()
    if drawn:
        stream.write(_ERASE)
        stream.flush()


@contextmanager
def build_display(name: str) -> Iterator[Callable[[BuildProgress], None]]:
    """How far one build is: depth, states, frontier and speed."""
    with _display(name) as state:
        yield lambda progress: _show_build(state, progress)


def _show_build(state: _State, progress: BuildProgress) -> None:
    is_guess = progress.growth > 1 and progress.depth + 1 < progress.horizon
    state.show(
        (progress.depth + progress.done / max(1, progress.frontier)) / progress.horizon,
        f"step {progress.depth + 1}/{progress.horizon}  {progress.states:,} states  "
        f"{progress.frontier:,} in this step  {progress.speed:,.0f} transitions/s",
        f"{about(progress.seconds_left)} left{f', if steps keep growing by {progress.growth:.2g}' * is_guess}",
    )


@contextmanager
def analysis_display(
    name: str,
) -> Iterator[tuple[Callable[[BuildProgress], None], Callable[[AnalysisProgress], None]]]:
    """How far a build and the analysis after it are. An analysis that takes much memory says so before it takes it."""
    with _display(name) as state:
        announced: set[int] = set()

        def report(progress: AnalysisProgress) -> None:
            gigabytes = f"{progress.num_bytes / 1e9:.2g} GB"
            if progress.num_bytes >= MUCH_MEMORY and progress.num_bytes not in announced:
                print(f"sqirl: {state.name}: the analysis takes {gigabytes} of memory", file=sys.stderr, flush=True)
                announced.add(progress.num_bytes)
            left = None if progress.seconds_left is None else f"{about(progress.seconds_left)} left"
            state.show(progress.share, f"{progress.stage}, {gigabytes} of memory", left)

        yield lambda progress: _show_build(state, progress), report


@contextmanager
def counting_display(name: str) -> Iterator[Callable[[int, int], None]]:
    """How far work is that is counted: done of all."""
    with _display(name, brief=True) as state:
        yield lambda done, total: state.show(done / max(1, total), f"{done:,} of {total:,}")


@contextmanager
def training_display(name: str) -> Iterator[Callable[[RunProgress], None]]:
    """How far one run is: return of the optimum, steps, speed, time left."""
    with _display(name) as state:
        from sqirl.runs.record import share_of_gain

        def report(progress: RunProgress) -> None:
            steps_left = max(0, progress.config.timesteps - progress.steps)
            left = steps_left / max(progress.steps_per_second, 1e-9)
            reached = "no evaluation yet"
            if progress.last is not None:
                optimal = "" if progress.optimal_return is None else f" / {progress.optimal_return:.4g}"
                share = share_of_gain(progress.last.mean, progress.optimal_return, progress.random_return)
                reached = (
                    f"return {progress.last.mean:.4g}{optimal}{'' if share is None else f' ({round(100 * share)} %)'}"
                )
            state.show(
                progress.steps / progress.config.timesteps,
                f"{reached}  {progress.steps:,} steps  {progress.steps_per_second:,.0f} steps/s",
                f"at most {duration(left)} left",
            )

        yield report


@contextmanager
def sweep_display(name: str) -> Iterator[Callable[[SweepProgress], None]]:
    """How far a whole sweep is."""
    with _display(name) as state:

        def report(progress: SweepProgress) -> None:
            failed = f", {progress.runs_failed} failed" if progress.runs_failed else ""
            state.show(
                progress.searches_done / max(1, progress.searches),
                f"{progress.searches_done} of {progress.searches} searches  {progress.runs_done} runs "
                f"({progress.runs_found} found{failed})  {progress.running} running",
            )

        yield report


def about(seconds: float) -> str:
    """'about 12 min', or 'more than 100 years'."""
    text = duration(seconds)
    return text if text.startswith("more than") else f"about {text}"


def duration(seconds: float) -> str:
    """'40 s', '12 min', '3.5 h', '9 days': rounded, because it is an estimate."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days" if seconds < 1e10 else "more than 100 years"
