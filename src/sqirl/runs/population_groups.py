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
from sqirl.errors import WorkFailed
from sqirl.runs.config import RunConfig


@dataclass(frozen=True)
class Group:
    """Runs of one setting that are at the same step."""

    configs: list[RunConfig]
    name: str  # of their checkpoint: the setting, and what tells it from others of the same setting


def groups_of(waiting: Sequence[RunConfig], folder: Path) -> list[Group]:
    """The runs by the checkpoints in `folder` that they are in, and those that are in none. No other process runs any of them."""
    setting = replace(waiting[0], seed=0).digest
    left, found = list(waiting), []
    for name in sorted({path.name.partition(".")[0] for path in folder.glob(f"{setting}-*.checkpoint*")}):
        members = _members(folder / f"{name}.checkpoint")
        if mine := [config for config in left if config in members]:
            found.append(Group(mine, name))
            left = [config for config in left if config not in members]
    if left:
        digest = blake2b("".join(config.digest for config in left).encode(), digest_size=8).hexdigest()
        found.append(Group(left, f"{setting}-{digest}"))
    return found


def _members(path: Path) -> set[RunConfig]:
    """The runs of a checkpoint; those that ended with a smaller budget have no record under their config."""

    def read(state: dict[str, Any]) -> set[RunConfig]:
        return {RunConfig.from_dict(row[0]) for row in (*state["rows"], *state["ended"])}

    try:
        return resume(path, read)
    except WorkFailed:
        if has_checkpoint(path):
            raise
        return set()  # another process removed it, because its runs were over
