"""Figures of one analysis: the return of greedy policies against k, and the state in which they fail. Not in the paper."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.result import Analysis
from sqirl.envs.actions import action_names
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game
from sqirl.report.pictures import witness_picture
from sqirl.report.style import ACCENT, UNSOLVED, draw_levels, finish, hide_frame, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Actions that are not chosen.
_LIGHT_GREY = "#c4c4c4"
#: Up to so many k, every one has a tick.
_MOST_TICKS = 12
#: Beyond so many k, points are small.
_MANY_K = 40
#: Letters of a title's line, and of all action names that fit beside each other.
_TITLE_WIDTH, _LETTERS = 90, 26
#: Losses that differ by more than this factor have a logarithmic axis.
_ORDERS = 30


def plot_greedy_returns(analysis: Analysis) -> Figure:
    """The return of acting greedily on Q^k against k, with the optimal and the random return as lines."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    k = np.arange(1, len(analysis.greedy_returns) + 1)
    returns, solvable = np.array(analysis.greedy_returns), np.array(analysis.solvable)
    draw_levels(axes, analysis.optimal_return, analysis.random_return)
    size = 36 if len(k) <= _MANY_K else 7
    axes.plot(k, returns, color=ACCENT.light, zorder=2, linewidth=1)
    axes.scatter(k[solvable], returns[solvable], s=size, color=ACCENT.light, zorder=3, label="optimal policy")
    if not solvable.all():
        axes.scatter(
            k[~solvable],
            returns[~solvable],
            s=size,
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
    return f"{textwrap.fill(analysis.env_id, 60)}\n{min_k}{horizon}"


def plot_witness(
    analysis: Analysis, picture: NDArray[np.uint8] | None, *, action_names: Sequence[str] | None = None
) -> Figure:
    """The state in which greedy on Q^k fails as a picture (H, W, 3), with Q^k and Q* of every action there.

    Bars show how much each action loses to the best one. If losses differ by orders of magnitude, their axis is logarithmic.
    """
    witness = analysis.witness
    assert witness is not None
    names = list(action_names or map(str, range(len(witness.q))))
    figure = new_figure(9.6, 3.8)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 1, 1])
    if picture is not None:
        left.imshow(picture)
    else:
        left.text(
            0.5,
            0.5,
            "no picture: the env draws none,\nor its state cannot be reached again",
            ha="center",
            va="center",
            fontsize=9,
        )
    left.set_axis_off()
    left.set_title(f"state {witness.state} after {witness.t} step{'s' * (witness.t != 1)}", fontsize=9)
    for axes, values, chosen, title in (
        (middle, witness.q, witness.greedy_actions, f"$Q^{{{witness.k}}}$: greedy in blue"),
        (right, witness.optimal_q, witness.optimal_actions, "$Q^*$: optimal in blue"),
    ):
        _draw_losses(axes, max(values) - np.array(values), chosen, names)
        axes.set_title(f"{title}\n(best {max(values):.4g})", fontsize=9)
    title = f"{analysis.env_id}: why greedy on Q^{witness.k} is not optimal"
    figure.suptitle(textwrap.fill(title, _TITLE_WIDTH), fontsize=10)
    return figure


def _draw_losses(axes: Axes, losses: NDArray[np.float64], chosen: Sequence[int], names: Sequence[str]) -> None:
    """Bars of the losses (A,), and a dot for each chosen action, which loses nothing."""
    places = range(len(losses))
    colours = [ACCENT.light if action in chosen else _LIGHT_GREY for action in places]
    axes.bar(places, losses, color=colours)
    axes.scatter(list(chosen), [0] * len(chosen), color=ACCENT.light, zorder=3, clip_on=False)
    least = min((float(loss) for loss in losses if loss > 0), default=0.0)
    if least and losses.max() / least > _ORDERS:
        axes.set_yscale("symlog", linthresh=least)
    axes.set_ylim(bottom=0)
    long = max(map(len, names)) * len(names) > _LETTERS
    axes.set_xticks(places, names, rotation=90 if long else 0, fontsize=7 if long else 9)
    axes.set(xlabel="action", ylabel="loss against the best")
    hide_frame(axes)


def witness_figure(mdp: TabularMDP, analysis: Analysis) -> Figure | None:
    """The state where greedy on Q^k goes wrong, as the live game shows it; None if there is none."""
    if analysis.witness is None:
        return None
    try:
        names = action_names(live_game(mdp))
    except SqirlError:
        names = None
    return plot_witness(analysis, witness_picture(mdp, analysis.witness), action_names=names)


def save_witness(mdp: TabularMDP, analysis: Analysis, path: Path) -> str | None:
    """Draw the state where greedy on Q^k goes wrong into a file; returns why, if there is nothing to draw."""
    figure = witness_figure(mdp, analysis)
    if figure is None:
        return f"{analysis.env_id} is 1-QVI-solvable: there is no failure to draw, so '{path}' is not written"
    save_figure(figure, path)
    return None
