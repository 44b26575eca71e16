"""Rounding errors: when two computed values count as equal. This decides ties between actions.

A value at n steps from the horizon is the result of n backups. A backup rounds once for every term of its sums, and a few
times more. The backward pass stores values as sums of terms that are never negative (heights and shortfalls, see `backup.py`).
There is no cancellation in such a sum. Its *relative* error is at most

    n · (roundings of a backup) · 2^-53

to first order. One step adds a difference of two totals to a height or a shortfall. This difference is exact where totals are
exact: where rewards are multiples of a power of two, as in the games, and are not discounted. It is also exact where the
bound is zero. Elsewhere it has an *absolute* error of a few roundings of the bound.

Two values are tied if they differ by no more than the sum of their error bounds. One absolute tolerance would be wrong: in
games with sparse rewards, real gaps are 1e-11 and much smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Half the distance from 1.0 to the next float64: the relative error of one rounding.
UNIT_ROUNDOFF = 2.0**-53

#: Roundings of a backup that do not belong to its sums: the discount, the two products and the sum of stickiness, the reward, the
#: weight, and one because a probability is itself rounded (1/3 in a file is not exactly 1/3).
FIXED_OPERATIONS = 8

#: Roundings of one term of a height or a shortfall where totals are not exact.
BOUND_OPERATIONS = 4

#: Sums of rewards that are multiples of 2^-30 are exact as long as they stay below 2^22.
_GRID, _LARGEST_TOTAL = 2.0**30, 2.0**22


def relative_roundoff(steps: int, num_actions: int, max_outcomes: int) -> float:
    """A bound on the relative error of values after `steps` backups.

    A mean is a sum over the actions. An expectation is a sum over the outcomes of one action.
    """
    return steps * (num_actions + max_outcomes + FIXED_OPERATIONS) * UNIT_ROUNDOFF


def totals_are_exact(rewards: NDArray[np.float64], horizon: int, discount: float) -> bool:
    """Are all sums of up to `horizon` of these rewards exact in float64?"""
    on_grid = bool((np.rint(rewards * _GRID) == rewards * _GRID).all())
    return discount == 1.0 and on_grid and horizon * float(np.abs(rewards).max()) < _LARGEST_TOTAL


class BoundErrors:
    """The absolute errors of heights and of shortfalls, followed from the last time step to the first."""

    def __init__(self, rewards: NDArray[np.float64], horizon: int, discount: float) -> None:
        self.height = self.shortfall = 0.0
        self._exact = totals_are_exact(rewards, horizon, discount)
        self._largest_reward = float(np.abs(rewards).max())
        self._signed = bool((rewards > 0).any() and (rewards < 0).any())
        self._largest_low = self._largest_high = 0.0  # the greatest |lo| and |hi| of the step after

    def step_back(self) -> None:
        """Add the errors of one more backward step."""
        if not self._exact:
            self.height += self._error_of(self._largest_low)
            self.shortfall += self._error_of(self._largest_high)

    def _error_of(self, largest_bound: float) -> float:
        """What one step adds to an error. Where the bound after is 0, r + γ·0 - min r rounds but does not cancel."""
        return BOUND_OPERATIONS * UNIT_ROUNDOFF * (largest_bound + self._largest_reward) if largest_bound else 0.0

    def saw_bounds(self, bounds: NDArray[np.float64]) -> None:
        """Note lo and hi (n, 2) of the step that was just made."""
        self._largest_low, self._largest_high = np.abs(bounds).max(axis=0, initial=0.0).tolist()

    def reward(self, roundoff: float, remaining: int) -> float:
        """The error of sums of rewards that may cancel, or that are compared with heights above a bound other than 0."""
        return roundoff * remaining * self._largest_reward if self._signed or self._largest_low else 0.0
