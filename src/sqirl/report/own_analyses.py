"""Analyses of the user's own environments, from the files that `sqirl analyze ENV --json` prints."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

from sqirl.analysis.result import Analysis
from sqirl.errors import SqirlError


def read_analysis(path: Path) -> Analysis:
    """The analysis in a file. What the command prints besides (guarantees, similar games) is left out."""
    known = {field.name for field in fields(Analysis)}
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        found = Analysis.from_dict({key: value for key, value in plain.items() if key in known})
        _check(found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SqirlError(
            f"'{path}' is not an analysis ({error}); make one with: sqirl analyze ENV --json > {path.name}"
        ) from error
    return found


def _check(found: Analysis) -> None:
    """Raise `ValueError` where a number that the report needs is not one."""
    if not isinstance(found.env_id, str) or not found.env_id:
        raise ValueError("it has no env_id")
    for name in ("horizon", "num_actions", "num_states"):
        value = getattr(found, name)
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value!r}, not a positive number")
    for name in ("optimal_return", "random_return", "worst_return"):
        value = getattr(found, name)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}, not a number")
