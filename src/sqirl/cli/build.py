"""`sqirl build`: enumerate live games into MDP files."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import Cluster, Jobs


class Merge(StrEnum):
    auto = "auto"
    none = "none"
    screen = "screen"
    reward = "reward"


def command(
    env: Annotated[
        list[str], typer.Argument(help="Ids, names of games (all their rows), or module:Class of your own envs.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A file, or a folder for several (default: your MDP store).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode (default: the env's own).")] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    max_states: Annotated[int, typer.Option(help="Stop beyond this many states.", min=1)] = 1_000_000,
    time_limit: Annotated[float | None, typer.Option(help="Stop after so many seconds.", min=0)] = None,
    merge: Annotated[
        Merge, typer.Option(help="Merge states that look and act alike (screen), or act alike (reward).")
    ] = Merge.auto,
    screens: Annotated[bool, typer.Option(help="Keep the pictures of the states, where they are small.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each env.")] = False,
) -> None:
    """Enumerate games, breadth first, into exact MDPs.

    If a build was stopped, run the same command again to continue. One that a limit stopped is saved as a partial MDP (exit
    code 1).
    """
    from sqirl.cli.progress import build_display
    from sqirl.mdp.build_files import build_files

    partial = False
    for built in build_files(
        env, out=out, horizon=horizon, jobs=jobs, cluster=cluster, max_states=max_states, time_limit=time_limit,
        merge=merge.value, screens=screens, display=build_display,
    ):  # fmt: skip
        print(json.dumps(built.to_dict()) if as_json else built)
        partial |= built.mdp.is_partial
        if built.mdp.is_partial:
            print(
                f"sqirl: {built.env_id} is partial: a limit stopped it after {built.mdp.depth} of {built.mdp.horizon} steps; "
                "run the same command again with a higher --max-states or --time-limit to continue, or take a lower --horizon",
                file=sys.stderr,
            )
    if partial:
        raise typer.Exit(1)
