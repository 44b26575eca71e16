"""`sqirl analyze`: the exact analysis of an env or of an MDP file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqirl.analysis.result import Analysis
    from sqirl.mdp.tabular import TabularMDP


def command(
    env: Annotated[str, typer.Argument(help="An environment id, an .npz file, or module:Class.", metavar="ENV|FILE")],
    sticky: Annotated[
        float | None, typer.Option(help="Probability of sticky actions (default: what the id says).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode (default: the env's own).")] = None,
    max_k: Annotated[int, typer.Option(help="Look at Q^1..Q^K at least.")] = 5,
    search_k: Annotated[
        int | None, typer.Option(help="Give up the search for min k beyond this k (default: never).", min=1)
    ] = None,
    discount: Annotated[float, typer.Option(help="Discount factor.")] = 1.0,
    max_states: Annotated[
        int, typer.Option(help="If the env must be built: stop beyond this many states.")
    ] = 1_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw greedy return against k into this file (.png, .svg, .pdf).")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the state where greedy on Q^k goes wrong (.png).")] = None,
) -> None:
    """Why and when RL works on an MDP: k-QVI-solvability, gaps, effective horizon, bounds, and a witness of failure."""
    from sqirl.report.plots import check_figure_path

    for figure in (plot, picture):
        if figure is not None:
            check_figure_path(figure)
    defaults = sticky is None and horizon is None and max_k == 5 and search_k is None and discount == 1.0
    analysis = _archived(env) if defaults else None
    mdp = None
    if analysis is None:
        from sqirl.analysis.analyze import analyze

        mdp = _open(env, sticky, horizon, max_states)
        analysis = analyze(mdp, horizon=horizon, max_k=max_k, search_k=search_k, discount=discount)
    print(analysis.to_json() if as_json else analysis)
    if plot is not None:
        from sqirl.report.plots import plot_greedy_returns, save_figure

        save_figure(plot_greedy_returns(analysis), plot)
    if picture is not None:
        _draw_witness(mdp or _open(env, sticky, horizon, max_states), analysis, picture)


def _archived(env: str) -> Analysis | None:
    from sqirl.analysis.archive import archived_analyses

    return archived_analyses().get(env)


def _open(env: str, sticky: float | None, horizon: int | None, max_states: int) -> TabularMDP:
    from sqirl.cli.progress import build_display
    from sqirl.mdp.store import open_mdp

    with build_display(env) as progress:
        mdp = open_mdp(env, horizon=horizon, max_states=max_states, progress=progress)
    return mdp if sticky is None else mdp.sticky(sticky)


def _draw_witness(mdp: TabularMDP, analysis: Analysis, path: Path) -> None:
    from sqirl.errors import SqirlError
    from sqirl.mdp.trace import picture_after
    from sqirl.report.plots import plot_witness, save_figure

    if analysis.witness is None:
        raise SqirlError(f"{analysis.env_id} is 1-QVI-solvable: there is no failure before min k to draw")
    save_figure(plot_witness(analysis, picture_after(mdp, analysis.witness.path)), path)
