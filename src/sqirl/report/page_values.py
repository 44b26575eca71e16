"""Plain values of the page's data: what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from sqirl.results.censoring import StepRange
from sqirl.results.statistics import Comparison, Estimate


def finite(value: float | None) -> float | None:
    """JSON has no nan and no infinity; six digits are enough to be shown."""
    return None if value is None or not math.isfinite(value) else shortened(value)


def shortened(value: float) -> float:
    """Six significant digits, and a whole number without its point."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def short_list(values: Iterable[float]) -> list[float]:
    return [shortened(value) for value in values]


def interval(found: Estimate | None) -> list[float | None] | None:
    """[value, low, high]."""
    return None if found is None else [finite(found.value), finite(found.low), finite(found.high)]


def step_limits(found: StepRange | None) -> list[float | None] | None:
    """[low, high], with None for no limit."""
    return None if found is None else [finite(found.low), finite(found.high)]


def comparison(c: Comparison) -> dict[str, Any]:
    return {
        "first": c.first, "second": c.second,
        "correlation": interval(c.correlation), "log_correlation": interval(c.log_correlation),
        "ratio": interval(c.median_ratio),
        "both": c.both, "only_first": c.only_first, "only_second": c.only_second, "neither": c.neither,
    }  # fmt: skip
