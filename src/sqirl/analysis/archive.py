"""The analyses that ship with the package, by environment id, in one JSON file."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path

from sqirl.analysis.result import Analysis


def archive_path() -> Path:
    return Path(str(resources.files("sqirl.data"))) / "analyses.json"


def growth_path() -> Path:
    return archive_path().with_name("growth.json")


@cache
def growth_notes() -> dict[str, dict[str, float]]:
    """For games that are too large to enumerate to their longest horizon: depth reached, states, growth, core hours."""
    path = growth_path()
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


@cache
def archived_analyses() -> dict[str, Analysis]:
    """All shipped analyses (default options) by id; empty if there are none."""
    path = archive_path()
    if not path.is_file():
        return {}
    return {
        env_id: Analysis.from_dict(record) for env_id, record in json.loads(path.read_text(encoding="utf-8")).items()
    }
