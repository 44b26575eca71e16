"""The effective horizon for policies that need not be exactly optimal: Δ_{k,ε} and H̄_ε.

Δ_{k,ε} is the largest Δ such that **every** policy which, at each time and state, takes an action whose Q^k lies within Δ of the
best earns at least J* - ε (J* - J_random). J* is the optimal return and J_random that of uniformly random actions. Then

    H̄_{k,ε} = k + log_A(1 / Δ²_{k,ε}),        H̄_ε = min_k H̄_{k,ε}.

SQIRL whose regression errs by at most Δ/2 takes only such actions. So the proof of Theorem 3.6 of the paper goes through with
Δ_{k,ε} in the place of Δ_k, and gives a policy that loses at most ε (J* - J_random).

The return of the worst such policy falls with Δ. `near_greedy.py` computes it, for a few Δ in one pass. Δ is a whole number
there, a *code*, which is one more for each 0.1 % of Δ; `code_search.py` looks for the last code that is good enough. The first k
that have one bound H̄_ε from above, and the k that matter, because H̄_k ≥ k. For each other k a single return says whether it is
better: that for the least code whose horizon is better than the best one known. Most k are out after this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import Exactness, backward_pass, fits_in_memory
from sqirl.analysis.code_search import Bracket
from sqirl.analysis.near_greedy import NearGreedy
from sqirl.analysis.near_greedy_steps import FRACTION_BITS, lead_of
from sqirl.analysis.progress import SILENT, Meter
from sqirl.analysis.result import Analysis, TolerantHorizon
from sqirl.mdp.reach import ReachableSets, reachable_sets
from sqirl.mdp.tabular import TabularMDP

#: The tolerances of the archived analyses. The first one leads, and is the default of `analyze`.
TOLERANCES = (0.10, 0.05, 0.15)
#: The k that are looked at together while none is known to be good enough.
STRIDE = 5
#: The leads of so many k are computed together at first. More k matter where H̄_ε is greater.
FIRST_KS = 10
#: Δ is found within this relative error, that of a code. It is at most 0.003 in H̄.
PRECISION = 2.0**-FRACTION_BITS


class _Best(NamedTuple):
    """The least H̄_{k,ε} that is known; of equal ones, that of the least k."""

    horizon: float
    k: int
    code: int


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
        """H̄_ε: of the first k that are good enough, and then of those that can be better."""
        self.close_calls.clear()
        _, is_good = self._surplus(self.greedy, epsilon)
        good = [int(k) for k in np.flatnonzero(is_good) + 1]
        best, last_k = None, 0
        while (group := self._next_group(last_k, good, best)) is not None:
            first_k, last_k = group[0], self._near_greedy.look_at(group[0], group[-1])
            best = self._best_of([k for k in group if first_k <= k <= last_k], best, epsilon)
        if best is None:
            return TolerantHorizon(epsilon, None, None, None, None, len(self.greedy), bool(self.close_calls))
        searched = max(len(self.greedy), min(last_k, math.ceil(best.horizon) - 1))
        gap, earned = _gap(best.code), self._greedy_return(best.k)
        return TolerantHorizon(epsilon, best.horizon, best.k, gap, earned, searched, bool(self.close_calls))

    def _next_group(self, after: int, good: list[int], best: _Best | None) -> list[int] | None:
        """The k > `after` to look at next, as far as memory allows; None if there are none.

        Of k that the analysis has looked at, those whose greedy policies earn enough. Others only if they can be better.
        """
        if best is None:
            known = [k for k in good if k > after]
            first_k = known[0] if known else self.horizon + 1
            most = max(FIRST_KS, first_k + STRIDE - 1)
        else:
            first_k, most = after + 1, math.ceil(best.horizon) - 1
        group = []
        for k in range(first_k, min(most, self.horizon) + 1):
            if k > len(self.greedy) and not fits_in_memory(self.mdp, k, self.exactness):
                break
            if k in good or k > len(self.greedy):
                group.append(k)
        return group or None

    def _best_of(self, ks: Sequence[int], best: _Best | None, epsilon: float) -> _Best | None:
        """The best of these k and of what is known."""
        brackets = [Bracket(k, epsilon * (self.optimal - self.random)) for k in ks]
        while asked := self._codes_to_ask(brackets, best):
            returns = self._near_greedy.returns(
                [bracket.k for bracket, codes in asked for _ in codes], [code for _, codes in asked for code in codes]
            )
            surplus, is_enough = self._surplus(returns, epsilon)
            place = 0
            for bracket, codes in asked:
                here = slice(place, place + len(codes))
                bracket.take(codes, surplus[here].tolist(), is_enough[here].tolist())
                place += len(codes)
            found = [_Best(self._horizon_of(b.k, b.good), b.k, b.good) for b in brackets if b.good >= 0]
            best = min(found if best is None else [best, *found], default=None)
        return best

    def _codes_to_ask(self, brackets: list[Bracket], best: _Best | None) -> list[tuple[Bracket, list[int]]]:
        """The codes of the next pass, for each k that may be the best. The best k has most of them."""
        width = self._near_greedy.num_columns
        if best is None:
            rivals = [b for b in brackets if b.is_open and b.k <= len(self.greedy)][: min(STRIDE, width)]
            return [(b, b.codes(b.good + 1, width // len(rivals))) for b in rivals]
        own = [b for b in brackets if b.is_open and b.k == best.k]
        firsts = [(b, self._first_better(b, best)) for b in brackets if b.is_open and b.k != best.k]
        others = [(b, first) for b, first in firsts if first < b.bad][: width - len(own)]
        share = 1 if own else width // max(len(others), 1)
        asked = [(b, b.codes(first, share)) for b, first in others]
        return [(b, b.codes(b.good + 1, width - len(others))) for b in own] + asked

    def _first_better(self, bracket: Bracket, best: _Best) -> int:
        """The least code that may be the last good one of this k, and with which this k is better than the best."""
        low, high = bracket.good + 1, bracket.bad
        while low < high:
            middle = (low + high) // 2
            if (self._horizon_of(bracket.k, middle), bracket.k) < best[:2]:
                high = middle
            else:
                low = middle + 1
        return low

    @cached_property
    def _near_greedy(self) -> NearGreedy:
        return NearGreedy(
            self.mdp, self.horizon, discount=self.discount, sets=self.sets, return_range=self.return_range,
            exactness=self.exactness, meter=self.meter,
        )  # fmt: skip

    def _greedy_return(self, k: int) -> float:
        """Of the worst policy greedy on Q^k."""
        if k <= len(self.greedy):
            return float(self.greedy[k - 1])
        self._near_greedy.forget()
        return float(
            backward_pass(
                self.mdp, self.horizon, max_k=k, first_k=k, discount=self.discount, sets=self.sets,
                exactness=self.exactness, meter=self.meter,
            ).greedy[0]
        )  # fmt: skip

    def _surplus(self, returns: NDArray[np.float64], epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """By how much returns are above J* - ε (J* - J_random), and which of them are enough.

        A loss that rounding explains does not count, and is a close call. Returns are floats, unlike what decides ties.
        """
        rounding = self.resolution * (abs(self.optimal) + abs(self.random))
        surplus = returns - (self.optimal - epsilon * (self.optimal - self.random))
        if self.optimal > self.random:  # else all returns are equal
            self.close_calls.extend(returns[np.abs(surplus) <= rounding].tolist())
        return surplus, surplus >= -rounding

    def _horizon_of(self, k: int, code: int) -> float:
        """H̄_k if policies up to this code earn enough, and others do not."""
        return k - 2 * math.log(_gap(code)) / math.log(self.mdp.num_actions)


def _gap(code: int) -> float:
    """The least lead above this code, as a share of the range of returns: policies within any smaller Δ take no such action."""
    return min(1.0, lead_of(code + 1))


def with_tolerances(analysis: Analysis, mdp: TabularMDP, epsilons: Sequence[float]) -> Analysis:
    """The analysis of the MDP with H̄_ε for these ε; nothing else is computed again."""
    search = ToleranceSearch(
        mdp, analysis.horizon, reachable_sets(mdp, analysis.horizon), analysis.discount, analysis.resolution,
        analysis.optimal_return, analysis.random_return, analysis.return_range, np.array(analysis.greedy_returns),
        Exactness(mdp),
    )  # fmt: skip
    return replace(analysis, tolerant=tuple(search.find(epsilon) for epsilon in epsilons))
