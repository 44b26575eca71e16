"""The texts of `sqirl whatif` as arguments of `whatif`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqirl.diagnosis.words import quoted
from sqirl.envs.actions import MAX_ACTIONS
from sqirl.envs.named import imported
from sqirl.errors import SqirlError


@dataclass(frozen=True)
class Request:
    """Arguments of `whatif`, and the longest horizon among them, to which an env must be enumerated."""

    changes: dict[str, Any]
    longest: int | None


def parse_request(
    *, horizon: str, sticky: str, frame_skip: str, discount: str, actions: str, exploration: str, shape: Sequence[str]
) -> Request:
    """Texts such as '20,50' and '0-3' as values."""
    horizons = _numbers("horizon", horizon, int)
    changes = {
        "horizon": horizons,
        "sticky": _numbers("sticky", sticky, float),
        "frame_skip": _numbers("frame-skip", frame_skip, int),
        "discount": _numbers("discount", discount, float),
        "actions": [None if part == "all" else _actions(part) for part in _parts(actions)],
        "exploration": [None if part == "uniform" else Path(part) for part in _parts(exploration)],
        "shape": [_function(name) for name in shape],
    }
    if not any(changes.values()):
        raise SqirlError("nothing to change; give at least one of --horizon, --sticky, --frame-skip, --discount, --actions, "
                         "--exploration, --shape")  # fmt: skip
    return Request(changes, max(horizons, default=None))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(option: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    try:
        return [kind(part) for part in _parts(text)]
    except ValueError as error:
        raise SqirlError(f"--{option} {quoted(text)} is not a list of numbers such as 1,2,4") from error


def _actions(text: str) -> list[int]:
    """'0-3' or '0+2+5'."""
    try:
        if "-" in text:
            first, last = map(int, text.split("-"))
            if last - first >= MAX_ACTIONS:
                raise SqirlError(f"--actions {quoted(text)} are more than {MAX_ACTIONS:,} actions; give fewer")
            return list(range(first, last + 1))
        return [int(part) for part in text.split("+")]
    except ValueError as error:
        raise SqirlError(f"--actions {quoted(text)} is not all, a range such as 0-3, or a sum such as 0+2+5") from error


def _function(name: str) -> Any:
    module, _, attribute = name.rpartition(":")
    function = getattr(imported(module, name), attribute, None) if module else None
    if not callable(function):
        raise SqirlError(f"--shape {quoted(name)} is not module:function")
    return function
