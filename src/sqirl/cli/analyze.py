"""`sqirl analyze`: the exact analysis of an env or of an MDP file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import ENV_HELP, Draws, EnvKwargs, Hold, Starts, env_name, path_option


def command(
    env: Annotated[str, typer.Argument(help=ENV_HELP)],
    env_kwargs: EnvKwargs = None,
    hold: Hold = None,
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
    epsilon: Annotated[
        float, typer.Option(help="ε of the bounds: the loss, as a share of the range of returns.")
    ] = 0.05,
    delta: Annotated[
        float, typer.Option(help="δ of the bounds: the probability that an algorithm may fail with.")
    ] = 0.05,
    feature_dimension: Annotated[
        float | None, typer.Option("-d", "--dimension", help="d of linear Q-functions w·φ(s, a), for a bound on them.")
    ] = None,
    pseudo_dimension: Annotated[
        float | None, typer.Option(help="Pseudo-dimension of another class of Q-functions, for a bound on it.")
    ] = None,
    authors: Annotated[
        bool,
        typer.Option(
            "--authors-min-k", help="Also min k as the paper's authors compute it: float ties, losses below 1e-4."
        ),
    ] = False,
    max_states: Annotated[
        int, typer.Option(help="If the env must be built: stop beyond this many states.", min=1)
    ] = 1_000_000,
    memory: Annotated[
        float | None, typer.Option(help="GB that the analysis may take (default: most of what is free).", min=0.001)
    ] = None,
    starts: Starts = None,
    draws: Draws = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plot: Annotated[
        Path | None, path_option(help="Draw greedy return against k into this file (.png, .svg, .pdf).")
    ] = None,
    picture: Annotated[Path | None, path_option(help="Draw the state where greedy on Q^k goes wrong (.png).")] = None,
    policy_map: Annotated[
        Path | None, path_option(help="Of a grid: draw greedy on Q^k beside optimal actions, as arrows.")
    ] = None,
) -> None:
    """Why and when RL works on an MDP: k-QVI-solvability, gaps, effective horizon, bounds, and a witness of failure."""
    from sqirl.analysis.analyze_env import analyze_and_open
    from sqirl.analysis.authors_min_k import authors_min_k
    from sqirl.analysis.bounds import BoundTerms
    from sqirl.cli.progress import analysis_display
    from sqirl.report.analysis_figures import plot_greedy_returns, save_witness
    from sqirl.report.analysis_summary import summarize
    from sqirl.report.policy_map import save_policy_map
    from sqirl.report.style import check_figure_path, save_figure
    from sqirl.runtime.compiling import announce_compiling

    terms = BoundTerms(epsilon, delta, feature_dimension, pseudo_dimension)
    for figure in (plot, picture, policy_map):
        if figure is not None:
            check_figure_path(figure)
    announce_compiling()
    env = env_name(env, env_kwargs, hold)
    with analysis_display(env) as (progress, on_analysis):
        analysis, mdp = analyze_and_open(
            env, sticky=sticky, horizon=horizon, max_k=max_k, search_k=search_k, discount=discount, tolerance=tolerance,
            max_states=max_states, progress=progress, with_mdp=authors or bool(picture or policy_map), starts=starts,
            draws=draws, memory=None if memory is None else memory * 1e9, on_analysis=on_analysis,
        )  # fmt: skip
    theirs = authors_min_k(mdp, horizon=analysis.horizon) if authors and mdp is not None else None
    summary = summarize(analysis, terms, theirs)
    print(summary.to_json() if as_json else summary)
    if plot is not None:
        save_figure(plot_greedy_returns(analysis), plot)
    for path, draw in ((picture, save_witness), (policy_map, save_policy_map)):
        nothing = draw(mdp, analysis, path) if path is not None and mdp is not None else None
        if nothing is not None:
            print(f"sqirl: {nothing}", file=sys.stderr)
