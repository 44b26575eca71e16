"""The values of a searched option that a search tries until one of them solves."""

from __future__ import annotations

import math
from collections.abc import Mapping

#: A search multiplies a value that does not solve by this. Doubling would make twice as many long runs that fail, and these are
#: most of what a search costs.
SEARCH_GROWTH = 4


def next_value(failed: Mapping[int, bool]) -> int:
    """The value to try when none of those that were tried solves.

    Where the budget cuts runs for the first time, the value between the last two is tried too: its runs may be short enough.

    :param failed: the values that were tried, at least one; of each, whether the budget cut its runs
    """
    tried = sorted(failed)
    first_cut = next((value for value in tried if failed[value]), None)
    before = max((value for value in tried if first_cut is not None and value < first_cut), default=None)
    if first_cut is not None and before is not None and first_cut >= SEARCH_GROWTH * before:
        return between(before, first_cut)
    return SEARCH_GROWTH * tried[-1]


def between(low: int, high: int) -> int:
    """The value in the middle of two, by ratio."""
    return round(math.sqrt(max(low, 1) * high))
