"""`sqirl doctor`: what is installed, what is missing, how to fix it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def command(as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """Say what this machine has of what sqirl can use, and how to get the rest (exit code 1 if something is amiss)."""
    from sqirl.envs.doctor import examine
    from sqirl.mdp.store import user_folder

    findings = examine(user_folder())
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        for finding in findings:
            print(f"{'ok ' if finding.fix is None else '!! '} {finding.what:12} {finding.found}")
            if finding.fix is not None:
                print(f"                 fix: {finding.fix}")
    if any(finding.fix is not None for finding in findings):
        raise typer.Exit(1)
