"""Checks of the arguments that SQIRL and GORP share."""

from __future__ import annotations

import numpy as np

from sqirl.errors import SqirlError


def check_k_and_m(k: int, m: int, horizon: int) -> int:
    """The horizon; a k, m or horizon that makes no sense is refused."""
    for name, value in (("k", k), ("m", m), ("horizon", horizon)):
        if not isinstance(value, int | np.integer):
            raise SqirlError(f"{name} = {value!r} is not a whole number")
    if horizon < 1:
        raise SqirlError(f"horizon {horizon} is below 1; an episode has at least one step")
    if not 1 <= k <= horizon:
        raise SqirlError(f"k = {k} is outside 1..{horizon}, the steps of an episode")
    if m < 1:
        raise SqirlError(f"m = {m} is below 1; every iteration needs an episode")
    return horizon


def check_discount(gamma: float) -> None:
    """A discount outside (0, 1] is refused; nan, too."""
    if not 0 < gamma <= 1:
        raise SqirlError(f"discount {gamma:g} is not in (0, 1]")
