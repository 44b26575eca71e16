"""Checks that the arrays of a `TabularMDP` describe an MDP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP

if TYPE_CHECKING:
    from sqirl.mdp.tabular import TabularMDP

#: How far the sum of probabilities may be from 1: much more than rounding errors, much less than a missing outcome.
PROBABILITY_TOLERANCE = 1e-8


def validate(mdp: TabularMDP) -> None:
    """Raise `InvalidMDP` for the first problem found."""
    _check_rewards(mdp.rewards)
    if (mdp.transitions is None) == (mdp.outcomes is None):
        raise InvalidMDP("an MDP has either transitions (deterministic) or outcomes (stochastic); give exactly one")
    if mdp.transitions is not None:
        if mdp.transitions.shape != mdp.rewards.shape:
            raise InvalidMDP(f"transitions {mdp.transitions.shape} and rewards {mdp.rewards.shape} differ in shape")
        _check_next_states(mdp.transitions, mdp)
    else:
        _check_outcomes(mdp)
    _check_start(mdp)
    if not 0.0 <= mdp.stickiness < 1.0:
        raise InvalidMDP(f"stickiness {mdp.stickiness} is not in [0, 1); it is the probability of repeating an action")
    if mdp.horizon is not None and mdp.horizon < 1:
        raise InvalidMDP(f"horizon {mdp.horizon} is below 1; an episode has at least one step")
    if mdp.depth is not None and mdp.depth < 1:
        raise InvalidMDP(f"depth {mdp.depth} is below 1; an MDP is enumerated to at least one step")
    _check_screens(mdp)


def _check_rewards(rewards: NDArray[np.float64]) -> None:
    """The rewards are a table (S, A) of finite numbers."""
    if rewards.ndim != 2 or 0 in rewards.shape:
        raise InvalidMDP(f"rewards have shape {rewards.shape}; (S, A) with at least one state and one action is needed")
    if not np.isfinite(rewards).all():
        s, a = np.argwhere(~np.isfinite(rewards))[0]
        raise InvalidMDP(f"reward of state {s}, action {a} is {rewards[s, a]}; rewards must be finite")


def _check_next_states(next_states: NDArray[np.int32], mdp: TabularMDP) -> None:
    """Every next state is END or a state. `next_states` is a table (S, A) or the CSR array (nnz,)."""
    low, high = int(next_states.min()), int(next_states.max())
    if low < -1 or high >= mdp.num_states:
        wrong = low if low < -1 else high
        where = np.argwhere(next_states == wrong)[0]
        place = f"state {where[0]}, action {where[1]}" if where.size == 2 else f"outcome {where[0]}"
        raise InvalidMDP(f"{place} leads to {wrong}, outside -1..{mdp.num_states - 1} (-1 ends the episode)")


def _check_outcomes(mdp: TabularMDP) -> None:
    """The CSR arrays belong together, every row is a distribution, and `rewards` are the mean rewards."""
    outcomes = mdp.outcomes
    assert outcomes is not None
    rows, nnz = mdp.num_states * mdp.num_actions, outcomes.next_states.size
    if outcomes.indptr.shape != (rows + 1,) or outcomes.indptr[0] != 0 or outcomes.indptr[-1] != nnz:
        raise InvalidMDP(f"indptr must have S·A + 1 = {rows + 1} entries from 0 to {nnz}, the number of outcomes")
    if (np.diff(outcomes.indptr) < 1).any():
        row = int(np.argmax(np.diff(outcomes.indptr) < 1))
        raise InvalidMDP(f"state {row // mdp.num_actions}, action {row % mdp.num_actions} has no outcome")
    if not (outcomes.probabilities.shape == outcomes.rewards.shape == (nnz,)):
        raise InvalidMDP("next states, probabilities and rewards of the outcomes differ in length")
    if outcomes.draws is not None and (outcomes.draws.shape != (rows,) or (outcomes.draws < 1).any()):
        raise InvalidMDP(f"draws must have S·A = {rows} entries of at least 1, not shape {outcomes.draws.shape}")
    _check_next_states(outcomes.next_states, mdp)
    if not np.isfinite(outcomes.rewards).all():
        raise InvalidMDP(f"outcome {int(np.argmin(np.isfinite(outcomes.rewards)))} has a reward that is not finite")
    if not (outcomes.probabilities > 0).all():  # also catches NaN
        entry = int(np.argmin(outcomes.probabilities > 0))
        raise InvalidMDP(
            f"outcome {entry} has probability {outcomes.probabilities[entry]}; probabilities must be positive"
        )
    sums = np.add.reduceat(outcomes.probabilities, outcomes.indptr[:-1])
    if np.abs(sums - 1).max() > PROBABILITY_TOLERANCE:
        row = int(np.abs(sums - 1).argmax())
        raise InvalidMDP(
            f"probabilities of state {row // mdp.num_actions}, action {row % mdp.num_actions} sum to {sums[row]:.9g}, not 1"
        )
    expected = outcomes.expected_rewards(mdp.num_actions)
    if not np.allclose(mdp.rewards, expected, rtol=1e-6, atol=1e-9):  # a file may hold them in float32
        s, a = np.argwhere(~np.isclose(mdp.rewards, expected, rtol=1e-6, atol=1e-9))[0]
        raise InvalidMDP(
            f"reward {mdp.rewards[s, a]:g} of state {s}, action {a} is not the mean reward of its outcomes, {expected[s, a]:g}"
        )


def _check_start(mdp: TabularMDP) -> None:
    """The start states are distinct states, and their probabilities sum to 1."""
    states, probabilities = mdp.start_states, mdp.start_probabilities
    if states.ndim != 1 or states.shape != probabilities.shape or not states.size:
        raise InvalidMDP(
            "start_states and start_probabilities must be arrays of one dimension and equal length, at least 1"
        )
    if mdp.start_seeds is not None and mdp.start_seeds.dtype.kind not in "iu":
        raise InvalidMDP(f"start_seeds must be integers, not {mdp.start_seeds.dtype}")
    if mdp.start_seeds is not None and mdp.start_seeds.shape != states.shape:
        raise InvalidMDP(f"{len(mdp.start_seeds)} start_seeds were given for {len(states)} start states")
    if len(np.unique(states)) < len(states):
        raise InvalidMDP("a start state is listed twice; list it once, with the sum of its probabilities")
    if states.min() < 0 or states.max() >= mdp.num_states:
        raise InvalidMDP(f"a start state lies outside 0..{mdp.num_states - 1}")
    if not (probabilities > 0).all() or abs(probabilities.sum() - 1) > PROBABILITY_TOLERANCE:
        raise InvalidMDP(f"start probabilities must be positive and sum to 1, not to {probabilities.sum():.9g}")


def _check_screens(mdp: TabularMDP) -> None:
    """Every state has a screen, or none has."""
    if mdp.screen_mapping is None:
        if mdp.screens is not None:
            raise InvalidMDP("screens without screen_mapping; give the number of each state's screen")
        return
    if mdp.screen_mapping.dtype.kind not in "iu":
        raise InvalidMDP(
            f"screen_mapping must be integers, the number of each state's screen, not {mdp.screen_mapping.dtype}"
        )
    if mdp.screens is not None and mdp.screens.dtype.kind not in "biuf":
        raise InvalidMDP(f"screens must be numbers, not {mdp.screens.dtype}")
    if mdp.screen_mapping.shape != (mdp.num_states,):
        raise InvalidMDP(f"screen_mapping has shape {mdp.screen_mapping.shape}, not ({mdp.num_states},)")
    if mdp.screen_mapping.min() < 0 or (mdp.screens is not None and mdp.screen_mapping.max() >= len(mdp.screens)):
        raise InvalidMDP(f"screen_mapping points outside the {0 if mdp.screens is None else len(mdp.screens)} screens")
