"""Fingerprints: a rational number as an element of the field of integers modulo a prime.

Every value of the analysis is made of rewards, probabilities, 1/A, ρ and γ by sums, products and maxima. These are rational
numbers: a float is a whole number times a power of two. Sums and products can be computed in the field as well, and a maximum
takes the fingerprint of its argument. Values with different fingerprints are different. Values with equal fingerprints are
equal, but for a chance of about 2^-61 for each comparison.

The prime begins with the digits of π·2^60. A prime such as 2^61 - 1 would not do: powers of two are everywhere in these values,
and there 2^-60 and 2 are the same element. An element x is stored as x·2^64 modulo the prime (Montgomery's form): products
are fast in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # it comes with numba
from numba.extending import intrinsic
from numpy.typing import NDArray

PRIME = 3622009729038561437
_PRIME, _NEGATIVE_INVERSE = np.uint64(PRIME), np.uint64(pow(-PRIME, -1, 1 << 64))


def fingerprint(value: Fraction | int) -> int:
    """Of a rational number whose denominator is no multiple of the prime."""
    value = Fraction(value)
    return (value.numerator << 64) * pow(value.denominator, -1, PRIME) % PRIME


ONE = np.uint64(fingerprint(1))

#: The powers of two from 2^-1126 on: a float is a whole number of 53 bits times one of them.
_LEAST_POWER = -1126
_POWERS = np.array([fingerprint(Fraction(2) ** e) for e in range(_LEAST_POWER, 1024 - 52)], np.uint64)
#: Makes x·2^64 of a product x·1.
_INTO = np.uint64((1 << 128) % PRIME)


@intrinsic
def high_product(_context: Any, _a: Any, _b: Any) -> tuple[Any, Callable[..., Any]]:
    """The upper 64 bits of the product of two uint64."""

    def code(_context: Any, builder: Any, _signature: Any, factors: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(factor, wide) for factor in factors))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return numba.uint64(numba.uint64, numba.uint64), code


@numba.njit()
def plus(a: np.uint64, b: np.uint64) -> np.uint64:
    """a + b in the field."""
    total = a + b
    return total - _PRIME if total >= _PRIME else total


@numba.njit()
def times(a: np.uint64, b: np.uint64) -> np.uint64:
    """a · b in the field: the product plus the multiple of the prime that makes its lower 64 bits zero, without these bits."""
    low = a * b
    multiple = low * _NEGATIVE_INVERSE
    total = high_product(a, b) + high_product(multiple, _PRIME) + np.uint64(low != 0)  # type: ignore[call-arg]
    return total - _PRIME if total >= _PRIME else total


@numba.njit()
def fingerprint_of_float(value: float) -> np.uint64:
    """A float is m · 2^e with whole m and e."""
    if value == 0.0:
        return np.uint64(0)
    if value == 1.0:
        return ONE
    mantissa, exponent = math.frexp(abs(value))
    found = times(times(np.uint64(mantissa * 2.0**53), _INTO), _POWERS[exponent - 53 - _LEAST_POWER])
    return found if value > 0.0 else _PRIME - found


@numba.njit(cache=True)
def fingerprints_of_floats(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """(n,) of floats (n,)."""
    found = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        found[i] = fingerprint_of_float(values[i])
    return found
