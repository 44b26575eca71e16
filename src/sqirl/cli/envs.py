"""`sqirl envs`: the 155 environments of the paper."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class Suite(StrEnum):
    atari = "atari"
    procgen = "procgen"
    minigrid = "minigrid"


def command(
    pattern: Annotated[str, typer.Argument(help="Only ids that contain this text.")] = "",
    suite: Annotated[Suite | None, typer.Option(help="Only this suite.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array of objects.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/bridge.md.")] = False,
) -> None:
    """List the paper's 155 environments: what they are, what the paper found, what we found."""
    from sqirl.report.bridge import as_text, bridge_rows, markdown_page

    rows = [row for row in bridge_rows(suite.value if suite else None) if pattern.lower() in row.env_id.lower()]
    if as_json:
        print(json.dumps([row.to_dict() for row in rows], indent=1))
    elif markdown:
        print(markdown_page(rows))
    else:
        print(as_text(rows))
