"""Figures of one analysis; each function returns a matplotlib figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sqirl.analysis.result import Analysis
from sqirl.errors import SqirlError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#2f6fb0", "#d9822b", "#7a7a7a"


def plot_greedy_returns(analysis: Analysis) -> Figure:
    """The return of acting greedily on Q^k against k, with the optimal and the random return as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    k = np.arange(1, len(analysis.greedy_returns) + 1)
    axes.axhline(analysis.optimal_return, color=_GREY, linestyle="--", label=f"optimal {analysis.optimal_return:.4g}")
    axes.axhline(analysis.random_return, color=_GREY, linestyle=":", label=f"random {analysis.random_return:.4g}")
    axes.plot(k, analysis.greedy_returns, color=_BLUE, zorder=2)
    solvable = np.array(analysis.solvable)
    returns = np.array(analysis.greedy_returns)
    axes.scatter(k[solvable], returns[solvable], color=_BLUE, zorder=3, label="optimal policy")
    if not solvable.all():
        axes.scatter(
            k[~solvable],
            returns[~solvable],
            facecolor="white",
            edgecolor=_ORANGE,
            zorder=3,
            label="some greedy policy is not optimal",
        )
    if len(k) <= 12:
        axes.set_xticks(k)
    axes.set_xlabel("k")
    axes.set_ylabel("return of greedy on $Q^k$ (worst over ties)")
    axes.set_title(_headline(analysis), fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _headline(analysis: Analysis) -> str:
    min_k = f"min k {analysis.min_k}" if analysis.min_k else f"min k > {analysis.searched_k}"
    horizon = "" if analysis.effective_horizon is None else f", effective horizon {analysis.effective_horizon:.1f}"
    return f"{analysis.env_id}\n{min_k}{horizon}"


def plot_witness(analysis: Analysis, picture: np.ndarray) -> Figure:
    """The state where greedy on Q^k goes wrong, beside Q^k and Q* of every action there."""
    from matplotlib.figure import Figure

    witness = analysis.witness
    assert witness is not None
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 1, 1])
    left.imshow(picture)
    left.set_axis_off()
    left.set_title(f"state {witness.state} after {witness.t} steps", fontsize=9)
    for axes, values, chosen, name in (
        (middle, witness.q, witness.greedy_actions, f"$Q^{{{witness.k}}}$, greedy in blue"),
        (right, witness.optimal_q, witness.optimal_actions, "$Q^*$, optimal in blue"),
    ):
        # Below the best action: the differences are the point, however small beside the values
        short = np.array(values) - max(values)
        colours = [_BLUE if action in chosen else "#c4c4c4" for action in range(len(values))]
        axes.bar(range(len(values)), short, color=colours)
        axes.scatter(list(chosen), [0] * len(chosen), color=_BLUE, zorder=3, clip_on=False)
        axes.set_xticks(range(len(values)))
        axes.set_xlabel("action")
        axes.set_ylabel("below the best")
        axes.set_title(f"{name} (best {max(values):.4g})", fontsize=9, pad=12)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{analysis.env_id}: why greedy on $Q^{{{witness.k}}}$ is not optimal", fontsize=10)
    return figure


def check_figure_path(path: Path) -> None:
    """Refuse an ending that is no picture format, before any work is done."""
    formats = (".png", ".svg", ".pdf")
    if path.suffix not in formats:
        raise SqirlError(f"'{path}' ends in '{path.suffix}'; figures are written as {', '.join(formats)}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format that the file's ending names."""
    check_figure_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=144)
