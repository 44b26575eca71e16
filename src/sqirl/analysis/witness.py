"""A wrong decision, and the number that stands for it in the margins of the backward pass.

The backward pass carries the least margin along all greedy paths (`D` in `backup.py`). Margins are never negative. Where a
greedy action is not optimal, the pass writes a negative number that names the time and the state. The minimum over the path
keeps this number. An earlier time has a smaller number, so that the start receives the earliest wrong decision.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """A time (steps already taken) and a state at which an action that is greedy on Q^k is not optimal."""

    t: int
    state: int


def encode_witness(state: int, remaining: int, num_states: int) -> float:
    """The negative number of a state when `remaining` steps are left; that of state s is s less than that of state 0.

    The numbers are exact: they stay far below 2^53.
    """
    return -(1.0 + remaining * float(num_states) + state)


def decode_witness(margin: float, num_states: int, horizon: int) -> Decision | None:
    """The decision that a margin names; None if it is a margin (not negative)."""
    if margin >= 0:
        return None
    remaining, state = divmod(int(-margin) - 1, num_states)
    return Decision(horizon - remaining, state)
