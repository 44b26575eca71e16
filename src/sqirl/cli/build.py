"""`sqirl build`: enumerate live games into MDP files."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqirl.mdp.tabular import TabularMDP


class Merge(StrEnum):
    auto = "auto"
    none = "none"
    screen = "screen"
    reward = "reward"


def command(
    env: Annotated[
        list[str], typer.Argument(help="Ids, names of games (all their rows), or module:Class of your own envs.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A file, or a folder for several (default: your MDP store).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode (default: the env's own).")] = None,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", help="Processes (default: all cores).", min=1)] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler whose workers do the work.")] = None,
    max_states: Annotated[int, typer.Option(help="Stop beyond this many states.", min=1)] = 1_000_000,
    time_limit: Annotated[float | None, typer.Option(help="Stop after so many seconds.", min=0)] = None,
    merge: Annotated[
        Merge, typer.Option(help="Merge states that look and act alike (screen), or act alike (reward).")
    ] = Merge.auto,
    screens: Annotated[bool, typer.Option(help="Keep the pictures of the states, where they are small.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each env.")] = False,
) -> None:
    """Enumerate games, breadth first, into exact MDPs.

    A build that is stopped, by whatever, goes on where it was when the same command is given again. One stopped by a limit is
    saved as a partial MDP (exit code 1).
    """
    from sqirl.errors import SqirlError
    from sqirl.mdp.build import build_mdp
    from sqirl.mdp.files import check_writable
    from sqirl.mdp.hands import all_cores
    from sqirl.mdp.store import targets_named, user_folder

    by_stem = {_stem(target): target for name in env for target in targets_named(name)}
    names = list(by_stem.values())
    if out is not None and out.suffix == ".npz" and len(names) > 1:
        raise SqirlError(f"'{out}' is one file, but {len(names)} envs were named; give a folder")
    partial = False
    for name in names:
        from sqirl.cli.progress import build_display

        stem = _stem(name)
        path = out if out is not None and out.suffix == ".npz" else (out or user_folder() / "mdps") / f"{stem}.npz"
        check_writable(path)
        folder = user_folder() / "builds" / stem
        with build_display(name) as progress:
            mdp = build_mdp(
                name,
                horizon=horizon,
                max_states=max_states,
                time_limit=time_limit,
                jobs=jobs or all_cores(),
                cluster=cluster,
                folder=folder,
                progress=progress,
            )
        mdp = _merged(mdp, merge) if screens else replace(_merged(mdp, merge), screens=None)
        mdp.save(path)
        _say(name, mdp, path, as_json)
        partial |= mdp.is_partial
        if not mdp.is_partial:
            shutil.rmtree(folder, ignore_errors=True)
    if partial:
        raise typer.Exit(1)


def _stem(name: str) -> str:
    from sqirl.envs.ids import is_bridge_id, parse_id

    return parse_id(name).stem if is_bridge_id(name) else name.replace("/", "_").replace(":", "_")


def _merged(mdp: TabularMDP, merge: Merge) -> TabularMDP:
    if merge is Merge.auto:
        return mdp.merge() if mdp.transitions is not None and mdp.screen_mapping is not None else mdp
    return mdp if merge is Merge.none else mdp.merge(by=merge.value)


def _say(name: str, mdp: TabularMDP, path: Path, as_json: bool) -> None:
    if as_json:
        facts = {"env_id": name, "num_states": mdp.num_states, "num_actions": mdp.num_actions, "horizon": mdp.horizon}
        print(json.dumps({**facts, "depth": mdp.depth, "partial": mdp.is_partial, "file": str(path)}))
    else:
        end = "closed" if mdp.depth is None else f"to step {mdp.depth}"
        print(f"{name}: {mdp.num_states:,} states, {mdp.num_actions} actions, {end} -> {path}")
    if mdp.is_partial:
        print(
            f"sqirl: {name} is partial: a limit stopped it after {mdp.depth} of {mdp.horizon} steps; the same command with a "
            "higher --max-states or --time-limit goes on, or take a lower --horizon",
            file=sys.stderr,
        )
