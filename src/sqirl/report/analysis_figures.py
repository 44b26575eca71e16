"""Figures of one analysis: the return of greedy policies against k, and the state in which they fail. Not in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.result import Analysis
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import picture_after
from sqirl.report.style import ACCENT, UNSOLVED, draw_levels, finish, hide_frame, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Actions that are not chosen.
_LIGHT_GREY = "#c4c4c4"
#: Up to so many k, every one has a tick.
_MOST_TICKS = 12


def plot_greedy_returns(analysis: Analysis) -> Figure:
    """The return of acting greedily on Q^k against k, with the optimal and the random return as lines."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    k = np.arange(1, len(analysis.greedy_returns) + 1)
    returns, solvable = np.array(analysis.greedy_returns), np.array(analysis.solvable)
    draw_levels(axes, analysis.optimal_return, analysis.random_return)
    axes.plot(k, returns, color=ACCENT.light, zorder=2)
    axes.scatter(k[solvable], returns[solvable], color=ACCENT.light, zorder=3, label="optimal policy")
    if not solvable.all():
        axes.scatter(
            k[~solvable],
            returns[~solvable],
            facecolor="white",
            edgecolor=UNSOLVED.light,
            zorder=3,
            label="some greedy policy is not optimal",
        )
    if len(k) <= _MOST_TICKS:
        axes.set_xticks(k)
    axes.set(xlabel="k", ylabel="return of greedy on $Q^k$ (worst over ties)")
    axes.set_title(_headline(analysis), fontsize=10)
    finish(axes)
    return figure


def _headline(analysis: Analysis) -> str:
    min_k = f"min k {analysis.min_k}" if analysis.min_k else f"min k > {analysis.searched_k}"
    horizon = "" if analysis.effective_horizon is None else f", effective horizon {analysis.effective_horizon:.1f}"
    return f"{analysis.env_id}\n{min_k}{horizon}"


def plot_witness(analysis: Analysis, picture: NDArray[np.uint8]) -> Figure:
    """The state in which greedy on Q^k fails as a picture (H, W, 3), with Q^k and Q* of every action there.

    Bars show how far each action is below the best one. These differences can be small beside the values.
    """
    witness = analysis.witness
    assert witness is not None
    figure = new_figure(8.4, 3.8)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 1, 1])
    left.imshow(picture)
    left.set_axis_off()
    left.set_title(f"state {witness.state} after {witness.t} steps", fontsize=9)
    for axes, values, chosen, name in (
        (middle, witness.q, witness.greedy_actions, f"$Q^{{{witness.k}}}$, greedy in blue"),
        (right, witness.optimal_q, witness.optimal_actions, "$Q^*$, optimal in blue"),
    ):
        colours = [ACCENT.light if action in chosen else _LIGHT_GREY for action in range(len(values))]
        axes.bar(range(len(values)), np.array(values) - max(values), color=colours)
        axes.scatter(list(chosen), [0] * len(chosen), color=ACCENT.light, zorder=3, clip_on=False)
        axes.set_xticks(range(len(values)))
        axes.set(xlabel="action", ylabel="below the best")
        axes.set_title(f"{name} (best {max(values):.4g})", fontsize=9, pad=12)
        hide_frame(axes)
    figure.suptitle(f"{analysis.env_id}: why greedy on $Q^{{{witness.k}}}$ is not optimal", fontsize=10)
    return figure


def save_witness(mdp: TabularMDP, analysis: Analysis, path: Path) -> None:
    """Draw the state where greedy on Q^k goes wrong, as the live game shows it."""
    if analysis.witness is None:
        raise SqirlError(f"{analysis.env_id} is 1-QVI-solvable: there is no failure before min k to draw")
    save_figure(plot_witness(analysis, picture_after(mdp, analysis.witness.path)), path)
