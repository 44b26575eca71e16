"""Hands an unfinished build over to another machine: its journal as one file, and a journal that is taken over from such a file.

The file is a tar archive without compression: it cannot hold more than its size, and only files that a journal has are taken from
it. What it is a build of, the versions and the hashes are compared with this machine's before anything is kept.
"""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from sqirl.envs.description import EnvDescription, describe
from sqirl.errors import InvalidMDP, SqirlError, WorkFailed
from sqirl.mdp.build_files import journal_folder
from sqirl.mdp.enumeration import BuildProgress, growth_of, journal_identity
from sqirl.mdp.journal import IDENTITY, STARTS, Level, difference, known_format, lock_of, read_blocks, read_json
from sqirl.runtime.files import check_writable, write_atomically

_NAMES = re.compile(rf"{re.escape(IDENTITY)}|{re.escape(STARTS)}|(rows|last)_\d{{4,9}}")


@dataclass(frozen=True)
class JournalStatus:
    """How far an unfinished build is, and where its journal is.

    :param at: `at.pace` and `at.growth` give the estimate of what is left
    :param core_hours: processor time that the build took so far
    """

    env_id: str
    at: BuildProgress
    core_hours: float
    path: Path

    def to_dict(self) -> dict[str, Any]:
        at = self.at
        return {
            "env_id": self.env_id, "file": str(self.path), "depth": at.depth, "horizon": at.horizon, "states": at.states,
            "expanded": at.done, "frontier": at.frontier, "growth": at.growth, "core_hours": self.core_hours,
            "core_hours_left": at.core_hours_left,
        }  # fmt: skip

    def __str__(self) -> str:
        at = self.at
        if not at.frontier or at.depth >= at.horizon:
            return f"{self.env_id}: {at.states:,} states; all {at.horizon} steps are enumerated -> {self.path}"
        left = "its pace is not measured yet"
        if at.pace:
            left = (
                f"about {_hours(at.core_hours_left)} of one core left if its steps continue to grow by {at.growth:.2g} "
                f"(measured: {_hours(self.core_hours)}, {1000 * at.pace:.2g} ms for a transition)"
            )
        return (
            f"{self.env_id}: {at.states:,} states; {at.depth} of {at.horizon} steps are enumerated, and {at.done:,} of "
            f"{at.frontier:,} states of the next; {left} -> {self.path}"
        )


def _hours(hours: float) -> str:
    if hours < 1:
        return f"{60 * hours:.2g} minutes"
    return f"{hours:,.0f} hours" if hours >= 10 else f"{hours:.1f} hours"


def pack_build(name: str, file: Path, *, horizon: int | None = None) -> JournalStatus:
    """Write the journal of an unfinished build to a file, and return how far it is.

    :param name: the id of the env, or 'module:Class'
    :param file: a .tar file; it is written completely or not at all
    :param horizon: steps of an episode, for the estimate; the env's own if None
    """
    description = describe(name)
    folder = journal_folder(description.file_stem)
    if not (folder / IDENTITY).is_file():
        raise SqirlError(f"there is no unfinished build of {name} in '{folder}'; `sqirl build {name}` starts one")
    check_writable(file)
    with lock_of(folder):
        known_format(folder, read_json(folder / IDENTITY))
        status = _status(description, folder, file, horizon)
        write_atomically(file, lambda out: _write_tar(folder, out))
    return status


def _write_tar(folder: Path, out: BinaryIO) -> None:
    with tarfile.open(fileobj=out, mode="w:") as archive:
        for path in sorted(path for path in folder.iterdir() if _NAMES.fullmatch(path.name)):
            info = tarfile.TarInfo(path.name)
            info.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(info, content)


