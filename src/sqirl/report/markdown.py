"""Paragraphs, tables and numbers of steps as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from sqirl.results.censoring import StepRange
from sqirl.results.statistics import BUDGET, Estimate

#: Characters in a line of a page.
LINE_WIDTH = 120


def wrapped(text: str) -> list[str]:
    """The lines of a paragraph, and the empty line after it."""
    return [*textwrap.wrap(text, LINE_WIDTH, break_long_words=False, break_on_hyphens=False), ""]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """The lines of a table whose first `left` columns are aligned to the left, and the empty line after it."""
    align = ["---" if place < left else "---:" for place in range(len(header))]
    return [f"| {' | '.join(header)} |", f"|{'|'.join(align)}|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def steps(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def step_range(found: StepRange | None) -> str:
    """'30,000', '≤ 30,000', '> 30,000', '–' if it is more than the paper's budget; empty if nothing is known."""
    if found is None or (found.low == 0 and found.steps is None):
        return ""
    if found.steps is not None:
        return steps(found.steps) if found.is_known else f"≤ {steps(found.steps)}"
    return steps(None) if found.low >= BUDGET else f"> {steps(found.low)}"


def estimate(found: Estimate | None) -> str:
    """'0.84 [0.70, 0.91]'."""
    return "" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def duration(seconds: float) -> str:
    """Hours with one digit, or minutes."""
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
