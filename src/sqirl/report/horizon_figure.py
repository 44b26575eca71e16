"""The first figure: the effective horizon of an environment, and the steps that deep RL needs on it.

A panel for each algorithm, with the line of `sqirl.results.trend` and its interval. Below them: how well each property of an
environment goes with the steps, with 95 % intervals.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.envs.suites import OWN, SUITES
from sqirl.report.answer import answer_of
from sqirl.report.data import ReportData
from sqirl.report.marks import LEAST_STEPS, RAIL, Mark, horizon_marks, rail_height, value_range
from sqirl.report.predictors import DRAWN, Predictor, in_words
from sqirl.report.style import GREY, LINE_GREY, MARKERS, RAIL_GREY, hide_frame, new_figure, no_ticks, step_ticks
from sqirl.results.statistics import BUDGET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

TEXT = 8.5


def horizon_figure(data: ReportData) -> Figure:
    """The effective horizon against the steps of PPO, DQN and SQIRL; an environment is a mark."""
    from matplotlib.lines import Line2D

    figure = new_figure(9.4, 7.4)
    parts = figure.add_gridspec(2, 1, height_ratios=(3.9, 3.3), hspace=0.02)
    upper, lower = figure.add_subfigure(parts[0]), figure.add_subfigure(parts[1])
    answer = answer_of(data)
    title = "The effective horizon and the steps of deep RL" if answer is None else answer.sentence
    upper.suptitle(textwrap.fill(title, 100), fontsize=10)
    marks = {spec: horizon_marks(data, TOLERANCES[0], spec) for spec in DRAWN}
    ends = value_range([mark for found in marks.values() for mark in found])
    row = upper.subplots(1, len(DRAWN), sharey=True)
    for axes, spec in zip(row, DRAWN, strict=True):
        _draw_panel(axes, data, spec, marks[spec], ends)
        axes.set_xlabel(f"log A · {data.leading_horizon.label}", fontsize=TEXT)
        axes.set_title(spec.label, color=spec.colour, fontsize=12, fontweight="bold", pad=24)
    row[0].set_ylabel("steps to solve", fontsize=TEXT)
    _draw_legend(upper, [mark for found in marks.values() for mark in found])
    left, right = lower.subplots(1, 2, sharey=True)
    _draw_estimates(left, data.predictors, 0, "rank correlation with the steps (1: perfect order)", 0.0)
    _draw_estimates(right, data.predictors, 1, "AUC of “solved or not” (0.5: chance, 1: perfect)", 0.5)
    names = [Line2D([], [], marker="o", color=spec.colour, markersize=5, label=spec.label) for spec in DRAWN]
    lower.legend(handles=names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=8)
    return figure


def _draw_panel(
    axes: Axes, data: ReportData, spec: AlgorithmSpec, marks: Sequence[Mark], ends: tuple[float, float]
) -> None:
    axes.axhspan(*RAIL, color=RAIL_GREY, zorder=0)
    line = data.trends[TOLERANCES[0], spec.name]
    if line is not None:  # it ends where the rail begins
        steps, low, high = (np.array(values) for values in (line.steps, line.low, line.high))
        band = np.minimum(low, RAIL[0]), np.minimum(high, RAIL[0])
        axes.fill_between(line.x, *band, color=spec.colour, alpha=0.12, linewidth=0, zorder=1)
        axes.plot(line.x, np.where(steps < RAIL[0], steps, np.nan), color=spec.colour, linewidth=1.2, zorder=2)
    draw_marks(axes, marks, spec.colour)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(LEAST_STEPS, RAIL[1]))
    step_ticks(axes.yaxis, RAIL)
    _plain_ticks(axes, ends)
    correlation, area = data.leading_horizon.found[spec.label]
    found = f"rank correlation {in_words(correlation)}\nAUC {in_words(area)}"
    axes.text(0.5, 1.02, found, transform=axes.transAxes, ha="center", va="bottom", fontsize=7.5, color="#333333")
    hide_frame(axes)
    axes.tick_params(labelsize=8)


def draw_marks(axes: Axes, marks: Sequence[Mark], colour: str) -> None:
    """The paper's marks hollow, ours filled; a coordinate that is not known is on its rail. Neither known: not drawn."""
    shown = [mark for mark in marks if mark.x is not None or mark.y is not None]
    for ours, label in ((False, "the paper's runs"), (True, "ours")):
        mine = [mark for mark in shown if mark.ours is ours]
        for suite, marker in MARKERS.items():
            chosen = [mark for mark in mine if mark.suite == suite]
            if not chosen:
                continue
            xs = [rail_height(mark.lane) if mark.x is None else mark.x for mark in chosen]
            ys = [rail_height(mark.lane) if mark.y is None else mark.y for mark in chosen]
            look: dict[str, Any] = {"color": colour} if ours else {"facecolors": "none", "edgecolors": colour}
            axes.scatter(
                xs, ys, marker=marker, s=20, linewidths=1.0, alpha=0.8, zorder=4 if ours else 3, label=label, **look
            )
            label = "_nolegend_"  # one entry for all suites


def _plain_ticks(axes: Axes, ends: tuple[float, float]) -> None:
    shown = [m * 10**e for e in range(4) for m in (1, 2, 5) if ends[0] <= m * 10**e <= ends[1]]
    axes.set_xticks(shown, [str(mark) for mark in shown])
    axes.xaxis.set_minor_locator(no_ticks())


def _draw_legend(figure: SubFigure, marks: Sequence[Mark]) -> None:
    """The markers of the suites, and what hollow ones mean."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": LINE_GREY, "linestyle": "", "markersize": 5}
    labels = {name: suite.label for name, suite in (*SUITES.items(), (OWN.name, OWN))}
    used = {mark.suite for mark in marks} | SUITES.keys()
    shown = [
        Line2D([], [], marker=MARKERS[name], label=label, **look) for name, label in labels.items() if name in used
    ]
    shown.append(Line2D([], [], marker="o", label="filled: our runs", **look))
    shown.append(Line2D([], [], marker="o", markerfacecolor="none", label="hollow: the paper's runs", **look))
    rail = f"grey band: not solved within {BUDGET:,} steps"
    shown.append(Line2D([], [], marker="s", color=RAIL_GREY, linestyle="", markersize=7, label=rail))
    figure.legend(
        handles=shown, loc="outside lower center", ncols=len(shown), frameon=False, fontsize=7.5, handletextpad=0.1,
        columnspacing=1.0,
    )  # fmt: skip


def _draw_estimates(axes: Axes, found: Sequence[Predictor], which: int, title: str, chance: float) -> None:
    """A line for each property, and on it the estimate and the interval of each algorithm."""
    for line, predictor in enumerate(found):
        for place, spec in enumerate(DRAWN):
            estimate = predictor.found[spec.label][which]
            if estimate is not None:
                y = line + 0.24 * (place - 1)
                axes.plot([estimate.low, estimate.high], [y, y], color=spec.colour, linewidth=1.4, alpha=0.55)
                axes.plot(estimate.value, y, "o", color=spec.colour, markersize=5)
    axes.axvline(chance, color=LINE_GREY, linewidth=0.7, linestyle=":")
    axes.set_yticks(range(len(found)), [predictor.label for predictor in found], fontsize=TEXT)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlim(max(chance - 0.06, 0.0), 1.02)
    horizons = sum(predictor.tolerance is not None for predictor in found)
    axes.axhline(horizons - 0.5, color=GREY, linewidth=0.6)
    axes.set_title(title, fontsize=TEXT)
    axes.tick_params(axis="x", labelsize=8)
    hide_frame(axes)
