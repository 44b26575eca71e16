"""`sqirl doctor`: what is installed, what is missing, how to fix it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def command(as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """List what is installed, what is missing and how to install it (exit code 1 if something is missing)."""
    from sqirl.envs.doctor import examine
    from sqirl.mdp.store import user_folder

    diagnoses = examine(user_folder())
    if as_json:
        print(json.dumps([asdict(diagnosis) for diagnosis in diagnoses], indent=1))
    else:
        for diagnosis in diagnoses:
            print(f"{'ok ' if diagnosis.fix is None else '!! '} {diagnosis.what:18} {diagnosis.found}")
            if diagnosis.fix is not None:
                print(f"                       fix: {diagnosis.fix}")
    if any(diagnosis.fix is not None for diagnosis in diagnoses):
        raise typer.Exit(1)
