"""`build_files`: builds MDPs and saves them to files. `sqirl build` calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqirl.envs.description import describe
from sqirl.envs.ids import is_bridge_id, parse_id
from sqirl.errors import InvalidMDP, SqirlError, counted
from sqirl.mdp.build import BuildProgress, build_mdp
from sqirl.mdp.journal import remove_journal
from sqirl.mdp.scope import scope_of
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
    """An MDP in a file. `mdp.is_partial` says whether a limit stopped its build.

    :param smaller: the MDP that was built but not written, because the file has one of more steps; None if it was written
    """

    env_id: str
    mdp: TabularMDP
    path: Path
    smaller: TabularMDP | None = None

    @property
    def covers_what_was_asked(self) -> bool:
        """Has the file all steps of the horizon that was asked for?"""
        asked = (self.smaller or self.mdp).horizon
        return self.mdp.depth is None or asked is None or self.mdp.depth >= asked

    def to_dict(self) -> dict[str, Any]:
        mdp = self.mdp
        return {
            "env_id": self.env_id, "num_states": mdp.num_states, "num_actions": mdp.num_actions, "horizon": mdp.horizon,
            "depth": mdp.depth, "partial": mdp.is_partial, "file": str(self.path), "scope": scope_of(mdp),
            "kept": self.smaller is not None,
        }  # fmt: skip

    def __str__(self) -> str:
        scope = scope_of(self.mdp)
        size = f"{_size(self.mdp)}{f'; {scope}' if scope else ''}"
        if self.smaller is not None:
            return f"{self.env_id}: kept {self.path} with {size}; this build has less, {_size(self.smaller)}, and was not written"
        return f"{self.env_id}: {size} -> {self.path}"


def _size(mdp: TabularMDP) -> str:
    end = "closed" if mdp.depth is None else f"to step {mdp.depth}"
    return f"{counted(mdp.num_states, 'state')}, {mdp.num_actions} actions, {end}"


def build_files(
    names: Sequence[str],
    *,
    out: Path | None = None,
    horizon: int | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    max_states: int = 1_000_000,
    time_limit: float | None = None,
    starts: int | None = None,
    draws: int | None = None,
    merge: str = "auto",
    screens: bool = True,
    display: Display | None = None,
) -> Iterator[BuiltFile]:
    """Build the MDPs of these names one after the other, save each, and yield it.

    The journals of builds are in the user's folder. A build that was stopped is resumed by the same call. When all builds are
    done, the journals of those that are complete are removed. A file with an MDP of the same env and of more steps is kept.

    :param names: ids, names of games (the longest rows of their levels), or 'module:Class'
    :param out: an .npz file for one MDP, or a folder; the user's store if None
    :param horizon: steps of an episode; the env's own if None
    :param jobs: number of worker processes; the number of cores if None
    :param cluster: address of a dask scheduler; its workers are used instead of processes
    :param max_states: stop a build when there are more states; its MDP is then partial
    :param time_limit: stop a build after so many seconds; its MDP is then partial
    :param starts: seeds for finding random starts; see `build_mdp`
    :param draws: draws of each action where outcomes are random; see `build_mdp`
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
    complete: list[Path] = []
    show: Display = display or (lambda name: nullcontext(None))
    # A sticky id and its game have the same file, so they are one build
    for stem, name in {describe(target).file_stem: target for target in targets}.items():
        path = out if out is not None and is_file else (out or user_folder() / "mdps") / f"{stem}.npz"
        check_writable(path)
        journal = journal_folder(stem)
        with show(name) as progress:
            mdp = build_mdp(
                name, horizon=horizon, max_states=max_states, time_limit=time_limit, jobs=jobs or all_cores(),
                cluster=cluster, folder=journal, progress=progress, starts=starts,
                draws=draws,
            )  # fmt: skip
        mdp = merged(mdp, merge)
        mdp = mdp if screens else replace(mdp, screens=None)
        larger = _larger(path, mdp)
        if larger is None:
            mdp.save(path)
        if not mdp.is_partial:
            complete.append(journal)
        yield BuiltFile(name, mdp, path) if larger is None else BuiltFile(name, larger, path, smaller=mdp)
    for journal in complete:
        remove_journal(journal)


def journal_folder(stem: str) -> Path:
    """Where the journal of a build is, from the name of its file without the ending."""
    return user_folder() / "builds" / stem


def _larger(path: Path, mdp: TabularMDP) -> TabularMDP | None:
    """The MDP in a file, if it is of the same env and has more steps than `mdp`."""
    try:
        there = TabularMDP.load(path) if path.is_file() else None
    except InvalidMDP:
        return None
    same = there is not None and _without_stickiness(there.name) == _without_stickiness(mdp.name)
    if there is None or not same or mdp.depth is None or (there.depth is not None and there.depth <= mdp.depth):
        return None
    return there


def _without_stickiness(target: str) -> str:
    """The id of the game that a build of `target` enumerates. No env is made."""
    return str(parse_id(target).deterministic()) if is_bridge_id(target) else target


def merged(mdp: TabularMDP, mode: str) -> TabularMDP:
    """The MDP with its states merged as one of `MERGE_MODES` says."""
    if mode == "auto":
        return mdp.merge() if mdp.transitions is not None and mdp.screen_mapping is not None else mdp
    return mdp if mode == "none" else mdp.merge(by=mode)
