"""Numbers in words that a reader can use."""

from __future__ import annotations

from sqirl.diagnosis.model import FIRST
from sqirl.errors import counted
from sqirl.results.statistics import BUDGET

#: Letters of what a user typed that an error message repeats.
LONGEST_QUOTE = 60


def steps_in_words(steps: float) -> str:
    """'about 400,000', 'at most 10,000' or 'more than 5 million': the paper's runs say nothing beyond these limits."""
    if steps <= 10**FIRST:
        return "at most 10,000"
    return "more than 5 million" if steps > BUDGET else f"about {round_steps(steps)}"


def interval_in_words(low: float, high: float) -> str:
    """'100,000 to 2 million'."""
    if low > BUDGET:
        return "more than 5 million"
    if high <= 10**FIRST:
        return "at most 10,000"
    start = "10,000 or less" if low <= 10**FIRST else round_steps(low)
    return f"{start} to {'more than 5 million' if high > BUDGET else round_steps(high)}"


def round_steps(steps: float) -> str:
    """Two significant digits: 430,000 or 1.7 million."""
    rounded = float(f"{steps:.1e}")
    return f"{rounded / 1e6:g} million" if rounded >= 1e6 else f"{rounded:,.0f}"


def chance_in_words(chance: float) -> str:
    """'95 %', never 0 or 100 %."""
    if chance > 0.99:
        return "over 99 %"
    return "under 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"


def odds_in_words(share: float, count: int) -> str:
    """'1 of 255 episodes', 'every episode', or 'none of 2,000 episodes'."""
    hits = share * count
    if hits < 0.5:
        return f"none of {counted(count, 'episode')}"
    if share > 0.995:
        return "every episode"
    return f"1 of {1 / share:,.0f} episodes" if share < 0.2 else f"{100 * share:.0f} % of the episodes"


def number(value: float) -> str:
    """A return with few digits: 0.0148, 12.3, 1,830."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def quoted(text: str) -> str:
    """What a user typed, in one line of an error message: 'a b c', cut if it is long."""
    line = " ".join(text.split())
    return f"'{line}'" if len(line) <= LONGEST_QUOTE else f"'{line[:LONGEST_QUOTE]}…'"
