"""`build_files`: builds MDPs and saves them to files. `sqirl build` calls it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqirl.envs.description import describe
from sqirl.envs.ids import is_bridge_id, parse_id
from sqirl.errors import SqirlError
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.store import targets_named, user_folder
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.files import check_writable
from sqirl.runtime.workers import all_cores

#: How states are compared to merge them: by rewards and screens, or by rewards only. "auto" is "screen" for a deterministic MDP
#: with screens, else "none".
MERGE_MODES = ("auto", "none", "screen", "reward")

#: A context manager for each build, made from its name. It gives the build's progress callback.
Display = Callable[[str], AbstractContextManager[Callable[[BuildProgress], None] | None]]


@dataclass(frozen=True)
class BuiltFile:
    """An MDP that was built and saved. `mdp.is_partial` says whether a limit stopped the build."""

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

    The journals of builds are in the user's folder. A build that was stopped is resumed by the same call. The journal is removed
    when the build is complete.

    :param names: ids, names of games (the longest rows of their levels), or 'module:Class'
    :param out: an .npz file for one MDP, or a folder; the user's store if None
    :param horizon: steps of an episode; the env's own if None
    :param jobs: number of worker processes; the number of cores if None
    :param cluster: address of a dask scheduler; its workers are used instead of processes
    :param max_states: stop a build when there are more states; its MDP is then partial
    :param time_limit: stop a build after so many seconds; its MDP is then partial
    :param merge: one of `MERGE_MODES`
    :param screens: store the screens of the states, if they are small
    :param display: shows the progress of each build
    """
    if merge not in MERGE_MODES:
        raise SqirlError(f"merge = '{merge}' is not one of {', '.join(MERGE_MODES)}")
    targets = [target for name in names for target in targets_named(name)]
    is_file = out is not None and out.suffix == ".npz"
    if is_file and (count := len({_without_stickiness(target) for target in targets})) > 1:
        raise SqirlError(f"'{out}' is one file, but {count} envs were named; give a folder")
    show: Display = display or (lambda name: nullcontext(None))
    # A sticky id and its game have the same file, so they are one build
    for stem, name in {describe(target).file_stem: target for target in targets}.items():
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


def _without_stickiness(target: str) -> str:
    """The id of the game that a build of `target` enumerates. No env is made."""
    return str(parse_id(target).deterministic()) if is_bridge_id(target) else target


def merged(mdp: TabularMDP, mode: str) -> TabularMDP:
    """The MDP with its states merged as one of `MERGE_MODES` says."""
    if mode == "auto":
        return mdp.merge() if mdp.transitions is not None and mdp.screen_mapping is not None else mdp
    return mdp if mode == "none" else mdp.merge(by=mode)
