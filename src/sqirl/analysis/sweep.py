"""The backward pass: every quantity of the analysis from the last step to the first, two layers in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqirl.analysis import kernels
from sqirl.analysis.kernels import BASE, OPTIMAL, Dynamics, Step
from sqirl.analysis.rounding import bound_error, relative_roundoff, totals_are_exact
from sqirl.mdp.reach import ReachableSets, reachable_sets
from sqirl.mdp.tabular import TabularMDP

#: The share of free memory that the search for min k may take.
MEMORY_SHARE = 0.7


@dataclass(frozen=True)
class Decision:
    """A time (steps already taken) and a state at which a greedy action is not optimal."""

    t: int
    state: int


@dataclass(frozen=True)
class Sweep:
    """What a pass finds at the start, for k = first_k..K; gaps in the units of the rewards."""

    optimal: float
    worst: float
    base: float  # the random policy's return, or 0 where the base is no policy
    return_range: tuple[float, float]  # least and greatest total reward that an episode can have at all, luck included
    greedy: np.ndarray  # (n,) worst return over the policies greedy on Q^k; empty if it was not asked for
    gaps: np.ndarray  # (n,) Δ_k over all reachable times and states; inf where every action is greedy
    decisive_gaps: np.ndarray  # (n,) the same where a greedy policy goes, against actions that are not optimal
    wrong_decisions: tuple[Decision | None, ...]  # None where every policy greedy on Q^k is optimal
    tail_gap: (
        float  # the least gap of Q^K where at most K steps remain: no later Q^k differs there, so Δ_k ≤ this for k ≥ K
    )

    @property
    def solvable(self) -> np.ndarray:
        """(n,) bool: is every policy greedy on Q^k optimal?"""
        return np.array([decision is None for decision in self.wrong_decisions])


def sweep(
    mdp: TabularMDP,
    horizon: int,
    *,
    max_k: int,
    first_k: int = 1,
    random_base: bool = True,
    with_returns: bool = True,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> Sweep:
    """One backward pass that carries V*, the worst and the random return and Q^1..Q^max_k together.

    With `random_base=False` the sequence starts from the rewards instead of the random policy's Q-function.
    """
    layers = _Layers(mdp, horizon, max_k, first_k, discount, random_base=random_base, with_returns=with_returns)
    sets = sets or reachable_sets(mdp, horizon)
    gaps, tail_gap = np.full(layers.num_kept, np.inf), np.inf
    for t in reversed(range(horizon)):
        gaps = np.minimum(gaps, layers.step_back(sets.states(t), t, horizon))
        if horizon - t <= max_k:
            tail_gap = gaps[-1]
    start = mdp.start_states
    low, values, margins = layers.low[start], layers.U[start, 0], layers.D[start, 0].min(axis=0)
    expected = mdp.start_probabilities @ values
    least = float(mdp.start_probabilities @ low)
    worst = 2 * (max_k + 1)
    return Sweep(
        optimal=least + float(expected[OPTIMAL]),
        worst=float(expected[worst]),
        base=least + float(expected[BASE]) if random_base else 0.0,
        return_range=(float(low.min()), float(layers.high[start].max())),
        greedy=expected[worst + 1 :],
        gaps=gaps,
        decisive_gaps=np.maximum(margins, 0),
        wrong_decisions=tuple(_decode(margin, mdp.num_states, horizon) for margin in margins.tolist()),
        tail_gap=float(tail_gap),
    )


def look_at(
    mdp: TabularMDP, decision: Decision, horizon: int, *, k: int, discount: float = 1.0
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """At that time and state, for Q^k and for Q*: (A,) the value of *executing* each action, and (A,) bool which are best.

    See `kernels` for what executing means where actions are sticky.
    """
    remaining = horizon - decision.t
    layers = _Layers(mdp, remaining, k, k, discount, with_returns=False)
    sets = reachable_sets(mdp, remaining, start=np.array([decision.state]))
    for t in reversed(range(1, remaining)):
        layers.step_back(sets.states(t), t, remaining)
    step = layers.step(0, remaining)
    arrays = layers.low, layers.high, layers.U, layers.D
    at_k, at_optimal = (
        kernels.look_at_row(layers.dynamics, decision.state, step, *arrays, column) for column in (k, OPTIMAL)
    )
    return at_k, at_optimal


def value(
    mdp: TabularMDP,
    horizon: int,
    rule: int = kernels.MAXIMUM,
    *,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> float:
    """The return of the best, the random or the worst policy alone (`rule` MAXIMUM, MEAN or MINIMUM).

    For whoever needs no more than that: many times faster than `sweep`.
    """
    dynamics = dynamics_of(mdp, discount)
    slots = mdp.num_actions if mdp.stickiness else 1
    V, V_next = _two((mdp.num_states, slots))
    actions = tuple(range(mdp.num_actions))
    sets = sets or reachable_sets(mdp, horizon)
    for t in reversed(range(horizon)):
        V, V_next = V_next, V
        stickiness = mdp.stickiness if t else 0.0
        kernels.value_step(actions, sets.states(t), dynamics, rule, stickiness, t == horizon - 1, V_next, V)
    return float(mdp.start_probabilities @ V[mdp.start_states, 0])


def fits_in_memory(mdp: TabularMDP, max_k: int, num_kept: int) -> bool:
    """Can a pass over Q^1..Q^max_k that keeps `num_kept` of them be held in the memory that is free now?"""
    slots = mdp.num_actions if mdp.stickiness else 1
    columns = 2 * (max_k + 1) + 1 + 2 * num_kept  # U and D
    needed = 2 * 8 * mdp.num_states * slots * columns  # two layers of float64
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # a system that does not say
        return True
    return needed < MEMORY_SHARE * free


class _Layers:
    """The two layers of lo, hi, U and D that a pass keeps, and the step from one to the other."""

    def __init__(
        self,
        mdp: TabularMDP,
        horizon: int,
        max_k: int,
        first_k: int,
        discount: float,
        *,
        random_base: bool = True,
        with_returns: bool,
    ) -> None:
        self.dynamics = dynamics_of(mdp, discount)
        self.stickiness, self.random_base, self.with_returns = mdp.stickiness, random_base, with_returns
        self.max_k, self.first_k, self.num_kept = max_k, first_k, max_k - first_k + 1
        self.max_outcomes = mdp.max_outcomes
        rewards = mdp.rewards if mdp.outcomes is None else mdp.outcomes.rewards
        self._exact = totals_are_exact(rewards, horizon, discount)
        self._largest_reward = float(np.abs(rewards).max())
        self._signed = bool((rewards > 0).any() and (rewards < 0).any())
        self._largest_low = self._largest_high = self._height_error = self._shortfall_error = 0.0
        size, slots = mdp.num_states, mdp.num_actions if mdp.stickiness else 1
        self.low, self._low = _two((size,))
        self.high, self._high = _two((size,))
        self.U, self._U = _two((size, slots, 2 * (max_k + 1) + 1 + (self.num_kept if with_returns else 0)))
        self.D, self._D = _two((size, slots, self.num_kept))

    def step(self, t: int, horizon: int) -> Step:
        remaining = horizon - t
        roundoff = relative_roundoff(remaining, self.dynamics.rewards.shape[1], self.max_outcomes)
        return Step(
            num_k=self.max_k,
            first_k=self.first_k,
            with_returns=self.with_returns,
            random_base=self.random_base,
            stickiness=self.stickiness if t else 0.0,  # the first action has none before it to repeat
            is_last=remaining == 1,
            remaining=remaining,
            roundoff=roundoff,
            height_error=self._height_error if self.random_base else self._reward_error(roundoff, remaining),
            shortfall_error=self._shortfall_error,
        )

    def _reward_error(self, roundoff: float, remaining: int) -> float:
        """The absolute error of sums of rewards that may cancel, or that lie beside a bound other than 0."""
        return roundoff * remaining * self._largest_reward if self._signed or self._largest_low else 0.0

    def step_back(self, states: np.ndarray, t: int, horizon: int) -> np.ndarray:
        """Move from layer t + 1 to layer t; the least gap of each Q^k among `states`."""
        self.low, self._low = self._low, self.low
        self.high, self._high = self._high, self.high
        self.U, self._U = self._U, self.U
        self.D, self._D = self._D, self.D
        before, after = (self._low, self._high, self._U, self._D), (self.low, self.high, self.U, self.D)
        if not self._exact:
            self._height_error += bound_error(self._largest_low, self._largest_reward)
            self._shortfall_error += bound_error(self._largest_high, self._largest_reward)
        least: np.ndarray = kernels.sweep_step(states, self.dynamics, self.step(t, horizon), *before, *after)
        self._largest_low = float(np.abs(self.low[states]).max(initial=0.0))
        self._largest_high = float(np.abs(self.high[states]).max(initial=0.0))
        return least


def _two(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    return (np.empty(shape) for _ in range(2))


def dynamics_of(mdp: TabularMDP, discount: float) -> Dynamics:
    """The MDP as the kernels take it."""
    if mdp.transitions is not None:
        empty = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0)
        return Dynamics(True, mdp.transitions, mdp.rewards, *empty, float(discount))
    outcomes = mdp.outcomes
    assert outcomes is not None
    arrays = outcomes.indptr, outcomes.next_states, outcomes.probabilities, outcomes.rewards
    return Dynamics(False, np.empty((0, 0), np.int32), mdp.rewards, *arrays, float(discount))


def _decode(margin: float, num_states: int, horizon: int) -> Decision | None:
    """The (time, state) that a negative margin names (see `kernels.witness_code`)."""
    if margin >= 0:
        return None
    remaining, state = divmod(int(-margin) - 1, num_states)
    return Decision(horizon - remaining, state)
