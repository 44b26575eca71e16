"""The report's figures with matplotlib, for papers: PDF and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sqirl.analysis.archive import archived_analyses
from sqirl.envs.ids import is_full_atari
from sqirl.report.curves import COLOURS, draw_levels
from sqirl.report.plots import save_figure
from sqirl.results.frame import Outcome, our_tables, outcomes, paper_tables
from sqirl.results.records import ALGORITHMS, RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GREY = "#9a9a9a"


def _figure(width: float = 4.2, height: float = 3.6) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plot_algorithms(records: Sequence[RunRecord], other: str) -> Figure:
    """SQIRL's sample complexity against another algorithm's, ours over the paper's."""
    figure = _figure()
    axes = figure.subplots()
    for tables, colour, label in (
        (paper_tables(), _GREY, "paper"),
        (our_tables(outcomes(records)), COLOURS["sqirl"], "ours"),
    ):
        pairs = [(tables[other].get(env), steps) for env, steps in tables["sqirl"].items()]
        solved = np.array([(x, y) for x, y in pairs if x is not None and y is not None], float).reshape(-1, 2)
        axes.scatter(solved[:, 0], solved[:, 1], s=14, color=colour, alpha=0.7, label=f"{label} ({len(solved)})")
    axes.plot([7e3, 6e6], [7e3, 6e6], color=_GREY, linestyle="--", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel=f"{other.upper()} steps", ylabel="SQIRL steps")
    axes.legend(frameon=False, fontsize=8)
    return figure


def plot_min_k() -> Figure:
    """How many environments reach 95 % of the optimal return with each k, by whether the paper's PPO solves them."""
    figure = _figure()
    axes = figure.subplots()
    analyses = archived_analyses()
    by_ppo = paper_tables()["ppo"]
    rows = [(analyses[env].approx_min_k, steps is not None) for env, steps in by_ppo.items() if env in analyses]
    ks = sorted({k for k, _ in rows if k is not None})
    solved = [sum(k == other and ppo for other, ppo in rows) for k in ks]
    unsolved = [sum(k == other and not ppo for other, ppo in rows) for k in ks]
    axes.bar(range(len(ks)), solved, color=COLOURS["dqn"], label="PPO solves")
    axes.bar(range(len(ks)), unsolved, bottom=solved, color=COLOURS["ppo"], label="PPO does not")
    axes.set_xticks(range(len(ks)), [str(k) for k in ks])
    axes.set(xlabel="k for 95 % of the optimal return", ylabel="environments")
    axes.legend(frameon=False, fontsize=8)
    return figure


def plot_theory(records: Sequence[RunRecord]) -> Figure:
    """SQIRL's sample complexity against the effective horizon, and against the theorem's bound."""
    figure = _figure(8.0)
    left, right = figure.subplots(1, 2)
    ours, paper, analyses = our_tables(outcomes(records))["sqirl"], paper_tables()["sqirl"], archived_analyses()
    for table, colour, label in ((paper, _GREY, "paper"), (ours, COLOURS["sqirl"], "ours")):
        known = [(analyses[env], steps) for env, steps in table.items() if env in analyses and steps is not None]
        horizons = [(a.effective_horizon, steps) for a, steps in known if a.effective_horizon is not None]
        bounds = [
            (a.bounds.sqirl, steps) for a, steps in known if a.bounds and a.bounds.sqirl and np.isfinite(a.bounds.sqirl)
        ]
        for axes, points in ((left, horizons), (right, bounds)):
            if points:
                axes.scatter(*zip(*points, strict=True), s=14, color=colour, alpha=0.7, label=label)
    left.set(yscale="log", xlabel="effective horizon", ylabel="SQIRL steps")
    right.set(xscale="log", yscale="log", xlabel="bound in steps, constants dropped", ylabel="SQIRL steps")
    left.legend(frameon=False, fontsize=8)
    return figure


def plot_env_curves(env: str, found: dict[tuple[str, str], Outcome]) -> Figure:
    """Learning curves of every algorithm on one environment: median and range over seeds."""
    figure = _figure()
    axes = figure.subplots()
    mine = [(name, found[env, name]) for name in ALGORITHMS if (env, name) in found]
    first = mine[0][1].records[0]
    draw_levels(axes, first.optimal_return, first.random_return)
    for name, outcome in mine:
        curves = [{record.due(i): point.mean for i, point in enumerate(record.curve)} for record in outcome.records]
        grid = np.array(sorted({steps for curve in curves for steps in curve}))
        values = np.array([np.interp(grid, list(curve), list(curve.values())) for curve in curves if curve])
        axes.plot(grid, np.median(values, axis=0), color=COLOURS[name], label=name, marker="o", markersize=2)
        axes.fill_between(grid, values.min(axis=0), values.max(axis=0), color=COLOURS[name], alpha=0.15)
    axes.set(xscale="linear" if is_full_atari(env) else "log", xlabel="steps", ylabel="return", title=env)
    axes.title.set_fontsize(9)
    axes.legend(frameon=False, fontsize=8)
    return figure


def write_figures(records: Sequence[RunRecord], folder: Path) -> list[Path]:
    """All figures, each as PDF and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    found = outcomes(records)
    drawn = {"sqirl-ppo": plot_algorithms(records, "ppo"), "sqirl-dqn": plot_algorithms(records, "dqn"),
             "min-k": plot_min_k(), "theory": plot_theory(records)}  # fmt: skip
    for env in sorted({env for env, _ in found}):
        drawn["curve-" + env.removeprefix("BRIDGE/").replace("/", "_")] = plot_env_curves(env, found)
    written = []
    for name, figure in drawn.items():
        for suffix in (".pdf", ".svg"):
            save_figure(figure, folder / f"{name}{suffix}")
            written.append(folder / f"{name}{suffix}")
    return written
