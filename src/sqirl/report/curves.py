"""Learning curves as figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sqirl.results.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"sqirl": "#2f6fb0", "ppo": "#d9822b", "dqn": "#4c9a5b", "gorp": "#8a5aa8"}
_GREY = "#7a7a7a"


def plot_curves(records: Sequence[RunRecord]) -> Figure:
    """The mean return of each run against its steps, the optimal and the random return as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    first = records[0]
    draw_levels(axes, first.optimal_return, first.random_return)
    for record in records:
        steps = np.array([point.steps for point in record.curve])
        means = np.array([point.mean for point in record.curve])
        colour = COLOURS[record.config.algorithm]
        label = (
            f"{record.config.algorithm}, mean of {record.config.eval_episodes} episodes" if record is first else None
        )
        axes.plot(steps, means, color=colour, marker="o", markersize=3, linewidth=1, label=label)
        exact = [(point.steps, point.exact) for point in record.curve if point.exact is not None]
        if exact:
            label = "true return of the policy" if record is first else None
            axes.plot(*zip(*exact, strict=True), color=colour, marker="x", markersize=4, linewidth=0, label=label)
    axes.set_xlabel("steps")
    axes.set_ylabel("return")
    axes.set_xlim(0, 1.04 * max(1, *(point.steps for record in records for point in record.curve)))
    seeds = len(records)
    axes.set_title(f"{first.config.env_id}\n{_described(first)}, {seeds} seed{'s' if seeds > 1 else ''}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def draw_levels(axes: Axes, optimal: float | None, random: float | None) -> None:
    """The returns that a curve lies between."""
    for value, style, name in ((optimal, "--", "optimal"), (random, ":", "random")):
        if value is not None:
            axes.axhline(value, color=_GREY, linestyle=style, linewidth=1, label=f"{name} {value:.4g}")


def _described(record: RunRecord) -> str:
    return record.config.label.partition(" seed ")[0]
