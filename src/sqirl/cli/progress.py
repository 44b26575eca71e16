"""Progress on stderr, only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqirl.mdp.build import BuildProgress


@contextmanager
def build_display(name: str) -> Iterator[Callable[[BuildProgress], None]]:
    """A live line for one build: depth, states, frontier and speed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    columns = [
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display:
        task = display.add_task(name, total=1.0, text="starting")

        def show(progress: BuildProgress) -> None:
            fraction = (progress.depth + progress.done / max(1, progress.frontier)) / progress.horizon
            speed = progress.transitions / max(progress.seconds, 1e-9)
            display.update(
                task,
                completed=fraction,
                text=f"step {progress.depth + 1}/{progress.horizon}  {progress.states:,} states  "
                f"{progress.frontier:,} in this step  {speed:,.0f} transitions/s",
            )

        yield show
