"""`sqirl screens`: draw the screens of an MDP's states again, by replaying the paths to them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import path_option


def command(
    env: Annotated[str, typer.Argument(help="An id whose MDP is stored (shipped, or built before).")],
    out: Annotated[
        Path | None, path_option("-o", "--out", help="Also write the MDP with its full-colour screens into this .npz.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Draw what an agent sees in every state of a built game, and keep it: training from the table needs it.

    It is done once; `sqirl train` does it by itself where the screens are missing.
    """
    from sqirl.cli.progress import counting_display
    from sqirl.mdp.screens import draw_stored

    began = time.monotonic()
    with counting_display(f"{env} screens") as progress:
        drawn = draw_stored(env, out=out, progress=progress)
    if as_json:
        print(json.dumps(drawn.to_dict()))
        return
    print(drawn)
    print(f"sqirl: {drawn.frames.nbytes / 1e6:,.1f} MB in memory, {time.monotonic() - began:.1f} s", file=sys.stderr)
