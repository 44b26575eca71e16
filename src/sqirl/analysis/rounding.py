"""When two computed values are equal: what decides ties.

A value at n steps from the horizon is the result of n backups, each of which rounds once for every term that it adds and a few
times more. The sweep carries values as sums of terms that are never negative (heights above the least possible total, shortfalls
below the greatest; see `kernels`), and such a sum does not cancel: its *relative* error stays below

    n · (operations of a backup) · 2^-53

to first order. What a step adds to a height or a shortfall is itself a difference of totals; it is exact where totals
are (rewards that are multiples of a power of two, as the games' are, undiscounted) or where the bound is zero, and else
has an *absolute* error of a few roundings of the bound. Two values are tied if they differ by no more than their error
bounds together. An absolute tolerance alone would not do: in sparse games real gaps go down to 1e-11 and far below.
"""

from __future__ import annotations

import numpy as np

#: Half the distance from 1.0 to the next float64: the relative error of one rounding.
UNIT_ROUNDOFF = 2.0**-53

#: Roundings of a backup besides its sums: discount, the two products and the sum of stickiness, reward, weight, and one
#: for a probability that is itself rounded (1/3 in a file is not 1/3).
FIXED_OPERATIONS = 8

#: Roundings of one term of a height or a shortfall where totals are not exact.
BOUND_OPERATIONS = 4

#: Rewards that are multiples of 2^-30 and whose totals stay below 2^22 add up without rounding.
_GRID, _LARGEST_TOTAL = 2.0**30, 2.0**22


def relative_roundoff(steps: int, num_actions: int, max_outcomes: int) -> float:
    """A bound on the relative error of values `steps` backups deep.

    A mean adds over the actions and an expectation over the outcomes of one row.
    """
    return steps * (num_actions + max_outcomes + FIXED_OPERATIONS) * UNIT_ROUNDOFF


def totals_are_exact(rewards: np.ndarray, horizon: int, discount: float) -> bool:
    """Do all sums of up to `horizon` of these rewards have exact float64 values?"""
    on_grid = bool((np.rint(rewards * _GRID) == rewards * _GRID).all())
    return discount == 1.0 and on_grid and horizon * float(np.abs(rewards).max()) < _LARGEST_TOTAL


def bound_error(largest_bound: float, largest_reward: float) -> float:
    """What one step adds to the absolute error of heights (shortfalls), if totals are not exact.

    `largest_bound` is the greatest |lo| (|hi|) of the step after; a term r + γ·0 - min r rounds but does not cancel.
    """
    return BOUND_OPERATIONS * UNIT_ROUNDOFF * (largest_bound + largest_reward) if largest_bound else 0.0
