"""How long work reports how far it has come."""

from __future__ import annotations

from collections.abc import Callable

#: Called with (items done, items in all).
CountProgress = Callable[[int, int], None]
