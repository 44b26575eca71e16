"""Progress bars on stderr, only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqirl.experiments.scheduler import SweepProgress
    from sqirl.mdp.build import BuildProgress
    from sqirl.runs.progress import RunProgress


#: (share that is done, what to say) -> None
Show = Callable[[float, str], None]


@contextmanager
def _live_line(name: str) -> Iterator[Show]:
    """A bar, a text and the time. What the env itself prints goes to stderr meanwhile, so that stdout is the result alone."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    columns = [
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    ]
    with (
        redirect_stdout(sys.stderr),
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display,
    ):
        task = display.add_task(name, total=1.0, text="starting")
        yield lambda share, text: display.update(task, completed=share, text=text)


@contextmanager
def build_display(name: str) -> Iterator[Callable[[BuildProgress], None]]:
    """A live line for one build: depth, states, frontier and speed."""
    with _live_line(name) as show:
        yield lambda progress: show(
            (progress.depth + progress.done / max(1, progress.frontier)) / progress.horizon,
            f"step {progress.depth + 1}/{progress.horizon}  {progress.states:,} states  "
            f"{progress.frontier:,} in this step  {progress.speed:,.0f} transitions/s  "
            f"about {duration(progress.seconds_left)} left",
        )


@contextmanager
def counting_display(name: str) -> Iterator[Callable[[int, int], None]]:
    """A live line for work that is counted: done of all."""
    with _live_line(name) as show:
        yield lambda done, total: show(done / max(1, total), f"{done:,} of {total:,}")


@contextmanager
def training_display(name: str) -> Iterator[Callable[[RunProgress], None]]:
    """A live line for one run: return of the optimum, steps, speed, time left."""
    with _live_line(name) as show:

        def report(progress: RunProgress) -> None:
            left = (progress.config.timesteps - progress.steps) / max(progress.steps_per_second, 1e-9)
            reached = "no evaluation yet"
            if progress.last is not None:
                optimal = "" if progress.optimal_return is None else f" / {progress.optimal_return:.4g}"
                reached = f"return {progress.last.mean:.4g}{optimal}"
            show(
                progress.steps / progress.config.timesteps,
                f"{reached}  {progress.steps:,} steps  {progress.steps_per_second:,.0f} steps/s  "
                f"at most {duration(left)} left",
            )

        yield report


@contextmanager
def sweep_display(name: str) -> Iterator[Callable[[SweepProgress], None]]:
    """A live line for a whole sweep."""
    with _live_line(name) as show:

        def report(progress: SweepProgress) -> None:
            failed = f", {progress.runs_failed} failed" if progress.runs_failed else ""
            show(
                progress.searches_done / max(1, progress.searches),
                f"{progress.searches_done} of {progress.searches} searches  {progress.runs_done} runs "
                f"({progress.runs_found} found{failed})  {progress.running} running",
            )

        yield report


def duration(seconds: float) -> str:
    """'40 s', '12 min', '3.5 h', '9 days': rounded, because it is an estimate."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days" if seconds < 1e10 else "more than 100 years"
