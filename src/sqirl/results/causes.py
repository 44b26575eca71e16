"""Likely causes of disagreements with the paper, each written once: (environment, algorithm) -> a sentence without its stop.

The lists of disagreements in docs/training.md and on the page show them. A case that is not here has no cause that we know.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqirl.algorithms.registry import SQIRL

CAUSES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (
            "BRIDGE/breakout_20_fs30-Sticky-v0",
            SQIRL.name,
        ): "our variant (gradients are not clipped); the search of the paper's variant is not finished",
    }
)
