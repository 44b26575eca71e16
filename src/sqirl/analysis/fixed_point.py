"""Fixed-point numbers of any width, for comparisons that floats cannot decide.

A number is a row of L words of 64 bits, the least significant first, in two's complement. It stands for that integer times a
*unit*, a power of two that is small enough to leave room for the largest total. A weight, from 0 to 1, is a row of L + 1 words:
L words after the point, and one word before it.

Every operation is off by less than L + 3 units, so the error of a value is a number of units that is known beforehand.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.fingerprint import high_product

WORD = 64
#: The unit is at least 2 to the power of minus this, so that it is a float.
MOST_PLACES = 1000
_1, _64 = np.uint64(1), np.uint64(64)
_TOP = np.uint64(1 << 63)
_WORD_VALUE = 2.0**64

Words = NDArray[np.uint64]  # (L,) a number, or (L + 1,) a weight


def places_for(num_words: int, largest: float) -> int:
    """How many bits after the point leave room for numbers up to `largest`, with their sign."""
    return min(WORD * num_words - 2 - max(math.frexp(largest)[1], -MOST_PLACES), MOST_PLACES)


def operation_error(num_words: int) -> int:
    """The error of one product, in units."""
    return num_words + 3


def weight_words(weight: Fraction, num_words: int) -> Words:
    """(L + 1,) a weight from 0 to 1, rounded down."""
    whole = (weight.numerator << (WORD * num_words)) // weight.denominator
    return np.array([(whole >> (WORD * i)) & 0xFFFFFFFFFFFFFFFF for i in range(num_words + 1)], np.uint64)


@numba.njit()
def copy(x: Words, y: Words) -> None:
    """x = y."""
    for i in range(len(x)):
        x[i] = y[i]


@numba.njit()
def add_word(x: Words, i: int, word: np.uint64) -> None:
    """x += word · 2^(64 i)."""
    while i < len(x) and word != 0:
        x[i] += word
        word = _1 if x[i] < word else np.uint64(0)
        i += 1


@numba.njit()
def negate(x: Words) -> None:
    """x = -x."""
    for i in range(len(x)):
        x[i] = ~x[i]
    add_word(x, 0, _1)


@numba.njit()
def set_float(x: Words, value: float, places: int) -> None:
    """x = the float, rounded toward 0. It is a number with so many bits after the point."""
    x[:] = 0
    mantissa, exponent = math.frexp(abs(value))
    word, shift = np.uint64(mantissa * 2.0**53), exponent - 53 + places
    if shift < 0:
        x[0] = word >> np.uint64(-shift) if shift > -64 else 0
    else:
        i, bits = shift // WORD, np.uint64(shift % WORD)
        x[i] = word << bits
        if bits > 0 and i + 1 < len(x):
            x[i + 1] = word >> (_64 - bits)
    if value < 0.0:
        negate(x)


@numba.njit()
def add(x: Words, y: Words) -> None:
    """x += y."""
    carry = np.uint64(0)
    for i in range(len(x)):
        first = x[i] + y[i]
        total = first + carry
        carry = _1 if first < y[i] or total < carry else np.uint64(0)
        x[i] = total


@numba.njit()
def subtract_fraction(x: Words, weight: Words) -> None:
    """x -= the words of the weight after the point, as a number."""
    borrow = np.uint64(0)
    for i in range(len(x)):
        less = x[i] - weight[i]
        total = less - borrow
        borrow = _1 if x[i] < weight[i] or less < borrow else np.uint64(0)
        x[i] = total


@numba.njit()
def add_scaled(x: Words, weight: Words, y: Words) -> None:
    """x += weight · y, rounded down. Pairs of words whose product is below the unit are left out."""
    L = len(y)
    if weight[L] != 0:  # the weight is 1
        add(x, y)
        return
    for i in range(L):
        if weight[i] != 0:
            for j in range(L - 1 - i, L):
                if i + j >= L:
                    add_word(x, i + j - L, weight[i] * y[j])
                add_word(x, i + j - L + 1, high_product(weight[i], y[j]))  # type: ignore[call-arg]
    if y[L - 1] & _TOP:  # y was read as a number without sign, which is 2^(64 L) too large
        subtract_fraction(x, weight)


@numba.njit()
def is_less(x: Words, y: Words) -> bool:
    """x < y."""
    for i in range(len(x) - 1, -1, -1):
        mine, other = x[i], y[i]
        if i == len(x) - 1:  # with the first bit flipped, negative numbers come before the others
            mine, other = mine ^ _TOP, other ^ _TOP
        if mine != other:
            return bool(mine < other)
    return False


@numba.njit()
def to_float(x: Words, unit: float) -> float:
    """The number as a float."""
    negative = x[len(x) - 1] & _TOP
    borrow, total = _1, 0.0
    for i in range(len(x)):  # -x is ~x + 1
        word = x[i]
        if negative:
            word = ~word + borrow
            borrow = _1 if borrow and word == 0 else np.uint64(0)
        total += float(word) * unit
        unit *= _WORD_VALUE
    return -total if negative else total


@numba.njit()
def distance(high: Words, low: Words, unit: float) -> float:
    """high - low as a float, whose relative error is that of a few roundings; low must not be above high."""
    borrow, total = np.uint64(0), 0.0
    for i in range(len(high)):
        less = high[i] - low[i]
        word = less - borrow
        borrow = _1 if high[i] < low[i] or less < borrow else np.uint64(0)
        total += float(word) * unit
        unit *= _WORD_VALUE
    return total
