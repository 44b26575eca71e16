"""The figure of `sqirl whatif`: difficulty, planning depth, return and predicted steps of every variant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqirl.diagnosis.model import FIRST
from sqirl.diagnosis.whatif import WhatIf
from sqirl.diagnosis.words import number, steps_in_words
from sqirl.report.style import ACCENT, GREY, hide_frame, new_figure
from sqirl.results.statistics import BUDGET

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_changes(found: WhatIf) -> Figure:
    """One row for each variant, one panel for each quantity; the environment as it is in grey."""
    changes = found.changes[::-1]
    figure = new_figure(11, 1.2 + 0.36 * len(changes))
    panels = figure.subplots(1, 4, sharey=True)
    colours = [GREY if change.label == "as it is" else ACCENT.light for change in changes]
    columns: list[tuple[str, list[Any], Callable[[Any], str]]] = [
        ("effective horizon H̄_ε", [change.effective_horizon for change in changes], "{:.1f}".format),
        ("k", [change.k for change in changes], str),
        ("optimal return", [change.optimal_return for change in changes], number),
        ("predicted steps of PPO", [_drawn(change.ppo_steps) for change in changes], _in_words),
    ]
    for axes, (title, values, words) in zip(panels, columns, strict=True):
        known = [0.0 if value is None else float(value) for value in values]
        if values is columns[-1][1]:
            axes.set_xscale("log")
            axes.set_xlim(0.7 * 10**FIRST, 20 * BUDGET)
        axes.barh(range(len(changes)), known, color=colours)
        for place, value in enumerate(values):
            text = "none" if value is None else words(value)
            left, side = (f"{text} ", "right") if known[place] < 0 else (f" {text}", "left")
            axes.text(max(known[place], axes.get_xlim()[0]), place, left, va="center", ha=side, fontsize=8)
        axes.set_title(title, fontsize=9)
        if values is not columns[-1][1]:
            axes.margins(x=0.2)
        hide_frame(axes)
    panels[0].set_yticks(range(len(changes)), [change.label for change in changes])
    figure.suptitle(found.env_id or "MDP", fontsize=10)
    return figure


def _drawn(steps: float | None) -> float | None:
    """The length of a bar: the paper's runs say nothing beyond five million steps."""
    return None if steps is None else min(max(steps, 10**FIRST), 1.2 * BUDGET)


def _in_words(steps: float) -> str:
    return steps_in_words(steps).removeprefix("about ")
