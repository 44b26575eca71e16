"""The learning curves of single runs: the figure that `sqirl train` draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqirl.report.style import draw_levels, finish, new_figure, save_figure
from sqirl.runs.record import RunRecord
from sqirl.runtime.files import safe_file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_curves(records: Sequence[RunRecord]) -> Figure:
    """The mean return of each run against its steps, and the true return of its policy where it is known.

    The records are of one algorithm on one environment. The optimal and the random return are horizontal lines.
    """
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    config, seeds = records[0].config, len(records)
    draw_levels(axes, records[0].optimal_return, records[0].random_return)
    means_label: str | None = f"{config.spec.label}, mean of {config.eval_episodes} episodes"
    exact_label: str | None = "true return of the policy"
    for record in records:
        steps, means = [point.steps for point in record.curve], [point.mean for point in record.curve]
        exact = [(point.steps, point.exact) for point in record.curve if point.exact is not None]
        colour = config.spec.colour
        axes.plot(steps, means, color=colour, marker="o", markersize=3, linewidth=1, label=means_label)
        if exact:
            axes.plot(*zip(*exact, strict=True), color=colour, marker="x", markersize=4, linewidth=0, label=exact_label)
        means_label = exact_label = None  # one entry in the legend for all seeds
    axes.set(xlabel="steps", ylabel="return")
    _draw_share(axes, records[0])
    axes.set_xlim(0, 1.04 * max(1, *(point.steps for record in records for point in record.curve)))
    title = f"{config.env_id}\n{config.algorithm} {config.setting}, {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set_title(title, fontsize=10)
    finish(axes)
    return figure


def _draw_share(axes: Axes, record: RunRecord) -> None:
    """A second axis, where both levels are known: the share of the way from random play to the optimum."""
    optimal, random = record.optimal_return, record.random_return
    if optimal is None or random is None or optimal <= random:
        return
    low, gain = random, optimal - random

    def share(value: Any) -> Any:
        return 100 * (value - low) / gain

    def value(share: Any) -> Any:
        return low + share * gain / 100

    shares = axes.secondary_yaxis("right", functions=(share, value))
    shares.set_ylabel("% of the way from random play to the optimum", fontsize=8)
    shares.tick_params(labelsize=8)


def save_curves(records: Sequence[RunRecord], folder: Path) -> Path:
    """Draw the curves of one algorithm on one environment into the folder; returns the file."""
    config = records[0].config
    path = folder / f"{config.algorithm}-{safe_file_name(config.env_id.removeprefix('BRIDGE/'))}.png"
    save_figure(plot_curves(records), path)
    return path
