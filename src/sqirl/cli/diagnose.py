"""`sqirl diagnose`: is it the environment or the algorithm?"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import ENV_HELP, EnvKwargs, Hold, env_name, path_option


def command(
    env: Annotated[str, typer.Argument(help=ENV_HELP)],
    env_kwargs: EnvKwargs = None,
    hold: Hold = None,
    no_hold: Annotated[
        bool,
        typer.Option("--no-hold", help="Do not hold a step counter where the states cannot be listed because of it."),
    ] = False,
    horizon: Annotated[
        int | None, typer.Option(help="Steps of an episode (default: the env's own limit).", min=1)
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for all of it, without --verify.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    out: Annotated[Path | None, path_option("-o", "--out", help="Write a page with pictures (.html).")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then train PPO for the predicted steps and say what happened.")
    ] = False,
) -> None:
    """Will deep RL solve this environment, in how many steps, and what stands in its way? First the verdict, then the reasons."""
    from sqirl.diagnosis.diagnose import diagnose
    from sqirl.diagnosis.page import check_page_path, write_page
    from sqirl.diagnosis.verify import verify as train_and_compare
    from sqirl.runtime.compiling import announce_compiling

    announce_compiling()
    env = env_name(env, env_kwargs, hold)
    if out is not None:
        check_page_path(out)
    with redirect_stdout(sys.stderr):  # what the env itself prints is no result
        found = diagnose(env, horizon=horizon, time_limit=time_limit, hold_counters=not no_hold)
        if out is not None:
            write_page(found, out)
    if not as_json:
        print(found, flush=True)
    verification = None
    if verify:
        with redirect_stdout(sys.stderr):
            verification = train_and_compare(env, found)
    if as_json:
        print(json.dumps({**found.to_dict(), "verification": verification and verification.to_dict()}, indent=1))
    elif verification is not None:
        print(f"\nVerification\n  {verification}")
