"""Analyses that were computed before: one JSON file shipped with the package, keyed by environment id."""

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
    """How far the enumeration of the games came whose longest rows are out of reach: depth, states, growth, core hours."""
    path = growth_path()
    return json.loads(path.read_text()) if path.is_file() else {}


@cache
def archived_analyses() -> dict[str, Analysis]:
    """All shipped analyses (default options) by id; empty if there are none."""
    path = archive_path()
    if not path.is_file():
        return {}
    return {env_id: Analysis.from_dict(record) for env_id, record in json.loads(path.read_text()).items()}
