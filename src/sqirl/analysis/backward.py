"""The backward pass: all quantities of the analysis, from the last time step to the first, with two layers in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import MAXIMUM, Step, backward_step, look_at_row, value_step
from sqirl.analysis.columns import HIGH, LOW, Columns, columns_for, new_layer, num_slots, pass_bytes
from sqirl.analysis.dynamics import dynamics_of
from sqirl.analysis.rounding import BoundErrors, relative_roundoff
from sqirl.analysis.witness import Decision, decode_witness, encode_witness
from sqirl.mdp.reach import ReachableSets, reachable_sets
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.memory import available_memory

#: The share of free memory that the search for min k may take.
MEMORY_SHARE = 0.7


@dataclass(frozen=True)
class BackwardPass:
    """What a backward pass finds at the start, for the n values k = first_k..K. Gaps are in the units of the rewards."""

    optimal: float  # J*
    worst: float
    base: float  # the random policy's return; 0 where the sequence starts from the rewards
    return_range: tuple[float, float]  # least and greatest total reward of an episode, over all actions and outcomes
    near_greedy: NDArray[np.float64]  # (n, slacks) return of the worst policy within each slack of greedy on Q^k
    gaps: NDArray[
        np.float64
    ]  # (n,) the k-gap Δ_k over all reachable times and states; inf where every action is greedy
    decisive_gaps: NDArray[
        np.float64
    ]  # (n,) only where a greedy policy goes, only against actions that are not optimal
    wrong_decisions: tuple[Decision | None, ...]  # None where every policy greedy on Q^k is optimal
    tail_gap: float  # least gap of Q^K where at most K steps remain. Q^k = Q^K there for k ≥ K, so Δ_k ≤ tail_gap

    @property
    def greedy(self) -> NDArray[np.float64]:
        """(n,) return of the worst policy greedy on Q^k: with no slack."""
        return self.near_greedy[:, 0]

    @property
    def solvable(self) -> NDArray[np.bool_]:
        """(n,) True where the MDP is k-QVI-solvable: every policy greedy on Q^k is optimal (Definition 3.1 of the paper)."""
        return np.array([decision is None for decision in self.wrong_decisions])


def backward_pass(
    mdp: TabularMDP,
    horizon: int,
    *,
    max_k: int,
    first_k: int = 1,
    random_base: bool = True,
    with_returns: bool = True,
    slacks: NDArray[np.float64] | None = None,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> BackwardPass:
    """V*, the worst and the random return, and Q^1..Q^max_k with the returns of their greedy policies, in one pass.

    With `random_base=False` the sequence starts from the rewards instead of the random policy's Q-function. `slacks` (n, slacks),
    in the units of the rewards, are for the returns of policies that need not be greedy; without them, only greedy ones count.
    """
    if slacks is None:
        slacks = np.zeros((max_k - first_k + 1, int(with_returns)))
    columns = columns_for(max_k, first_k, random_base=random_base, num_slacks=slacks.shape[1])
    layers = _Layers(mdp, horizon, columns, discount, slacks)
    sets = sets or reachable_sets(mdp, horizon)
    gaps, tail_gap = np.full(columns.num_kept, np.inf), np.inf
    for t in reversed(range(horizon)):
        gaps = np.minimum(gaps, layers.step_back(sets.states(t), t))
        if horizon - t <= max_k:
            tail_gap = gaps[-1]

    start = mdp.start_states
    low, high = layers.layer.bounds[start, 0, LOW], layers.layer.bounds[start, 0, HIGH]
    values, margins = layers.layer.U[start, 0], layers.layer.D[start, 0].min(axis=0)
    expected = mdp.start_probabilities @ values  # (width,)
    least = float(mdp.start_probabilities @ low)
    return BackwardPass(
        optimal=least + float(expected[columns.optimal]),
        worst=float(expected[columns.worst]),
        base=least + float(expected[columns.base]) if random_base else 0.0,
        return_range=(float(low.min()), float(high.max())),
        near_greedy=expected[columns.greedy],
        gaps=gaps,
        decisive_gaps=np.maximum(margins, 0),
        wrong_decisions=tuple(decode_witness(margin, mdp.num_states, horizon) for margin in margins.tolist()),
        tail_gap=float(tail_gap),
    )


def look_at(
    mdp: TabularMDP, decision: Decision, horizon: int, *, k: int, discount: float = 1.0
) -> tuple[tuple[NDArray[np.float64], NDArray[np.bool_]], tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """For Q^k and for Q* at that time and state: (A,) the value of *executing* each action, and (A,) which are best.

    `backup.py` says what executing means where actions are sticky.
    """
    remaining = horizon - decision.t
    columns = columns_for(k, k, num_slacks=0)
    layers = _Layers(mdp, remaining, columns, discount, np.zeros((1, 0)))
    sets = reachable_sets(mdp, remaining, start=np.array([decision.state]))
    for t in reversed(range(1, remaining)):
        layers.step_back(sets.states(t), t)
    step = layers.step(0)
    at_k, at_optimal = (
        look_at_row(layers.dynamics, decision.state, columns, step, layers.layer, column)
        for column in (int(columns.q[k]), columns.optimal)
    )
    return at_k, at_optimal


def value(
    mdp: TabularMDP,
    horizon: int,
    rule: int = MAXIMUM,
    *,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> float:
    """The return of the best, the random or the worst policy alone (`rule` MAXIMUM, MEAN or MINIMUM).

    Many times faster than `backward_pass`, for callers that need no more than this.
    """
    dynamics = dynamics_of(mdp, discount)
    shape = mdp.num_states, num_slots(mdp), 1
    V, V_next = np.empty(shape), np.empty(shape)
    actions = tuple(range(mdp.num_actions))
    sets = sets or reachable_sets(mdp, horizon)
    for t in reversed(range(horizon)):
        V, V_next = V_next, V
        stickiness = mdp.stickiness if t else 0.0
        value_step(actions, sets.states(t), dynamics, rule, stickiness, t == horizon - 1, V_next, V)
    return float(mdp.start_probabilities @ V[mdp.start_states, 0, 0])


def fits_in_memory(mdp: TabularMDP, max_k: int, first_k: int) -> bool:
    """Does a pass over Q^1..Q^max_k that keeps those from `first_k` fit into the memory that is free now?"""
    free = available_memory()
    return free is None or pass_bytes(mdp, columns_for(max_k, first_k)) < MEMORY_SHARE * free


class _Layers:
    """The two layers of a backward pass, and the step from one to the other."""

    def __init__(
        self, mdp: TabularMDP, horizon: int, columns: Columns, discount: float, slacks: NDArray[np.float64]
    ) -> None:
        self.mdp, self.horizon, self.columns, self.slacks = mdp, horizon, columns, slacks
        self.dynamics = dynamics_of(mdp, discount)
        self.layer, self._other = new_layer(mdp, columns), new_layer(mdp, columns)
        rewards = mdp.rewards if mdp.outcomes is None else mdp.outcomes.rewards
        self._errors = BoundErrors(rewards, horizon, discount)

    def step(self, t: int) -> Step:
        """What the backward step to time t needs to know."""
        remaining = self.horizon - t
        roundoff = relative_roundoff(remaining, self.mdp.num_actions, self.mdp.max_outcomes)
        height_error = self._errors.height if self.columns.random_base else self._errors.reward(roundoff, remaining)
        return Step(
            stickiness=self.mdp.stickiness if t else 0.0,  # the first action has no previous action to repeat
            is_last=remaining == 1,
            roundoff=roundoff,
            height_error=height_error,
            shortfall_error=self._errors.shortfall,
            slacks=self.slacks,
        )

    def step_back(self, states: NDArray[np.int32], t: int) -> NDArray[np.float64]:
        """Go from time t + 1 to time t at `states` (n,); (num_kept,) the least gap of each Q^k among them."""
        self.layer, self._other = self._other, self.layer
        self._errors.step_back()
        witnesses = encode_witness(states, self.horizon - t, self.mdp.num_states)
        least: NDArray[np.float64] = backward_step(
            states, witnesses, self.dynamics, self.columns, self.step(t), *self._other, *self.layer
        )
        self._errors.saw_bounds(self.layer.bounds[states, 0])
        return least
