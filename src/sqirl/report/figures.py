"""The paper's figures with our results added, and figures of our own; `sqirl report --figures` writes them.

Figure 1 is a drawing of the algorithms and is not made here. Figures 2 to 5 have one function each, with its number in its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqirl.algorithms.registry import PPO, SQIRL, algorithm
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.experiments.theory import TheoryPoint
from sqirl.report.curve_axes import return_range, step_range
from sqirl.report.data import DRAWN_PAIRS, EnvironmentRuns, LeastK, ReportData
from sqirl.report.horizon_figure import draw_marks, horizon_figure
from sqirl.report.marks import LEAST_STEPS, RAIL, bound_marks, num_neither, pair_marks
from sqirl.report.style import (
    GREY,
    LINE_GREY,
    RAIL_GREY,
    draw_diagonal,
    draw_levels,
    finish,
    new_figure,
    save_figure,
    step_ticks,
)
from sqirl.runtime.files import safe_file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure_2_min_k(data: ReportData) -> Figure:
    """Figure 2 of the paper: how many environments are approximately solved with each k, by whether PPO solves them.

    A bar for each k: the enumerated environments in which this is the least k that has 95 % of the optimal return. Ours has
    the environments that we enumerated; PPO's results are the paper's. The second panel is the same for optimal returns.
    """
    figure = new_figure(8.4)
    left, right = figure.subplots(1, 2)
    _draw_least_k(left, data.least_k(lambda row: row.approx_min_k), "k for 95 % of the optimal return")
    _draw_least_k(right, data.least_k(lambda row: row.min_k), "k for exactly the optimal return")
    return figure


def _draw_least_k(axes: Axes, groups: Sequence[LeastK], xlabel: str) -> None:
    solved, unsolved = [len(group.solved) for group in groups], [len(group.unsolved) for group in groups]
    axes.bar(range(len(groups)), solved, color=PPO.colour, label=f"{PPO.label} solves")
    axes.bar(range(len(groups)), unsolved, bottom=solved, color=GREY, label=f"{PPO.label} does not")
    axes.set_xticks(range(len(groups)), [group.label for group in groups])
    axes.set(xlabel=xlabel, ylabel="environments")
    finish(axes)


def figure_3_sample_complexities(data: ReportData, y: AlgorithmSpec, x: AlgorithmSpec) -> Figure:
    """Figure 3 of the paper: the sample complexity of SQIRL (y) against that of PPO or DQN (x), a mark per environment.

    The paper's are hollow, ours are filled. Environments that only one of the two solves are on the rails, of those that
    neither solves the corner gives the number. The paper draws neither.
    """
    figure = new_figure()
    axes = figure.subplots()
    marks = pair_marks(data, y, x)
    axes.axhspan(*RAIL, color=RAIL_GREY, zorder=0)
    axes.axvspan(*RAIL, color=RAIL_GREY, zorder=0)
    draw_marks(axes, marks, LINE_GREY)
    draw_diagonal(axes, LEAST_STEPS, RAIL[0])
    neither, middle = sum(num_neither(marks, ours=ours) for ours in (False, True)), (RAIL[0] * RAIL[1]) ** 0.5
    axes.text(middle, middle, f"{neither}\nneither", ha="center", va="center", fontsize=7)
    axes.set(xscale="log", yscale="log", xlim=(LEAST_STEPS, RAIL[1]), ylim=(LEAST_STEPS, RAIL[1]))
    axes.set(xlabel=f"{x.label} steps", ylabel=f"{y.label} steps")
    for axis in (axes.xaxis, axes.yaxis):
        step_ticks(axis, RAIL)
    finish(axes)
    return figure


def figure_4_full_length_atari(runs: EnvironmentRuns) -> Figure:
    """Figure 4 of the paper: learning curves on one full-length Atari game, median and range over seeds.

    The paper has one panel for each of six games. Ours is one figure for each game that was run.
    """
    return _learning_curves(runs, xscale="linear")


def full_length_figure(data: ReportData) -> Figure:
    """Figure 4 of the paper in one piece: a panel for each full-length game that was run."""
    games = data.full_length
    columns = min(3, len(games))
    rows = -(-len(games) // columns)
    figure = new_figure(3.8 * columns, 3.0 * rows)
    for place, runs in enumerate(games, start=1):
        _draw_learning_curves(figure.add_subplot(rows, columns, place), runs, xscale="linear", title=runs.title)
    return figure


def figure_5_learning_curves(runs: EnvironmentRuns) -> Figure:
    """Figure 5 of the paper (Appendix D): learning curves on one environment of BRIDGE, median and range over seeds.

    The paper has one panel for each environment. Ours is one figure for each environment that was run, the user's own included,
    and adds the return of the random policy.
    """
    return _learning_curves(runs, xscale="log")


def theory_figure(data: ReportData) -> Figure:
    """Not in the paper: SQIRL's sample complexity against the theorem's bound."""
    figure = new_figure()
    axes = figure.subplots()
    axes.axhspan(*RAIL, color=RAIL_GREY, zorder=0)
    draw_marks(axes, bound_marks(data), SQIRL.colour)
    axes.set(xscale="log", yscale="log", ylim=(LEAST_STEPS, RAIL[1]))
    axes.set(xlabel="bound in steps, constants dropped", ylabel=f"{SQIRL.label} steps")
    step_ticks(axes.yaxis, RAIL)
    finish(axes)
    return figure


def bounds_figure(points: Sequence[TheoryPoint]) -> Figure:
    """Not in the paper: the steps that the algorithms as written need, against the bounds of the theorems."""
    figure = new_figure(6.0, 4.2)
    axes = figure.subplots()
    for name in dict.fromkeys(point.algorithm for point in points):
        mine, spec = [point for point in points if point.algorithm == name], algorithm(name)
        label = f"{spec.label} ({len(mine)} MDPs)"
        axes.scatter([p.bound for p in mine], [p.steps for p in mine], s=22, color=spec.colour, label=label)
    low = min(point.steps for point in points)
    draw_diagonal(axes, low, max(point.bound for point in points), "steps = bound")
    axes.set(xscale="log", yscale="log", xlabel="the theorem's bound, constant dropped", ylabel="steps needed")
    axes.set_ylim(low / 3, 10 * max(point.steps for point in points))
    finish(axes)
    return figure


def _learning_curves(runs: EnvironmentRuns, *, xscale: str) -> Figure:
    figure = new_figure()
    _draw_learning_curves(figure.subplots(), runs, xscale=xscale, title=runs.env_id)
    return figure


def _draw_learning_curves(axes: Axes, runs: EnvironmentRuns, *, xscale: str, title: str) -> None:
    """The whole curve of every algorithm: a run that goes on after its first solution is drawn to its end."""
    draw_levels(axes, runs.optimal, runs.random)
    for name, curve in runs.curves.items():
        spec = algorithm(name)
        size = 5 if len(curve.steps) == 1 else 2
        axes.plot(curve.steps, curve.median, color=spec.colour, label=spec.label, marker="o", markersize=size)
        axes.fill_between(curve.steps, curve.low, curve.high, color=spec.colour, alpha=0.15)
        if len(curve.steps) == 1:  # a range without a width is a line
            axes.vlines(curve.steps, curve.low, curve.high, color=spec.colour, alpha=0.5)
    axes.set(xscale=xscale, xlabel="steps", ylabel="return", title=title)
    axes.set(xlim=step_range(runs, log=xscale == "log"), ylim=return_range(runs))
    axes.title.set_fontsize(9)
    finish(axes)


def write_figures(data: ReportData, folder: Path) -> list[Path]:
    """Write all figures as PDF and as SVG; returns the files."""
    drawn = {
        f"{y.name}-{x.name}": figure_3_sample_complexities(data, y, x) for y, x in DRAWN_PAIRS
    } | {"min-k": figure_2_min_k(data), "theory": theory_figure(data), "effective-horizon": horizon_figure(data)}  # fmt: skip
    full_length = {runs.env_id for runs in data.full_length}
    for env, runs in data.runs.items():
        draw = figure_4_full_length_atari if env in full_length else figure_5_learning_curves
        drawn[f"curve-{safe_file_name(env.removeprefix('BRIDGE/'))}"] = draw(runs)
    written = []
    for name, figure in drawn.items():
        for suffix in (".pdf", ".svg"):
            save_figure(figure, folder / f"{name}{suffix}")
            written.append(folder / f"{name}{suffix}")
    return written
