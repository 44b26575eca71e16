"""The backward pass: every quantity of the analysis from the last step to the first, two layers in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sqirl.analysis import kernels
from sqirl.analysis.kernels import BASE, OPTIMAL, WORST, Dynamics, Step
from sqirl.analysis.rounding import relative_roundoff
from sqirl.mdp.convert import to_stochastic
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
    layers = _Layers(mdp, max_k, first_k, discount, random_base=random_base, with_returns=with_returns)
    sets = sets or reachable_sets(mdp, horizon)
    gaps, tail_gap = np.full(layers.num_kept, np.inf), np.inf
    for t in reversed(range(horizon)):
        gaps = np.minimum(gaps, layers.step_back(sets.states(t), t, horizon))
        if horizon - t <= max_k:
            tail_gap = gaps[-1]
    U, D = layers.U[mdp.start_states, 0], layers.D[mdp.start_states, 0]
    at_start = mdp.start_probabilities @ U
    margins = D.min(axis=0)
    return Sweep(
        optimal=float(at_start[OPTIMAL]),
        worst=float(at_start[WORST]),
        base=float(at_start[BASE]),
        greedy=at_start[max_k + 2 :],
        gaps=gaps,
        decisive_gaps=np.maximum(margins, 0),
        wrong_decisions=tuple(_decode(margin, mdp.num_states, horizon) for margin in margins.tolist()),
        tail_gap=float(tail_gap),
    )


def q_values(
    mdp: TabularMDP, decision: Decision, horizon: int, *, k: int, discount: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """(A,) Q^k and (A,) Q* of *executing* each action at that time and state (X of `kernels`; see there for stickiness)."""
    remaining = horizon - decision.t
    layers = _Layers(mdp, k, k, discount, with_returns=False)
    sets = reachable_sets(mdp, remaining, start=np.array([decision.state]))
    for t in reversed(range(1, remaining)):
        layers.step_back(sets.states(t), t, remaining)
    X = kernels.q_rows(layers.dynamics, decision.state, remaining == 1, layers.U, layers.U.shape[1])
    return X[:, k + 1].copy(), X[:, OPTIMAL].copy()


def value(
    mdp: TabularMDP,
    horizon: int,
    rule: int = kernels.MAXIMUM,
    *,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> float:
    """The return of the best, the random or the worst policy alone (`rule` MAXIMUM, MEAN or MINIMUM)."""
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


def return_range(mdp: TabularMDP, horizon: int, *, discount: float, sets: ReachableSets) -> tuple[float, float]:
    """The least and the greatest total reward that an episode can have at all: what normalises returns to [0, 1].

    The paper assumes that the total reward lies in [0, 1] almost surely, so luck counts: these are extremes over actions and
    outcomes, not over expected returns. Sticky actions change nothing, since any action can be executed at any step.
    """
    outcomes = to_stochastic(mdp).outcomes
    assert outcomes is not None
    low, high, low_next, high_next = (np.empty(mdp.num_states) for _ in range(4))
    for t in reversed(range(horizon)):
        low, low_next, high, high_next = low_next, low, high_next, high
        kernels.extremes_step(
            sets.states(t),
            mdp.num_actions,
            outcomes.indptr,
            outcomes.next_states,
            outcomes.rewards,
            discount,
            t == horizon - 1,
            low_next,
            high_next,
            low,
            high,
        )
    return float(low[mdp.start_states].min()), float(high[mdp.start_states].max())


def fits_in_memory(mdp: TabularMDP, max_k: int, num_kept: int) -> bool:
    """Can a pass over Q^1..Q^max_k that keeps `num_kept` of them be held in the memory that is free now?"""
    slots = mdp.num_actions if mdp.stickiness else 1
    columns = 2 * (max_k + 2) + 2 * num_kept  # U, B at worst, and D
    needed = 2 * 8 * mdp.num_states * slots * columns  # two layers of float64
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # a system that does not say
        return True
    return needed < MEMORY_SHARE * free


class _Layers:
    """The two layers of U, B and D that a pass keeps, and the step from one to the other."""

    def __init__(
        self,
        mdp: TabularMDP,
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
        slots = mdp.num_actions if mdp.stickiness else 1
        signs = np.sign(mdp.rewards if mdp.outcomes is None else mdp.outcomes.rewards)
        signed = bool((signs > 0).any() and (signs < 0).any())
        self.magnitudes = _magnitudes(mdp, self.dynamics) if signed else self.dynamics
        self.max_outcomes = 1 if mdp.outcomes is None else int(np.diff(mdp.outcomes.indptr).max())
        S = mdp.num_states
        self.U, self._U = _two((S, slots, max_k + 2 + (self.num_kept if with_returns else 0)))
        self.B, self._B = _two((S if signed else 0, slots, max_k + 2))
        self.D, self._D = _two((S, slots, self.num_kept))

    def step_back(self, states: np.ndarray, t: int, horizon: int) -> np.ndarray:
        """Move from layer t + 1 to layer t; the least gap of each Q^k among `states`."""
        self.U, self._U = self._U, self.U
        self.B, self._B = self._B, self.B
        self.D, self._D = self._D, self.D
        remaining = horizon - t
        step = Step(
            num_k=self.max_k,
            first_k=self.first_k,
            with_returns=self.with_returns,
            random_base=self.random_base,
            stickiness=self.stickiness if t else 0.0,  # the first action has none before it to repeat
            is_last=remaining == 1,
            roundoff=relative_roundoff(remaining, self.dynamics.rewards.shape[1], self.max_outcomes),
            remaining=remaining,
        )
        least: np.ndarray = kernels.sweep_step(
            states, self.dynamics, self.magnitudes, step, self._U, self._B, self._D, self.U, self.B, self.D
        )
        return least


def _two(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    return (np.empty(shape) for _ in range(2))


def dynamics_of(mdp: TabularMDP, discount: float) -> Dynamics:
    """The MDP as the kernels take it."""
    if mdp.transitions is not None:
        empty = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0)
        return Dynamics(True, mdp.transitions, mdp.rewards, *empty, float(discount))
    outcomes = mdp.outcomes
    assert outcomes is not None
    arrays = outcomes.indptr, outcomes.next_states, outcomes.probabilities
    return Dynamics(False, np.empty((0, 0), np.int32), mdp.rewards, *arrays, float(discount))


def _magnitudes(mdp: TabularMDP, dynamics: Dynamics) -> Dynamics:
    """The same dynamics with absolute rewards: their values bound the rounding errors of values that may cancel."""
    if mdp.outcomes is None:
        return dynamics._replace(rewards=np.abs(mdp.rewards))
    weighted = np.append(mdp.outcomes.probabilities * np.abs(mdp.outcomes.rewards), 0.0)
    absolute = np.add.reduceat(weighted, mdp.outcomes.indptr[:-1]).reshape(mdp.rewards.shape)
    return dynamics._replace(rewards=absolute)


def _decode(margin: float, num_states: int, horizon: int) -> Decision | None:
    """The (time, state) that a negative margin names (see `kernels.witness_code`)."""
    if margin >= 0:
        return None
    remaining, state = divmod(int(-margin) - 1, num_states)
    return Decision(horizon - remaining, state)
