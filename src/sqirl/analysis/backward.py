"""The backward pass: all quantities of the analysis, from the last time step to the first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import Actions, Step, fill
from sqirl.analysis.columns import BASE, OPTIMAL, Columns, Layer, Moved, Places, Sizes, Slots, num_slots, storages
from sqirl.analysis.dynamics import Dynamics, Weights, dynamics_of, weights_of
from sqirl.analysis.memory import Buffer, least_bytes, memory_limit, split
from sqirl.analysis.parallel import in_threads, is_one_block
from sqirl.analysis.probabilities import ExactProbabilities, exact_probabilities
from sqirl.analysis.progress import SILENT, Meter
from sqirl.analysis.reduction import Marks, look_at_row, new_marks, reduce, values_at
from sqirl.analysis.rounding import LEVELS, Rounding
from sqirl.analysis.sweeps import MAXIMUM, range_step, value_step
from sqirl.analysis.witness import Decision, decode_witness, encode_witness
from sqirl.mdp.reach import ReachableSets, reachable_sets
from sqirl.mdp.tabular import TabularMDP

_NOT_ASKED = np.empty((0, 0), np.uint8)


class Exactness:
    """The numbers that the passes of one analysis are computed in, and whether they have decided everything so far.

    `memory` is the number of bytes that a pass may take; None for a share of what is free. `reserved` of
    them are for what the analysis keeps besides.
    """

    def __init__(self, mdp: TabularMDP, *, memory: float | None = None, reserved: int = 0) -> None:
        self.probabilities: ExactProbabilities = exact_probabilities(mdp.outcomes)
        self.level = 0  # of LEVELS
        self.is_exact = True
        self._memory, self._reserved = memory, reserved
        self.buffer = Buffer()

    @property
    def num_words(self) -> int:
        return LEVELS[self.level]

    @property
    def memory(self) -> float:
        """The bytes that a pass may take."""
        limit = memory_limit(self.buffer.num_bytes) if self._memory is None else self._memory
        return limit - self._reserved

    def raise_level(self, mdp: TabularMDP, columns: Columns) -> bool:
        """Take numbers with more digits, if there are such and memory suffices; else note that a comparison stays open."""
        level = self.level + 1
        if level < len(LEVELS) and least_bytes(mdp, columns, LEVELS[level]) <= self.memory:
            self.level = level
            return True
        self.is_exact = False
        return False


@dataclass(frozen=True)
class BackwardPass:
    """What a backward pass finds at the start, for the n values k = first_k..K. Gaps are in the units of the rewards."""

    optimal: float  # J*
    base: float  # the random policy's return; 0 where the sequence starts from the rewards
    worst: float | None  # None where returns were not asked for, or first_k is above 1
    greedy: NDArray[np.float64]  # (n,) return of the worst policy greedy on Q^k; empty where returns were not asked for
    #: (n,) the k-gap Δ_k over all reachable times and states; inf where every action is greedy
    gaps: NDArray[np.float64]
    #: (n,) only where a greedy policy goes, only against actions that are not optimal
    decisive_gaps: NDArray[np.float64]
    wrong_decisions: tuple[Decision | None, ...]  # None where every policy greedy on Q^k is optimal
    tail_gap: float  # least gap of Q^K where at most K steps remain. Q^k = Q^K there for k ≥ K, so Δ_k ≤ tail_gap

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
    with_returns: bool = True,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
    exactness: Exactness | None = None,
    optimal: list[Marks] | None = None,
    meter: Meter = SILENT,
) -> BackwardPass:
    """V*, the worst and the random return, and Q^1..Q^max_k with the returns of their greedy policies, in one pass.

    The pass is repeated with more digits until no comparison is open; `exactness` remembers the digits for the next pass.
    `optimal` ← the optimal actions at the reachable states of each time, by time (`reduction.mark`).
    """
    columns = Columns(max_k, first_k, with_returns)
    sets, exactness = sets or reachable_sets(mdp, horizon), exactness or Exactness(mdp)
    while True:
        level = exactness.level
        found: list[BackwardPass | None] = []
        for part, sizes in split(mdp, columns, exactness.num_words, exactness.memory):
            marked = None if found else optimal
            found.append(_one_pass(mdp, horizon, part, sizes, discount, sets, exactness, marked, meter))
            if exactness.level > level:  # what was found with fewer digits is not used
                break
        else:
            return _joined([result for result in found if result is not None])


def _one_pass(
    mdp: TabularMDP, horizon: int, columns: Columns, sizes: Sizes, discount: float, sets: ReachableSets,
    exactness: Exactness, optimal: list[Marks] | None, meter: Meter,
) -> BackwardPass | None:  # fmt: skip
    """A single pass; None if it was stopped because more digits are needed."""
    layers = Layers(mdp, horizon, columns, discount, exactness, sizes)
    gaps, tail_gap = np.full(columns.num_kept, np.inf), np.inf
    marks, marked = _NOT_ASKED if optimal is None else new_marks(mdp), list[Marks]()
    for t in reversed(range(horizon)):
        states = sets.states(t)
        gaps = np.minimum(gaps, layers.step_back(states, t, marks))
        marked.append(marks[states] if len(marks) else marks)
        meter.advance(len(states) * mdp.num_actions * columns.work)
        if horizon - t <= columns.num_k:
            tail_gap = gaps[-1]
        if layers.num_open and exactness.is_exact and exactness.raise_level(mdp, columns):
            return None
    if optimal is not None:
        optimal[:] = reversed(marked)
    return layers.result(gaps, float(tail_gap))


def _joined(parts: list[BackwardPass]) -> BackwardPass:
    """One result from those of passes over fewer k."""
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        greedy=np.concatenate([part.greedy for part in parts]),
        gaps=np.concatenate([part.gaps for part in parts]),
        decisive_gaps=np.concatenate([part.decisive_gaps for part in parts]),
        wrong_decisions=tuple(decision for part in parts for decision in part.wrong_decisions),
        tail_gap=parts[-1].tail_gap,
    )


def look_at(
    mdp: TabularMDP, decision: Decision, horizon: int, *, k: int, discount: float, exactness: Exactness
) -> tuple[tuple[NDArray[np.float64], NDArray[np.bool_]], tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """For Q^k and for Q* at that time and state: (A,) the value of *executing* each action, and (A,) which are best.

    `backup.py` says what executing means where actions are sticky.
    """
    remaining, columns = horizon - decision.t, Columns(k, k, False)
    sets = reachable_sets(mdp, remaining, start=np.array([decision.state]))
    while True:
        [(_, sizes)] = split(mdp, columns, exactness.num_words, exactness.memory)
        layers = Layers(mdp, remaining, columns, discount, exactness, sizes)
        for t in reversed(range(1, remaining)):
            layers.step_back(sets.states(t), t)
        (q, greedy, open_q), (optimal_q, optimal, open_optimal) = (
            look_at_row(
                decision.state,
                layers.dynamics,
                layers.weights,
                layers.step(0)._replace(is_filled=False),
                layers.layer,
                layers.slots,
                column,
            )
            for column in (k, OPTIMAL)
        )
        is_open = layers.num_open + open_q + open_optimal > 0
        if not (is_open and exactness.is_exact and exactness.raise_level(mdp, columns)):
            return (q, greedy), (optimal_q, optimal)


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
    return float(mdp.start_probabilities @ start_values(mdp, horizon, rule, discount=discount, sets=sets))


def start_values(
    mdp: TabularMDP,
    horizon: int,
    rule: int = MAXIMUM,
    *,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> NDArray[np.float64]:
    """(n,) the same for each start state."""
    dynamics = dynamics_of(mdp, discount)
    shape = num_slots(mdp), mdp.num_states
    V, V_next = np.empty(shape), np.empty(shape)
    actions = tuple(range(mdp.num_actions))
    sets = sets or reachable_sets(mdp, horizon)
    for t in reversed(range(horizon)):
        V, V_next = V_next, V
        stickiness = mdp.stickiness if t else 0.0
        value_step(actions, sets.states(t), dynamics, rule, stickiness, t == horizon - 1, V_next, V)
    at_start: NDArray[np.float64] = V[0, mdp.start_states]
    return at_start


def return_range(mdp: TabularMDP, horizon: int, *, discount: float, sets: ReachableSets) -> tuple[float, float]:
    """The least and the greatest total reward of an episode, over all actions and random outcomes."""
    dynamics = dynamics_of(mdp, discount)
    bounds, after = np.empty((mdp.num_states, 2)), np.empty((mdp.num_states, 2))
    for t in reversed(range(horizon)):
        bounds, after = after, bounds
        in_threads(range_step, sets.states(t), dynamics, t == horizon - 1, after, bounds)
    low, high = bounds[mdp.start_states].T
    return float(low.min()), float(high.max())


def fits_in_memory(mdp: TabularMDP, max_k: int, exactness: Exactness) -> bool:
    """Does a pass for Q^max_k fit into the memory that is free now?"""
    return least_bytes(mdp, Columns(max_k, max_k, True), exactness.num_words) <= exactness.memory


class Layers:
    """The arrays of a backward pass, and the step from one time to the one before."""

    def __init__(
        self, mdp: TabularMDP, horizon: int, columns: Columns, discount: float, exactness: Exactness,
        sizes: Sizes | None = None,
    ) -> None:  # fmt: skip
        self.mdp, self.horizon, self.columns, self._level = mdp, horizon, columns, exactness.level
        self._sizes = sizes or Sizes.of(columns, exactness.num_words, storages(mdp, exactness.num_words)[0])
        self.dynamics = dynamics_of(mdp, discount)
        self.weights = weights_of(mdp, discount, exactness.probabilities, exactness.num_words)
        self.layer, self._places = exactness.buffer.layer(mdp, self._sizes), Places(mdp, self._sizes)
        self._rounding = Rounding.of(mdp, horizon)
        self.num_open = 0  # comparisons that the digits could not decide

    @property
    def slots(self) -> Slots:
        """Where the slots are."""
        return self._places.slots

    def step(self, t: int) -> Step:
        """What the backward step to time t needs to know."""
        return Step(
            is_sticky=self.mdp.stickiness > 0 and t > 0,  # the first action has no previous action to repeat
            is_last=t == self.horizon - 1,
            is_filled=self._sizes.is_filled_first,
            precision=self._rounding.precision(self.horizon - t, self._level),
            first_witness=encode_witness(0, self.horizon - t, self.mdp.num_states),
        )

    def step_back(self, states: NDArray[np.int32], t: int, marks: Marks = _NOT_ASKED) -> NDArray[np.float64]:
        """Go from time t + 1 to time t at `states` (n,); (num_kept,) the least gap of each Q^k among them.

        marks[s] ← the optimal actions in each of the states.
        """
        step, before = self.step(t), self.slots
        for moved in self._sizes.moves:
            source, target = self._places.move(moved)
            if step.is_filled:
                fill_slots(states, moved, self.dynamics, self.weights, step, self.layer, source, target)
        found = in_threads(
            reduce, states, self.dynamics, self.weights, self.columns, step, self.layer, before, self.slots, marks
        )
        least, num_open = zip(*found, strict=True)
        self.num_open += sum(num_open)
        smallest: NDArray[np.float64] = np.minimum.reduce(least)
        return smallest

    def result(self, gaps: NDArray[np.float64], tail_gap: float) -> BackwardPass:
        """What the pass found, once it has arrived at the first time step."""
        mdp, start = self.mdp, self.mdp.start_states
        values, prints = self.slots.values[0], self.slots.prints[0]
        expected = mdp.start_probabilities @ values_at(self.layer.V[values], start, self.step(0).precision.unit)
        returns = means_at_start(mdp, self.layer.G[values])  # (num_returns,)
        margins = np.array([column[start].min() for column in self.layer.D[prints].T])  # (num_kept,)
        return BackwardPass(
            optimal=float(expected[OPTIMAL]),
            base=float(expected[BASE]),
            worst=float(returns[-1]) if self.columns.with_worst else None,
            greedy=returns[: self.columns.num_kept],
            gaps=gaps,
            decisive_gaps=np.maximum(margins, 0),
            wrong_decisions=tuple(decode_witness(margin, mdp.num_states, self.horizon) for margin in margins.tolist()),
            tail_gap=tail_gap,
        )


def means_at_start(mdp: TabularMDP, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) the expected values (S, n) at the start. One column after the other, because there may be as many starts as states."""
    return np.array([mdp.start_probabilities @ column[mdp.start_states] for column in values.T])


def fill_slots(
    states: NDArray[np.int32], moved: Moved, dynamics: Dynamics, weights: Weights, step: Step, layer: Layer,
    source: Slots, target: Slots,
) -> None:  # fmt: skip
    """X of all actions. One action after the other: each overwrites the slot of the one before."""
    num_actions = len(source.values)
    at_once = is_one_block(len(states))
    for actions in [Actions(0, num_actions)] if at_once else [Actions(a, a + 1) for a in range(num_actions)]:
        in_threads(
            lambda block, actions=actions: fill(
                block, actions, moved, dynamics, weights, step.is_last, step.precision.places, layer, source, target
            ),
            states,
        )
