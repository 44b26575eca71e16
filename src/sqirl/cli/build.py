"""`sqirl build`: enumerate live games into MDP files."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import Cluster, Draws, EnvKwargs, Hold, Jobs, Starts, env_name, path_option
from sqirl.errors import SqirlError


class Merge(StrEnum):
    auto = "auto"
    none = "none"
    screen = "screen"
    reward = "reward"


def command(
    env: Annotated[
        list[str], typer.Argument(help="Ids, names of games (all their rows), or module:Class of your own envs.")
    ],
    env_kwargs: EnvKwargs = None,
    hold: Hold = None,
    out: Annotated[
        Path | None, path_option("-o", "--out", help="A file, or a folder for several (default: your MDP store).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode (default: the env's own).")] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    max_states: Annotated[int, typer.Option(help="Stop beyond this many states.", min=1)] = 1_000_000,
    time_limit: Annotated[float | None, typer.Option(help="Stop after so many seconds.", min=0)] = None,
    starts: Starts = None,
    draws: Draws = None,
    merge: Annotated[
        Merge, typer.Option(help="Merge states that look and act alike (screen), or act alike (reward).")
    ] = Merge.auto,
    screens: Annotated[bool, typer.Option(help="Keep the pictures of the states, where they are small.")] = True,
    source: Annotated[
        Path | None, path_option("--from", help="Go on from this packed build, or from the folder of a journal.")
    ] = None,
    pack: Annotated[
        Path | None, path_option(help="Do not build: write the unfinished build of ENV to this .tar file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each env.")] = False,
) -> None:
    """Enumerate games, breadth first, into exact MDPs.

    If a build was stopped, run the same command again to continue. One that a limit stopped is saved as a partial MDP (exit
    code 1). To continue on another machine: `sqirl build ENV --pack FILE.tar` here, which also says how many hours are left, and
    `sqirl build ENV --from FILE.tar` there. A file with an MDP of the same env and of more steps is never replaced.
    """
    from sqirl.cli.progress import build_display
    from sqirl.mdp.build_files import build_files
    from sqirl.mdp.handover import pack_build, take_over

    names, incomplete = [env_name(name, env_kwargs, hold) for name in env], False
    if (source or pack) and len(names) != 1:
        raise SqirlError(f"--pack and --from are for one build, but {len(names)} envs were named; name one")
    if pack is not None:
        packed = pack_build(names[0], pack, horizon=horizon)
        print(json.dumps(packed.to_dict()) if as_json else packed)
        return
    if source is not None:
        print(f"sqirl: goes on from {take_over(names[0], source, horizon=horizon, starts=starts)}", file=sys.stderr)
    for built in build_files(
        names, out=out, horizon=horizon, jobs=jobs, cluster=cluster, max_states=max_states, time_limit=time_limit,
        merge=merge.value, starts=starts, draws=draws, screens=screens, display=build_display,
    ):  # fmt: skip
        print(json.dumps(built.to_dict()) if as_json else built)
        incomplete |= not built.covers_what_was_asked
        if built.smaller is None and built.mdp.is_partial:
            print(
                f"sqirl: {built.env_id} is partial: a limit stopped it after {built.mdp.depth} of {built.mdp.horizon} steps; "
                "run the same command again with a higher --max-states or --time-limit to continue, or take a lower --horizon",
                file=sys.stderr,
            )
    if incomplete:
        raise typer.Exit(1)
