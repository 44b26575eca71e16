"""Likely causes of disagreements with the paper, each written once: (environment, algorithm) -> a sentence without its stop.

The lists of disagreements in docs/training.md and on the page show them. Of a case that is not here, the spread of
the seeds is shown where the paper's number lies within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqirl.algorithms.registry import GORP

CAUSES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (
            "BRIDGE/breakout_10_fs30-Sticky-v0",
            GORP.name,
        ): "chance: with k=2 m=4 two of our five seeds solve at the first evaluation, and with three of them it would be 10,000",
    }
)
