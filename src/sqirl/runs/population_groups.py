"""Which runs of a setting are trained together: those that are in one checkpoint go on together, the others begin together.

A sweep that goes on may ask for other seeds at once than it did when it was stopped, because some of them have records by now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqirl.algorithms.checkpoints import has_checkpoint, resume
from sqirl.errors import SqirlError, WorkFailed
from sqirl.runs.config import RunConfig
from sqirl.runs.store import RecordStore


@dataclass(frozen=True)
class Group:
    """Runs of one setting that are at the same step."""

    configs: list[RunConfig]
    name: str  # of their checkpoint: the setting, and what tells it from others of the same setting


def check_seeds_only(configs: Sequence[RunConfig]) -> None:
    """Refuse runs that differ in more than their seeds."""
    if len({replace(config, seed=0) for config in configs}) > 1:
        raise SqirlError("a population has runs that differ in more than their seeds; give them one by one")


def groups_of(waiting: Sequence[RunConfig], store: RecordStore) -> list[Group]:
    """The runs by the checkpoints that they are in, and those that are in none. No other process runs any of them.

    A checkpoint is left alone as long as it has other runs without a record: it is theirs, too.
    """
    folder = store.folder
    setting = replace(waiting[0], seed=0).digest
    left, found = list(waiting), []
    for name in sorted({path.name.partition(".")[0] for path in folder.glob(f"{setting}-*.checkpoint*")}):
        running, ended = _members(folder / f"{name}.checkpoint")
        mine = [config for config in left if config in running or config in ended]
        if mine and all(config in mine or store.get(config) is not None for config in running):
            found.append(Group(mine, name))
            left = [config for config in left if config not in mine]
    if left:
        digest = blake2b("".join(config.digest for config in left).encode(), digest_size=8).hexdigest()
        found.append(Group(left, f"{setting}-{digest}"))
    return found


def _members(path: Path) -> tuple[set[RunConfig], set[RunConfig]]:
    """The runs of a checkpoint that go on, and those that are over; some of these have a record of a smaller budget."""

    def read(state: dict[str, Any]) -> tuple[set[RunConfig], set[RunConfig]]:
        running, ended = ({RunConfig.from_dict(row[0]) for row in state[part]} for part in ("rows", "ended"))
        return running, ended

    try:
        return resume(path, read)
    except WorkFailed:
        if has_checkpoint(path):
            raise
        return set(), set()  # another process removed it, because its runs were over
