"""`sqirl check`: can this env be enumerated?"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated

import typer

from sqirl.cli.options import ENV_HELP, EnvKwargs, Hold, env_name


def command(
    env: Annotated[str, typer.Argument(help=ENV_HELP)],
    env_kwargs: EnvKwargs = None,
    hold: Hold = None,
    steps: Annotated[int, typer.Option(help="Steps of random walks to check.", min=1, max=10**7)] = 2000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Test with random walks that an env can be saved, restored and enumerated, or name the first counter-example."""
    from sqirl.envs.check import check_env

    with redirect_stdout(sys.stderr):  # what the env itself prints is no result
        report = check_env(env_name(env, env_kwargs, hold), steps=steps)
    print(json.dumps(asdict(report), indent=1) if as_json else report)
    if report.problem is not None:
        raise typer.Exit(1)