def take_over(name: str, source: Path, *, horizon: int | None = None, starts: int | None = None) -> JournalStatus:
    """Make a packed build, or the folder of a journal, the build of this machine, and return how far it is.

    A build of this machine that is as far or farther is kept instead. The source is not changed.

    :param name: the id of the env, or 'module:Class'
    :param source: what `pack_build` wrote, or the folder of a journal
    :param horizon: steps of an episode, for the estimate; the env's own if None
    :param starts: as for the build; see `sqirl.mdp.build.build_mdp`
    """
    if not source.is_dir() and not source.is_file():
        raise SqirlError(
            f"no file or folder '{source}' to go on from; `sqirl build {name} --pack FILE` writes one where a build was stopped"
        )
    description = describe(name)
    folder = journal_folder(description.file_stem)
    taken = folder.with_name(f".{folder.name}.taken")
    shutil.rmtree(taken, ignore_errors=True)
    taken.mkdir(parents=True)
    try:
        _copy(source, taken)
        found = known_format(source, read_json(taken / IDENTITY) if (taken / IDENTITY).is_file() else None)
        wanted = journal_identity(description, description.make_game(), starts)
        if {key: value for key, value in found.items() if key != "journal"} != wanted:
            raise WorkFailed(
                f"'{source}' holds {difference(found, {'journal': found['journal'], **wanted})}; "
                "it goes on only where these agree"
            )
        status = _status(description, taken, folder, horizon)
        if (folder / IDENTITY).is_file():
            with lock_of(folder):
                own = _status(description, folder, folder, horizon)
                if (own.at.depth, own.at.done) >= (status.at.depth, status.at.done):
                    return own
                shutil.rmtree(folder)
        taken.rename(folder)
        return status
    finally:
        shutil.rmtree(taken, ignore_errors=True)


def _copy(source: Path, folder: Path) -> None:
    """Copy the files of a journal from a folder or a tar archive."""
    if source.is_dir():
        for path in source.iterdir():
            if _NAMES.fullmatch(path.name) and path.is_file():
                shutil.copyfile(path, folder / path.name)
        return
    try:
        with tarfile.open(source, mode="r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None or not _NAMES.fullmatch(member.name):
                    raise InvalidMDP(f"'{source}' is not a packed build: it contains '{member.name[:60]}'")
                with (folder / member.name).open("wb") as out:
                    shutil.copyfileobj(content, out)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise InvalidMDP(
            f"'{source}' is not a packed build (`sqirl build ENV --pack FILE` writes one): {error}"
        ) from error


def _status(description: EnvDescription, folder: Path, path: Path, horizon: int | None) -> JournalStatus:
    """How far the journal in a folder is. Its blocks are read and checked, up to the first that is not good."""
    starts = read_json(folder / STARTS) if (folder / STARTS).is_file() else None
    if not isinstance(starts, list) or not starts:
        raise WorkFailed(f"'{folder / STARTS}' is damaged; the build cannot go on from it")
    level, sizes, work = Level(0, 0, len(starts)), [len(starts)], _Work()
    steps = horizon or description.horizon
    while True:
        if level.number + 1 == steps and not (folder / level.file_name).exists():
            level = replace(level, only_rewards=True)
        done, new = work.add_level(folder, level)
        if done < level.size or not level.size:
            break
        level = level.next(new)
        sizes.append(new)
    at = BuildProgress(
        depth=level.number,
        horizon=steps or level.number,
        done=done,
        frontier=level.size,
        states=level.first_state + level.size + new,
        transitions=work.transitions,
        seconds=work.seconds,
        growth=growth_of(sizes),
        num_actions=work.num_actions,
        pace=work.seconds / max(1, work.transitions),
    )
    return JournalStatus(description.name, at, work.seconds / 3600, path)


@dataclass
class _Work:
    """What the blocks of a journal took, added up."""

    seconds: float = 0.0
    transitions: int = 0
    num_actions: int = 1

    def add_level(self, folder: Path, level: Level) -> tuple[int, int]:
        """How many states of a level are expanded, and how many new ones were found."""
        path, done, new = folder / level.file_name, 0, 0
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            for rows, _ in read_blocks(file, level):
                done, new = done + len(rows.transitions), new + rows.num_new
                self.seconds += rows.seconds
                self.transitions += rows.transitions.size if rows.seconds else 0  # a converted journal does not know
                self.num_actions = rows.transitions.shape[1]
        return done, new
