"""When two computed values are equal: the one place that decides ties.

A value at n steps from the horizon is the result of n backups, each of which rounds once for every term that it adds and
a few times more. Values of rewards of one sign never cancel, so their *relative* error stays below

    n · (operations of a backup) · 2^-53

(to first order); with rewards of both signs the same holds relative to the sum of absolute rewards, which the sweep carries
along. Two values are tied if they differ by no more than the two error bounds together. An absolute tolerance would not
do: in sparse games real gaps go down to 1e-11 and below.
"""

from __future__ import annotations

#: Half the distance from 1.0 to the next float64: the relative error of one rounding.
UNIT_ROUNDOFF = 2.0**-53

#: Roundings of a backup besides its sums: discount, the two products and the sum of stickiness, reward, weight, and one
#: for a probability that is itself rounded (1/3 in a file is not 1/3).
FIXED_OPERATIONS = 8


def relative_roundoff(steps: int, num_actions: int, max_outcomes: int) -> float:
    """A bound on the relative error of values `steps` backups deep.

    A mean adds over the actions and an expectation over the outcomes of one row.
    """
    return steps * (num_actions + max_outcomes + FIXED_OPERATIONS) * UNIT_ROUNDOFF
