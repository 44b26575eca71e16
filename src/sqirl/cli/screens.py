"""`sqirl screens`: draw the screens of an MDP's states again, by replaying the paths to them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer


def command(
    env: Annotated[str, typer.Argument(help="An id whose MDP is at hand (shipped, or built before).")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Also write the MDP with its full-colour screens into this .npz.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Draw what an agent sees in every state of a built game, and keep it: training from the table needs it.

    It is done once; `sqirl train` does it by itself where it is missing.
    """
    from sqirl.cli.progress import counting_display
    from sqirl.envs.ids import parse_id
    from sqirl.envs.registration import view_of
    from sqirl.errors import SqirlError
    from sqirl.mdp.files import check_writable
    from sqirl.mdp.screens import cached_frames_path, frames_of, with_screens
    from sqirl.mdp.store import stored_mdp

    env_id = parse_id(env)
    if out is not None:
        check_writable(out)
    mdp = stored_mdp(env_id)
    if mdp is None:
        raise SqirlError(f"the MDP of {env} is not at hand; build it first: sqirl build {env_id.deterministic()}")
    began = time.monotonic()
    with counting_display(f"{env} screens") as progress:
        frames = frames_of(mdp, view_of(env_id), progress=progress)
        if out is not None:
            with_screens(mdp, progress=progress).save(out)
    where = "shipped with the MDP" if mdp.screens is not None else str(cached_frames_path(mdp))
    facts = {"env_id": env, "num_states": mdp.num_states, "screens": len(frames), "frame_shape": list(frames.shape[1:])}
    if as_json:
        print(json.dumps({**facts, "bytes": frames.nbytes, "file": where, "out": str(out) if out else None}))
        return
    shape = "×".join(map(str, frames.shape[1:]))
    print(f"{env}: {len(frames):,} screens ({shape}) of {mdp.num_states:,} states -> {where}")
    if out is not None:
        print(f"{env}: with full-colour screens -> {out}")
    print(f"sqirl: {frames.nbytes / 1e6:,.1f} MB in memory, {time.monotonic() - began:.1f} s", file=sys.stderr)
