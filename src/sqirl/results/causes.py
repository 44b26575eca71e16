"""Likely causes of disagreements with the paper, each written once: (environment, algorithm) -> a sentence without its stop.

The lists of disagreements in docs/training.md and on the page show them. A case that is not here has no cause that we know.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CAUSES: Mapping[tuple[str, str], str] = MappingProxyType({})
