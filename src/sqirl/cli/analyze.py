"""`sqirl analyze`: the exact analysis of an env or of an MDP file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    tolerance: Annotated[
        float, typer.Option(help="The share of its gain on random play that a policy may lose, for the first line.")
    ] = 0.1,
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
    from sqirl.analysis.analyze_env import analyze_and_open
    from sqirl.cli.progress import build_display
    from sqirl.report.analysis_figures import plot_greedy_returns, save_witness
    from sqirl.report.style import check_figure_path, save_figure

    for figure in (plot, picture):
        if figure is not None:
            check_figure_path(figure)
    with build_display(env) as progress:
        analysis, mdp = analyze_and_open(
            env, sticky=sticky, horizon=horizon, max_k=max_k, search_k=search_k, discount=discount, tolerance=tolerance,
            max_states=max_states, progress=progress, with_mdp=picture is not None,
        )  # fmt: skip
    print(analysis.to_json() if as_json else analysis)
    if plot is not None:
        save_figure(plot_greedy_returns(analysis), plot)
    if picture is not None and mdp is not None:
        save_witness(mdp, analysis, picture)
