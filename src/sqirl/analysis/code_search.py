"""The search for the last code up to which policies earn enough, with a few returns at a time (`tolerance.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sqirl.analysis.near_greedy_steps import LAST_CODE, code_of

#: At first at most one code is below this one: Δ is rarely smaller.
USUAL_CODE = code_of(1e-5)
#: Codes near the crossing of a straight line are at most this share of the whole interval away from it.
NEAR = 1 / 8
#: A smaller share of the loss that is allowed counts as this much.
LEAST_LOSS = 1e-3
#: With fewer codes at a time than this, they are spread evenly.
LEAST_NEAR = 4


@dataclass
class Bracket:
    """What is known of one k: policies up to the code `good` earn enough, and up to the code `bad` they do not."""

    k: int
    allowed: float  # the loss with which policies still earn enough
    good: int = -1
    bad: int = LAST_CODE + 1
    surplus: float | None = (
        None  # how much more they earn than is enough, with the code `good`; None where it is not known
    )
    lack: float | None = None  # how much less, with the code `bad`
    is_bent: bool = False  # was the crossing of a straight line far off the last time?

    @property
    def is_open(self) -> bool:
        """Are there codes between the two?"""
        return self.bad - self.good > 1

    def take(self, codes: Sequence[int], surplus: Sequence[float], is_enough: Sequence[bool]) -> None:
        """The returns for some codes are known."""
        width, was_bent = self.bad - self.good, self.is_bent
        for code, more, enough in zip(codes, surplus, is_enough, strict=True):
            if enough and code > self.good:
                self.good, self.surplus = code, max(more, 0.0)
            if not enough and code < self.bad:
                self.bad, self.lack = code, -more
        self.is_bent = not was_bent and (self.bad - self.good) * len(codes) > width

    def codes(self, first: int, most: int) -> list[int]:
        """At most so many codes to look at next, from `first` on, which must be one between the two."""
        if self.bad - first <= most:
            return list(range(first, self.bad))
        if first > self.good + 1:  # the first alone may say that this k is not the best one
            return [first, *_evenly(first, self.bad, most - 1)]
        if self.good < 0 and self.lack is None:
            if most < LEAST_NEAR:
                return _evenly(USUAL_CODE, self.bad, most)
            return [0, *_evenly(USUAL_CODE, LAST_CODE, most - 2), LAST_CODE]
        if self.good < 0:
            return [0, *_evenly(0, self.bad, most - 1)]
        if self.surplus is None or self.lack is None or self.is_bent or most < LEAST_NEAR or not self.allowed:
            return _evenly(self.good, self.bad, most)
        return self._near_crossing(self.surplus, self.lack, most)

    def _near_crossing(self, surplus: float, lack: float, most: int) -> list[int]:
        """Codes on both sides of the place where a straight line between the two crosses the limit.

        The line is that of the logarithm of the loss, because a code is about the logarithm of Δ.
        """
        width = self.bad - self.good
        least = max(self.allowed - surplus, LEAST_LOSS * self.allowed)
        share = math.log(self.allowed / least) / math.log((self.allowed + lack) / least)
        place, pairs = self.good + width * share, most // 2
        steps = max(NEAR * width, pairs) ** (np.arange(pairs) / (pairs - 1))  # 1 and more
        wanted = np.rint(place + np.concatenate([1 - steps, steps]) - 0.5).astype(int)
        return sorted({min(max(code, self.good + 1), self.bad - 1) for code in wanted.tolist()})


def _evenly(low: int, high: int, most: int) -> list[int]:
    """At most so many whole numbers between the two."""
    return sorted({round(code) for code in np.linspace(low, high, most + 2)[1:-1].tolist()} - {low, high})
