"""`sqirl envs`: the 155 environments of the paper."""

from __future__ import annotations

from typing import Annotated

import typer

from sqirl.cli.options import Json
from sqirl.envs.suites import SUITES


def command(
    pattern: Annotated[str, typer.Argument(help="Only ids that contain this text.")] = "",
    suite: Annotated[str | None, typer.Option(help=f"Only this suite: {', '.join(SUITES)}.")] = None,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/bridge.md.")] = False,
) -> None:
    """List the paper's 155 environments with the paper's results and our exact analyses."""
    from sqirl.report import environments_page
    from sqirl.report.environments import environment_rows

    rows = environment_rows(suite, containing=pattern)
    if as_json:
        print(environments_page.as_json(rows))
    elif markdown:
        print(environments_page.markdown_page(rows))
    else:
        print(environments_page.as_text(rows))
