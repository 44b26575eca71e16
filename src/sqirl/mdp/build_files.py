"""Building MDPs into files: what `sqirl build` does, for Python users too."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.store import targets_named, user_folder
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.files import check_writable
from sqirl.runtime.workers import all_cores

#: How states are merged: "auto" merges by screen where there are screens.
MERGE_MODES = ("auto", "none", "screen", "reward")

#: Makes the progress callback of one build, from its name.
Display = Callable[[str], AbstractContextManager[Callable[[BuildProgress], None] | None]]


@dataclass(frozen=True)
class BuiltFile:
    """One MDP that was built and saved; `mdp.is_partial` tells whether a limit stopped it."""

    env_id: str
    mdp: TabularMDP
    path: Path

    def to_dict(self) -> dict[str, Any]:
        mdp = self.mdp
        return {
            "env_id": self.env_id, "num_states": mdp.num_states, "num_actions": mdp.num_actions, "horizon": mdp.horizon,
            "depth": mdp.depth, "partial": mdp.is_partial, "file": str(self.path),
        }  # fmt: skip

    def __str__(self) -> str:
        end = "closed" if self.mdp.depth is None else f"to step {self.mdp.depth}"
        return f"{self.env_id}: {self.mdp.num_states:,} states, {self.mdp.num_actions} actions, {end} -> {self.path}"


def build_files(
    names: Sequence[str],
    *,
    out: Path | None = None,
    horizon: int | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    max_states: int = 1_000_000,
    time_limit: float | None = None,
    merge: str = "auto",
    screens: bool = True,
    display: Display | None = None,
) -> Iterator[BuiltFile]:
    """Build the MDPs of these names one after the other, save each, and yield it.

    A build that was stopped goes on where it was when it is asked for again: its journal is in the user's folder. The journal
    is removed when the build is complete.

    :param names: ids, names of games (their longest rows), or 'module:Class'
    :param out: an .npz file for one MDP, or a folder; the user's store if None
    :param merge: one of `MERGE_MODES`
    :param screens: keep the pictures of the states, where they are small
    """
    if merge not in MERGE_MODES:
        raise SqirlError(f"merge = '{merge}' is not one of {', '.join(MERGE_MODES)}")
    # By the names of their files: a sticky id and its game are one build
    targets = {describe(target).file_stem: target for name in names for target in targets_named(name)}
    is_file = out is not None and out.suffix == ".npz"
    if is_file and len(targets) > 1:
        raise SqirlError(f"'{out}' is one file, but {len(targets)} envs were named; give a folder")
    show: Display = display or (lambda name: nullcontext(None))
    for stem, name in targets.items():
        path = out if out is not None and is_file else (out or user_folder() / "mdps") / f"{stem}.npz"
        check_writable(path)
        journal = user_folder() / "builds" / stem
        with show(name) as progress:
            mdp = build_mdp(
                name, horizon=horizon, max_states=max_states, time_limit=time_limit, jobs=jobs or all_cores(),
                cluster=cluster, folder=journal, progress=progress,
            )  # fmt: skip
        mdp = merged(mdp, merge)
        mdp = mdp if screens else replace(mdp, screens=None)
        mdp.save(path)
        if not mdp.is_partial:
            shutil.rmtree(journal, ignore_errors=True)
        yield BuiltFile(name, mdp, path)


def merged(mdp: TabularMDP, mode: str) -> TabularMDP:
    """The MDP with its states merged as `MERGE_MODES` says."""
    if mode == "auto":
        return mdp.merge() if mdp.transitions is not None and mdp.screen_mapping is not None else mdp
    return mdp if mode == "none" else mdp.merge(by=mode)
