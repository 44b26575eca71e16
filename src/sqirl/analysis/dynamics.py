"""The dynamics of an MDP as compiled code takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqirl.mdp.tabular import TabularMDP

_TABLE, _CSR = np.empty((0, 0), np.bool_), np.empty(0, np.bool_)


class Dynamics(NamedTuple):
    """A deterministic table (then the CSR arrays are empty) or CSR arrays (then `transitions` is empty).

    `form` is an empty array with two dimensions for a table and with one for CSR. The compiler knows the number of dimensions,
    so the code for one form is compiled without the code for the other. That makes a pass over a table a fifth faster.
    """

    form: NDArray[np.bool_]
    transitions: NDArray[np.int32]  # (S, A) next state, negative where the episode ends
    rewards: NDArray[np.float64]  # (S, A) expected reward
    indptr: NDArray[np.int64]  # (S·A + 1,) row s·A + a owns the outcomes indptr[row]:indptr[row + 1]
    next_states: NDArray[np.int32]  # (nnz,) negative where the episode ends
    probabilities: NDArray[np.float64]  # (nnz,)
    outcome_rewards: NDArray[np.float64]  # (nnz,)
    discount: float  # γ


def dynamics_of(mdp: TabularMDP, discount: float) -> Dynamics:
    """The dynamics of `mdp` without its stickiness."""
    if mdp.transitions is not None:
        empty = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0)
        return Dynamics(_TABLE, mdp.transitions, mdp.rewards, *empty, float(discount))
    outcomes = mdp.outcomes
    assert outcomes is not None
    arrays = outcomes.indptr, outcomes.next_states, outcomes.probabilities, outcomes.rewards
    return Dynamics(_CSR, np.empty((0, 0), np.int32), mdp.rewards, *arrays, float(discount))
