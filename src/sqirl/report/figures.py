"""The paper's figures with our results added, and two figures of our own; `sqirl report --figures` writes them.

Figure 1 is a drawing of the algorithms and is not made here. Figures 2 to 5 have one function each, with its number in its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqirl.algorithms.registry import PPO, SQIRL, algorithm
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.experiments.theory import TheoryPoint
from sqirl.report.data import DRAWN_PAIRS, EnvironmentRuns, ReportData, ScatterPoint
from sqirl.report.style import GREY, SOLVED, UNSOLVED, draw_diagonal, draw_levels, finish, new_figure, save_figure
from sqirl.runtime.files import safe_file_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure_2_min_k(data: ReportData) -> Figure:
    """Figure 2 of the paper: how many environments are approximately solved with each k, by whether PPO solves them.

    A bar for each k: the enumerated environments in which this is the least k that has 95 % of the optimal return. Ours has
    the environments that we enumerated; PPO's results are the paper's. The page adds the same for exactly optimal returns.
    """
    figure = new_figure()
    axes = figure.subplots()
    groups = data.least_k(lambda row: row.approx_min_k)
    solved, unsolved = [len(group.solved) for group in groups], [len(group.unsolved) for group in groups]
    axes.bar(range(len(groups)), solved, color=SOLVED.light, label=f"{PPO.label} solves")
    axes.bar(range(len(groups)), unsolved, bottom=solved, color=UNSOLVED.light, label=f"{PPO.label} does not")
    axes.set_xticks(range(len(groups)), ["more" if group.k is None else str(group.k) for group in groups])
    axes.set(xlabel="k for 95 % of the optimal return", ylabel="environments")
    finish(axes)
    return figure


def figure_3_sample_complexities(data: ReportData, y: AlgorithmSpec, x: AlgorithmSpec) -> Figure:
    """Figure 3 of the paper: the sample complexity of SQIRL (y) against that of PPO or DQN (x), a point per environment.

    The paper's points are grey. Ours are added in colour.
    """
    figure = new_figure()
    axes = figure.subplots()
    _scatter(axes, data.sample_complexities(y, x), y)
    draw_diagonal(axes, 7e3, 6e6)
    axes.set(xscale="log", yscale="log", xlabel=f"{x.label} steps", ylabel=f"{y.label} steps")
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
    """Not in the paper: SQIRL's sample complexity against the effective horizon, and against the theorem's bound."""
    figure = new_figure(8.0)
    left, right = figure.subplots(1, 2)
    _scatter(left, data.steps_of_sqirl_against(lambda row: row.effective_horizon), SQIRL)
    _scatter(right, data.steps_of_sqirl_against(lambda row: row.bound), SQIRL)
    left.set(yscale="log", xlabel="effective horizon", ylabel=f"{SQIRL.label} steps")
    right.set(xscale="log", yscale="log", xlabel="bound in steps, constants dropped", ylabel=f"{SQIRL.label} steps")
    for axes in (left, right):
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


def _scatter(axes: Axes, points: Sequence[ScatterPoint], spec: AlgorithmSpec) -> None:
    """The paper's points in grey below ours in the algorithm's colour."""
    for ours, colour, label in ((False, GREY, "paper"), (True, spec.colour, "ours")):
        mine = [point for point in points if point.ours is ours]
        shown = f"{label} ({len(mine)})"
        axes.scatter([p.x for p in mine], [p.y for p in mine], s=14, color=colour, alpha=0.7, label=shown)


def _learning_curves(runs: EnvironmentRuns, *, xscale: str) -> Figure:
    figure = new_figure()
    _draw_learning_curves(figure.subplots(), runs, xscale=xscale, title=runs.env_id)
    return figure


def _draw_learning_curves(axes: Axes, runs: EnvironmentRuns, *, xscale: str, title: str) -> None:
    """The whole curve of every algorithm: a run that goes on after its first solution is drawn to its end."""
    draw_levels(axes, runs.optimal, runs.random)
    for name, curve in runs.curves.items():
        spec = algorithm(name)
        axes.plot(curve.steps, curve.median, color=spec.colour, label=spec.label, marker="o", markersize=2)
        axes.fill_between(curve.steps, curve.low, curve.high, color=spec.colour, alpha=0.15)
    axes.set(xscale=xscale, xlabel="steps", ylabel="return", title=title)
    axes.title.set_fontsize(9)
    finish(axes)


def write_figures(data: ReportData, folder: Path) -> list[Path]:
    """Write all figures as PDF and as SVG; returns the files."""
    drawn = {
        f"{y.name}-{x.name}": figure_3_sample_complexities(data, y, x) for y, x in DRAWN_PAIRS
    } | {"min-k": figure_2_min_k(data), "theory": theory_figure(data)}  # fmt: skip
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
