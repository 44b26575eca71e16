"""Probabilities as rational numbers that sum to one.

Floats are rational numbers, but those of a row need not sum to exactly one: the floats 0.1 and 0.9 do not. A row is read as the
first of these that sums to one:

1. the floats as they are;
2. for each float the fraction with the least denominator, up to a million, that is at most two floats away: 1/10 and 9/10. The
   floats may be results of a few operations: FrozenLake has (1 - 1/3) / 2, which is the float after that of 1/3;
3. the floats divided by their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.fingerprint import ONE, fingerprint, fingerprints_of_floats, plus
from sqirl.analysis.fixed_point import WORD, set_float, weight_words
from sqirl.mdp.tabular import Outcomes

LARGEST_DENOMINATOR = 1_000_000
#: How many floats a fraction may be away from the float that is read as it.
FLOATS_AWAY = 2


@dataclass(frozen=True, eq=False)
class ExactProbabilities:
    """The probabilities of all outcomes. Those that are not their floats are in `changed`, by their place."""

    floats: NDArray[np.float64]  # (nnz,) the nearest floats
    fingerprints: NDArray[np.uint64]  # (nnz,)
    changed: dict[int, Fraction] = field(default_factory=dict)
    num_as_fractions: int = 0  # rows that are read in the second way
    num_divided: int = 0  # and in the third

    def words(self, num_words: int) -> NDArray[np.uint64]:
        """(nnz, L + 1) as fixed-point weights."""
        found = np.zeros((len(self.floats), num_words + 1), np.uint64)
        if num_words:
            _float_weights(self.floats, found)
            known = {value: weight_words(value, num_words) for value in set(self.changed.values())}
            for place, value in self.changed.items():
                found[place] = known[value]
        return found


def exact_probabilities(outcomes: Outcomes | None) -> ExactProbabilities:
    """The probabilities of stochastic dynamics, and empty arrays for a deterministic table."""
    if outcomes is None:
        return ExactProbabilities(np.empty(0), np.empty(0, np.uint64))
    floats, indptr = outcomes.probabilities.copy(), outcomes.indptr
    prints = fingerprints_of_floats(floats)
    changed: dict[int, Fraction] = {}
    num_as_fractions, num_divided = 0, 0
    for row in np.flatnonzero(_row_sums(prints, indptr) != ONE).tolist():
        first, last = indptr[row : row + 2].tolist()
        values, as_fractions = _read(tuple(floats[first:last].tolist()))
        changed |= zip(range(first, last), values, strict=True)
        num_as_fractions, num_divided = num_as_fractions + as_fractions, num_divided + (not as_fractions)
    known = {value: (float(value), fingerprint(value)) for value in set(changed.values())}
    for place, value in changed.items():
        floats[place], prints[place] = known[value]
    return ExactProbabilities(floats, prints, changed, num_as_fractions, num_divided)


@lru_cache(maxsize=100_000)
def _read(row: tuple[float, ...]) -> tuple[tuple[Fraction, ...], bool]:
    """The fractions of a row whose floats do not sum to one, and whether they are the simplest near the floats."""
    simplest = tuple(map(_simplest, row))
    if sum(simplest) == 1:
        return simplest, True
    total = sum(map(Fraction, row))
    return tuple(Fraction(value) / total for value in row), False


def _simplest(value: float) -> Fraction:
    """The fraction with the least denominator within FLOATS_AWAY of the float; the float itself if there is none."""
    reach = FLOATS_AWAY * Fraction(math.ulp(value))
    found = _simplest_between(Fraction(value) - reach, Fraction(value) + reach)
    return found if found.denominator <= LARGEST_DENOMINATOR else Fraction(value)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the least denominator in [low, high], by continued fractions."""
    whole = -(-low.numerator // low.denominator)
    if whole <= high:
        return Fraction(whole)
    below = low.numerator // low.denominator
    return below + 1 / _simplest_between(1 / (high - below), 1 / (low - below))


@numba.njit(cache=True)
def _row_sums(fingerprints: NDArray[np.uint64], indptr: NDArray[np.int64]) -> NDArray[np.uint64]:
    """(rows,) the sums of the rows in the field."""
    sums = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(sums)):
        for i in range(indptr[row], indptr[row + 1]):
            sums[row] = plus(sums[row], fingerprints[i])
    return sums


@numba.njit(cache=True)
def _float_weights(floats: NDArray[np.float64], words: NDArray[np.uint64]) -> None:
    """words[i] (L + 1,) ← the float as a weight."""
    places = WORD * (words.shape[1] - 1)
    for i in range(len(floats)):
        set_float(words[i], floats[i], places)
