"""The effective horizon for policies that need not be exactly optimal: Δ_{k,ε} and H̄_ε.

Δ_{k,ε} is the largest Δ such that **every** policy which, at each time and state, takes an action whose Q^k lies within Δ of the
best earns at least J* - ε (J* - J_random). J* is the optimal return and J_random that of uniformly random actions. Then

    H̄_{k,ε} = k + log_A(1 / Δ²_{k,ε}),        H̄_ε = min_k H̄_{k,ε}.

SQIRL whose regression errs by at most Δ/2 takes only such actions. So the proof of Theorem 3.6 of the paper goes through with
Δ_{k,ε} in the place of Δ_k, and gives a policy that loses at most ε (J* - J_random).

The return of the worst such policy falls with Δ. A backward pass computes it for a ladder of Δ (`BackwardPass.near_greedy`);
further passes look between the two steps of the ladder where it falls below the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import BackwardPass, backward_pass
from sqirl.analysis.result import Analysis, TolerantHorizon
from sqirl.mdp.reach import ReachableSets, reachable_sets
from sqirl.mdp.tabular import TabularMDP

#: The tolerances of the archived analyses. The first one leads, and is the default of `analyze`.
TOLERANCES = (0.10, 0.05, 0.15)
#: The first ladder: powers of ten of the range of returns, from this one on. Smaller Δ are not told apart from 0.
LAST_DECADE = -15
#: The k that are looked at together.
STRIDE = 5
#: Steps of the later ladders.
RUNGS = 15
#: Δ is found within this relative error, which is at most 0.003 in H̄.
PRECISION = 1e-3


@dataclass
class _Bracket:
    """Δ_{k,ε} of one k lies between two steps of a ladder; both are shares of the range of returns."""

    k: int
    good: float  # every policy within this earns enough
    bad: float  # some policy within this does not

    @property
    def is_fine(self) -> bool:
        return self.bad <= self.good * (1 + PRECISION) or self.good == 0.0


@dataclass(frozen=True, eq=False)
class ToleranceSearch:
    """What the searches for all ε share."""

    mdp: TabularMDP
    horizon: int
    sets: ReachableSets
    discount: float
    resolution: float  # relative rounding error of returns
    optimal: float  # J*
    random: float  # J_random
    return_range: tuple[float, float]
    greedy: NDArray[np.float64]  # (n,) the return of the worst policy greedy on Q^k, k = 1..n

    def find(self, epsilon: float) -> TolerantHorizon:
        """H̄_ε: the first k that is good enough, and then those that can be better, which are fewer than H̄_ε because H̄_k ≥ k."""
        best = self._first(epsilon)
        if best is None:
            return TolerantHorizon(epsilon, None, None, None, None, len(self.greedy))
        for k in self._contenders(best, epsilon):
            least = self._gap_to_beat(best, k)
            if least < 1:
                other = self._refined(_Bracket(k, least, 1.0), epsilon)
                best = other if self._horizon_of(other) < self._horizon_of(best) else best
        reached = self._horizon_of(best)
        earned = float(self._pass(best.k, best.k, np.zeros((1, 1))).greedy[0])
        last = min(self.horizon, max(len(self.greedy), math.ceil(reached)))
        return TolerantHorizon(epsilon, reached, best.k, best.good, earned, last)

    def _first(self, epsilon: float) -> _Bracket | None:
        """Of the first k whose greedy policies earn enough, and whose Δ can be told apart from 0."""
        good, least = self._is_enough(self.greedy, epsilon), 10.0**LAST_DECADE
        for first_k in range(1, len(good) + 1, STRIDE):
            last_k = min(first_k + STRIDE - 1, len(good))
            if good[first_k - 1 : last_k].any():
                returns = self._pass(first_k, last_k, np.full((last_k - first_k + 1, 1), least)).near_greedy[:, 0]
                found = np.flatnonzero(self._is_enough(returns, epsilon))
                if len(found):
                    return self._refined(_Bracket(first_k + int(found[0]), least, 1.0), epsilon)
        return None

    def _contenders(self, best: _Bracket, epsilon: float) -> list[int]:
        """The later k that beat the best so far: every policy within the gap that they need earns enough."""
        first_k, last_k = best.k + 1, min(self.horizon, math.ceil(self._horizon_of(best)) - 1)
        if first_k > last_k:
            return []
        needed = np.array([[self._gap_to_beat(best, k)] for k in range(first_k, last_k + 1)])
        returns = self._pass(first_k, last_k, needed).near_greedy[:, 0]
        return [first_k + int(place) for place in np.flatnonzero(self._is_enough(returns, epsilon))]

    def _refined(self, bracket: _Bracket, epsilon: float) -> _Bracket:
        """Look between the ends of the bracket, first at powers of ten, until they are close."""
        low = max(bracket.good, 10.0**LAST_DECADE)
        ladder = np.unique([bracket.good, low, *(10.0 ** np.arange(LAST_DECADE, 1.0))])
        ladder = ladder[ladder >= bracket.good]
        while True:
            returns = self._pass(bracket.k, bracket.k, ladder[None]).near_greedy[0]
            bracket = _Bracket(bracket.k, *_ends(ladder, self._is_enough(returns, epsilon)))
            if bracket.is_fine:
                return bracket
            ladder = np.exp(np.linspace(math.log(bracket.good), math.log(bracket.bad), RUNGS + 2))
            ladder[0], ladder[-1] = bracket.good, bracket.bad

    def _pass(self, first_k: int, last_k: int, shares: NDArray[np.float64]) -> BackwardPass:
        """The returns of the worst policies within these shares (n, steps) of the range of returns."""
        low, high = self.return_range
        return backward_pass(
            self.mdp, self.horizon, max_k=last_k, first_k=first_k, slacks=shares * (high - low), discount=self.discount,
            sets=self.sets,
        )  # fmt: skip

    def _is_enough(self, returns: NDArray[np.float64], epsilon: float) -> NDArray[np.bool_]:
        """Which returns lose at most ε (J* - J_random)? A loss that rounding explains does not count."""
        rounding = self.resolution * (abs(self.optimal) + abs(self.random))
        enough: NDArray[np.bool_] = returns >= self.optimal - epsilon * (self.optimal - self.random) - rounding
        return enough

    def _horizon_of(self, bracket: _Bracket) -> float:
        if bracket.good == 0.0:
            return math.inf
        return bracket.k - 2 * math.log(bracket.good) / math.log(self.mdp.num_actions)

    def _gap_to_beat(self, best: _Bracket, k: int) -> float:
        """The gap with which H̄_k would equal that of the best."""
        return float(self.mdp.num_actions ** ((k - self._horizon_of(best)) / 2))


def with_tolerances(analysis: Analysis, mdp: TabularMDP, epsilons: Sequence[float]) -> Analysis:
    """The analysis of the MDP with H̄_ε for these ε; nothing else is computed again."""
    search = ToleranceSearch(
        mdp, analysis.horizon, reachable_sets(mdp, analysis.horizon), analysis.discount, analysis.resolution,
        analysis.optimal_return, analysis.random_return, analysis.return_range, np.array(analysis.greedy_returns),
    )  # fmt: skip
    return replace(analysis, tolerant=tuple(search.find(epsilon) for epsilon in epsilons))


def _ends(ladder: NDArray[np.float64], enough: NDArray[np.bool_]) -> tuple[float, float]:
    """The last step that is good (0 if there is none) and the first that is not; equal where all are good: Δ is at most 1."""
    if not enough[0]:
        return 0.0, float(ladder[0])
    good = int(np.argmin(enough)) - 1 if not enough.all() else len(ladder) - 1
    return float(ladder[good]), float(ladder[min(good + 1, len(ladder) - 1)])
