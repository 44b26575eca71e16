"""The dynamics of an MDP as compiled code takes them."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.fingerprint import fingerprint
from sqirl.analysis.fixed_point import weight_words
from sqirl.analysis.probabilities import ExactProbabilities
from sqirl.analysis.values import Weight
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


class Weights(NamedTuple):
    """The numbers that values are multiplied by, exactly."""

    one: Weight
    discount: Weight  # γ
    share: Weight  # 1/A
    choose: Weight  # 1 - ρ
    repeat: Weight  # ρ
    probabilities: NDArray[np.float64]  # (nnz,) the float nearest to each; the array is empty for a table
    fingerprints: NDArray[np.uint64]  # (nnz,)
    words: NDArray[np.uint64]  # (nnz, L + 1)


def dynamics_of(mdp: TabularMDP, discount: float) -> Dynamics:
    """The dynamics of `mdp` without its stickiness."""
    if mdp.transitions is not None:
        empty = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0)
        return Dynamics(_TABLE, mdp.transitions, mdp.rewards, *empty, float(discount))
    outcomes = mdp.outcomes
    assert outcomes is not None
    arrays = outcomes.indptr, outcomes.next_states, outcomes.probabilities, outcomes.rewards
    return Dynamics(_CSR, np.empty((0, 0), np.int32), mdp.rewards, *arrays, float(discount))


def weights_of(mdp: TabularMDP, discount: float, probabilities: ExactProbabilities, num_words: int) -> Weights:
    """The weights of a pass whose numbers have so many words. ρ and γ are the rational numbers that their floats are."""
    rho = Fraction(mdp.stickiness)
    return Weights(
        one=_weight(Fraction(1), num_words),
        discount=_weight(Fraction(discount), num_words),
        share=_weight(Fraction(1, mdp.num_actions), num_words),
        choose=_weight(1 - rho, num_words),
        repeat=_weight(rho, num_words),
        probabilities=probabilities.floats,
        fingerprints=probabilities.fingerprints,
        words=probabilities.words(num_words),
    )


def _weight(value: Fraction, num_words: int) -> Weight:
    return Weight(float(value), np.uint64(fingerprint(value)), weight_words(value, num_words))
