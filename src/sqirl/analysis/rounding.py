"""Rounding errors: how far a computed value can be from the exact one. This says when digits suffice to order two actions.

A value at n steps from the horizon is the result of n backups. A backup rounds once for every term of its sums, and a few
times more.

**Floats.** Where all rewards have one sign, no sum cancels. The *relative* error of a value is then at most

    n · (roundings of a backup) · 2^-53

to first order. Where rewards have both signs, the error is *absolute*: each of the n backups rounds sums that are at most the
largest total.

**Fixed-point numbers.** Every operation adds an error of a few units (`fixed_point.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sqirl.analysis.fixed_point import operation_error, places_for
from sqirl.analysis.values import Precision
from sqirl.mdp.tabular import TabularMDP

#: Half the distance from 1.0 to the next float64: the relative error of one rounding.
UNIT_ROUNDOFF = 2.0**-53

#: Roundings of a backup that do not belong to its sums: the discount, the two products and the sum of stickiness, the reward, the
#: weight, and one because a probability is itself rounded (the float 1/3 is not exactly 1/3).
FIXED_OPERATIONS = 8

#: The words of the numbers of a pass, in the order in which they are tried; 0 stands for floats.
LEVELS = (0, 4, 8, 16)

#: A difference that decides something must be this many times its error, so that gaps are known to four digits. With the last
#: of the levels, a difference must only be above its error.
SHARPNESS = 2.0**13


def relative_roundoff(steps: int, num_actions: int, max_outcomes: int) -> float:
    """A bound on the relative error of floats after `steps` backups.

    A mean is a sum over the actions. An expectation is a sum over the outcomes of one action.
    """
    return steps * operations(num_actions, max_outcomes) * UNIT_ROUNDOFF


def operations(num_actions: int, max_outcomes: int) -> int:
    """The roundings of one backup."""
    return num_actions + max_outcomes + FIXED_OPERATIONS


@dataclass(frozen=True)
class Rounding:
    """What the errors of a pass over one MDP depend on."""

    operations: int
    largest_reward: float
    both_signs: bool
    horizon: int
    num_actions: int

    @classmethod
    def of(cls, mdp: TabularMDP, horizon: int) -> Self:
        rewards = mdp.rewards if mdp.outcomes is None else mdp.outcomes.rewards
        least, greatest = float(rewards.min()), float(rewards.max())
        return cls(
            operations(mdp.num_actions, mdp.max_outcomes), max(-least, greatest), least < 0 < greatest, horizon,
            mdp.num_actions,
        )  # fmt: skip

    def precision(self, steps: int, level: int) -> Precision:
        """Of values after `steps` backups in numbers of the level."""
        num_words, sharpness = LEVELS[level], SHARPNESS if level + 1 < len(LEVELS) else 1.0
        if num_words:
            places = places_for(num_words, self.horizon * self.num_actions * self.largest_reward)
            units = steps * self.operations * operation_error(num_words)
            unit = 2.0**-places
            return Precision(0.0, units * unit, sharpness, places, unit)
        roundoff = self.operations * UNIT_ROUNDOFF
        if self.both_signs:
            return Precision(0.0, roundoff * self.largest_reward * steps * (steps + 1) / 2, sharpness, 0, 0.0)
        return Precision(roundoff * steps, 0.0, sharpness, 0, 0.0)
