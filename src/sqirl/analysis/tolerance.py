"""The effective horizon for policies that need not be exactly optimal: Δ_{k,ε} and H̄_ε.

Δ_{k,ε} is the largest Δ such that **every** policy which, at each time and state, takes an action whose Q^k lies within Δ of the
best earns at least J* - ε (J* - J_random). J* is the optimal return and J_random that of uniformly random actions. Then

    H̄_{k,ε} = k + log_A(1 / Δ²_{k,ε}),        H̄_ε = min_k H̄_{k,ε}.

SQIRL whose regression errs by at most Δ/2 takes only such actions. So the proof of Theorem 3.6 of the paper goes through with
Δ_{k,ε} in the place of Δ_k, and gives a policy that loses at most ε (J* - J_random).

The return of the worst such policy falls with Δ. A backward pass computes it for a ladder of Δ (`near_greedy.py`). The first
passes find Δ of the first k that is good enough, roughly. This bounds H̄_ε from above, and the k that matter, because H̄_k ≥ k.
Then a ladder of horizons H is looked at for all these k at once: k has H̄_{k,ε} ≤ H if the policies within Δ = A^((k - H)/2)
earn enough. The k that reach the lowest of the horizons stay for the next ladder, which lies just below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import Exactness, backward_pass, fits_in_memory
from sqirl.analysis.columns import storages
from sqirl.analysis.near_greedy import near_greedy_bytes, near_greedy_returns
from sqirl.analysis.progress import SILENT, Meter
from sqirl.analysis.result import Analysis, TolerantHorizon
from sqirl.mdp.reach import ReachableSets, reachable_sets
from sqirl.mdp.tabular import TabularMDP

#: The tolerances of the archived analyses. The first one leads, and is the default of `analyze`.
TOLERANCES = (0.10, 0.05, 0.15)
#: The first ladder starts from this power of ten of the range of returns. Smaller Δ are not told apart from 0.
LAST_DECADE = -15
#: The k that are looked at together.
STRIDE = 5
#: The values that a pass carries for each state and slot, as far as Q^1..Q^k leave room: the rest are steps of a ladder.
COLUMNS = 8
LEAST_RUNGS = 3
#: Δ of the first k is found within this factor before other k are looked at.
COARSE = 4.0
#: Δ is found within this relative error, which is at most 0.003 in H̄.
PRECISION = 1e-3


@dataclass(frozen=True)
class _Bracket:
    """H̄_{k,ε} of the best of some k lies between two horizons."""

    ks: tuple[int, ...]  # those that reach `high`
    low: float  # none of them reaches this
    high: float


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
    exactness: Exactness
    meter: Meter = SILENT
    close_calls: list[float] = field(default_factory=list)  # returns that are good enough or not by rounding

    def find(self, epsilon: float) -> TolerantHorizon:
        """H̄_ε: the first k that is good enough, and then those that can be better."""
        self.close_calls.clear()
        first = self._first(epsilon)
        if first is None:
            return TolerantHorizon(epsilon, None, None, None, None, len(self.greedy), bool(self.close_calls))
        contenders = self._with_contenders(first)
        best = self._narrowed(contenders, epsilon)
        k, gap = best.ks[0], min(1.0, self._gap_at(best.ks[0], best.high))
        last = max(len(self.greedy), contenders.ks[-1])
        earned = self._greedy_return(k)
        return TolerantHorizon(epsilon, best.high, k, gap, earned, last, bool(self.close_calls))

    def _first(self, epsilon: float) -> _Bracket | None:
        """Of the first k whose greedy policies earn enough, and whose Δ can be told apart from 0; only roughly."""
        good, least = self._is_enough(self.greedy, epsilon), 10.0**LAST_DECADE
        for first_k in range(1, len(good) + 1, STRIDE):
            last_k = min(first_k + STRIDE - 1, len(good))
            if good[first_k - 1 : last_k].any():
                returns = self._pass(first_k, last_k, np.full((last_k - first_k + 1, 1), least))[:, 0]
                found = np.flatnonzero(self._is_enough(returns, epsilon))
                if len(found):
                    k = first_k + int(found[0])
                    highest = k - 2 * math.log(least) / self._log_actions
                    return self._narrowed(_Bracket((k,), float(k), highest), epsilon, COARSE, with_low=True)
        return None

    def _with_contenders(self, first: _Bracket) -> _Bracket:
        """With the later k that could be better, as far as memory allows."""
        later = [
            k
            for k in range(first.ks[0] + 1, min(self.horizon + 1, math.ceil(first.high)))
            if k <= len(self.greedy) or fits_in_memory(self.mdp, k, self.exactness)
        ]
        return _Bracket((*first.ks, *later), min(first.low, *later) if later else first.low, first.high)

    def _narrowed(
        self, bracket: _Bracket, epsilon: float, factor: float = 1 + PRECISION, *, with_low: bool = False
    ) -> _Bracket:
        """Look between the ends until their gaps differ by at most the factor. The low end is looked at if `with_low`."""
        while self._gap_at(0, bracket.low) > factor * self._gap_at(0, bracket.high):
            alone = len(bracket.ks) == 1
            rungs = max(LEAST_RUNGS, COLUMNS - bracket.ks[0]) if alone else max(1, COLUMNS // (2 * len(bracket.ks)))
            horizons = np.linspace(bracket.low, bracket.high, rungs + 2)[0 if with_low else 1 : -1]
            first_k, last_k = bracket.ks[0], bracket.ks[-1]
            shares = np.array([[self._gap_at(k, H) for H in horizons] for k in range(first_k, last_k + 1)])
            returns = self._pass(first_k, last_k, np.minimum(shares, 1.0))
            enough = self._is_enough(returns, epsilon) & (shares <= 1.0)
            reached = [place for place in range(len(horizons)) if any(enough[k - first_k, place] for k in bracket.ks)]
            place = reached[0] if reached else len(horizons)
            if with_low and place == 0:
                return _Bracket(bracket.ks, bracket.low, bracket.low)
            with_low = False
            ks = tuple(k for k in bracket.ks if not reached or enough[k - first_k, place])
            ends = [bracket.low, *horizons[horizons > bracket.low].tolist(), bracket.high]
            above = ends.index(horizons[place]) if reached else len(ends) - 1
            bracket = _Bracket(ks, ends[above - 1], ends[above])
        return bracket

    def _pass(self, first_k: int, last_k: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The returns of the worst policies within these shares (n, steps) of the range of returns.

        Several k are looked at in one pass if memory suffices, else each in a pass of its own.
        """
        low, high = self.return_range
        storage = next(
            (
                storage
                for storage in storages(self.mdp, 1)
                if near_greedy_bytes(self.mdp, last_k, shares.size, storage) <= self.exactness.memory
            ),
            None,
        )
        if len(shares) > 1 and storage is None:
            singles = [self._pass(k, k, shares[i : i + 1]) for i, k in enumerate(range(first_k, last_k + 1))]
            return np.concatenate(singles)
        return near_greedy_returns(
            self.mdp, self.horizon, last_k, shares * (high - low), discount=self.discount, sets=self.sets,
            storage=storage or storages(self.mdp, 1)[-1], probabilities=self.exactness.probabilities,
            buffer=self.exactness.buffer, meter=self.meter,
        )  # fmt: skip

    def _greedy_return(self, k: int) -> float:
        """Of the worst policy greedy on Q^k."""
        if k <= len(self.greedy):
            return float(self.greedy[k - 1])
        return float(
            backward_pass(
                self.mdp, self.horizon, max_k=k, first_k=k, discount=self.discount, sets=self.sets,
                exactness=self.exactness, meter=self.meter,
            ).greedy[0]
        )  # fmt: skip

    def _is_enough(self, returns: NDArray[np.float64], epsilon: float) -> NDArray[np.bool_]:
        """Which returns lose at most ε (J* - J_random)? A loss that rounding explains does not count, and is a close call.

        Returns are floats, unlike what decides ties.
        """
        rounding = self.resolution * (abs(self.optimal) + abs(self.random))
        surplus = returns - (self.optimal - epsilon * (self.optimal - self.random))
        if self.optimal > self.random:  # else all returns are equal
            self.close_calls.extend(returns[np.abs(surplus) <= rounding].tolist())
        enough: NDArray[np.bool_] = surplus >= -rounding
        return enough

    @property
    def _log_actions(self) -> float:
        return math.log(self.mdp.num_actions)

    def _gap_at(self, k: int, horizon: float) -> float:
        """The gap with which H̄_k would be `horizon`."""
        return math.exp((k - horizon) / 2 * self._log_actions)


def with_tolerances(analysis: Analysis, mdp: TabularMDP, epsilons: Sequence[float]) -> Analysis:
    """The analysis of the MDP with H̄_ε for these ε; nothing else is computed again."""
    search = ToleranceSearch(
        mdp, analysis.horizon, reachable_sets(mdp, analysis.horizon), analysis.discount, analysis.resolution,
        analysis.optimal_return, analysis.random_return, analysis.return_range, np.array(analysis.greedy_returns),
        Exactness(mdp),
    )  # fmt: skip
    return replace(analysis, tolerant=tuple(search.find(epsilon) for epsilon in epsilons))
