"""`sqirl build`: enumerate live games into MDP files."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Merge(StrEnum):
    none = "none"
    screen = "screen"
    reward = "reward"


def command(
    env: Annotated[list[str], typer.Argument(help="Environment ids, or module:Class of your own envs.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A file, or a folder for several (default: your MDP store).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode (default: the env's own).")] = None,
    max_states: Annotated[int, typer.Option(help="Stop beyond this many states.")] = 1_000_000,
    time_limit: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    merge: Annotated[
        Merge, typer.Option(help="Merge states that look and act alike (screen) or act alike (reward).")
    ] = Merge.none,
    screens: Annotated[bool, typer.Option(help="Keep the picture of every state.")] = True,
) -> None:
    """Enumerate games, breadth first, into exact MDPs. A build stopped by a limit is saved as partial (exit code 1)."""
    from sqirl.cli.progress import build_display
    from sqirl.errors import SqirlError
    from sqirl.mdp.build import build_mdp

    if out is not None and out.suffix == ".npz" and len(env) > 1:
        raise SqirlError(f"'{out}' is one file, but {len(env)} envs were named; give a folder")
    partial = False
    for name in env:
        with build_display(name) as progress:
            mdp = build_mdp(
                name, horizon=horizon, max_states=max_states, time_limit=time_limit, screens=screens, progress=progress
            )
        if merge is not Merge.none:
            mdp = mdp.merge(by=merge.value)
        path = _destination(out, name)
        mdp.save(path)
        end = "closed" if mdp.depth is None else f"to step {mdp.depth}"
        print(f"{name}: {mdp.num_states:,} states, {mdp.num_actions} actions, {end} -> {path}")
        if mdp.is_partial:
            partial = True
            print(
                f"sqirl: {name} is partial: a limit stopped it after {mdp.depth} of {mdp.horizon} steps; "
                "raise --max-states or --time-limit, or lower --horizon",
                file=sys.stderr,
            )
    if partial:
        raise typer.Exit(1)


def _destination(out: Path | None, name: str) -> Path:
    from sqirl.envs.ids import is_bridge_id, parse_id
    from sqirl.mdp.store import user_folder

    if out is not None and out.suffix == ".npz":
        return out
    stem = parse_id(name).stem if is_bridge_id(name) else name.replace("/", "_").replace(":", "_")
    return (out or user_folder() / "mdps") / f"{stem}.npz"
