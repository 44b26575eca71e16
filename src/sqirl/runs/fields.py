"""Checks of values that were read from a file: each returns the value, or raises a ValueError that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Larger whole numbers are not exact as floats, which JavaScript and our statistics make of them.
LARGEST = 2**53
#: Squares and sums of larger numbers may be infinite.
LARGEST_FLOAT = 1e100


def whole(name: str, value: Any, *, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= LARGEST:
        raise ValueError(f"{name} = {value!r} is not a whole number of {least}..2^53")
    return value


def number(name: str, value: Any) -> float:
    """A finite number."""
    if type(value) not in (int, float) or not abs(value) <= LARGEST_FLOAT:
        raise ValueError(f"{name} = {value!r} is not a finite number")
    return float(value)


def text(name: str, value: Any) -> str:
    """A text of one line that can be written to a file."""
    if not isinstance(value, str) or len(value.splitlines()) > 1 or not _is_unicode(value):
        raise ValueError(f"{name} = {value!r} is not a text of one line")
    return value


def flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{name} = {value!r} is neither true nor false")
    return value


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is a {type(value).__name__}, not an object")
    return value


def _is_unicode(value: str) -> bool:
    """Half of a surrogate pair, which JSON can hold, is not."""
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
