"""`sqirl whatif`: how the answer moves with the horizon, the frame skip, sticky actions, actions, exploration and shaping."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import ENV_HELP, EnvKwargs, env_name, path_option


def command(
    env: Annotated[str, typer.Argument(help=ENV_HELP)],
    env_kwargs: EnvKwargs = None,
    horizon: Annotated[str, typer.Option(help="Steps of an episode: 20,50,100.")] = "",
    sticky: Annotated[str, typer.Option(help="Probabilities of sticky actions: 0,0.25.")] = "",
    frame_skip: Annotated[str, typer.Option(help="Steps for which an action is held: 1,2,4.")] = "",
    discount: Annotated[str, typer.Option(help="Discount factors: 0.99,1.")] = "",
    actions: Annotated[str, typer.Option(help="Actions that remain: all,0-3 or 0+2+5.")] = "",
    exploration: Annotated[
        str, typer.Option(help="uniform, or files with probabilities of actions (.npy, .json), separated by commas.")
    ] = "",
    shape: Annotated[
        list[str] | None,
        typer.Option(help="module:function; it takes the MDP and returns the potential of each state."),
    ] = None,
    max_states: Annotated[
        int, typer.Option(help="If the env must be built: stop beyond this many states.", min=1)
    ] = 1_000_000,
    time_limit: Annotated[
        float, typer.Option(help="If the env must be built: stop after so many seconds.", min=0.1)
    ] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plot: Annotated[Path | None, path_option(help="Draw the table into this file (.png, .svg, .pdf).")] = None,
) -> None:
    """Change one thing at a time and compute the exact analysis again: H̄_ε, k, optimal return, predicted steps."""
    from sqirl.cli.progress import build_display
    from sqirl.diagnosis.requests import parse_request
    from sqirl.diagnosis.whatif import whatif, whole_mdp
    from sqirl.diagnosis.whatif_figure import plot_changes
    from sqirl.envs.description import describe
    from sqirl.report.style import check_figure_path, save_figure
    from sqirl.runtime.compiling import announce_compiling

    announce_compiling()
    env = env_name(env, env_kwargs)
    if plot is not None:
        check_figure_path(plot)
    request = parse_request(
        horizon=horizon, sticky=sticky, frame_skip=frame_skip, discount=discount, actions=actions, exploration=exploration,
        shape=shape or [],
    )  # fmt: skip
    with build_display(env) as progress, redirect_stdout(sys.stderr):
        mdp = whole_mdp(env, horizon=request.longest, max_states=max_states, time_limit=time_limit, progress=progress)
        found = whatif(mdp, **request.changes, own_horizon=describe(env).horizon)
    print(found.to_json() if as_json else found)
    if plot is not None:
        save_figure(plot_changes(found), plot)
