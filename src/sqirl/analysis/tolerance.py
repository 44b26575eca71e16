"""The effective horizon for policies that need not be exactly optimal: Δ_{k,ε} and H̄_ε.

Δ_{k,ε} is the largest Δ such that **every** policy which, at each time and state, takes an action whose Q^k lies within Δ of the
best earns at least J* - ε (J* - J_random). J* is the optimal return and J_random that of uniformly random actions. Then

    H̄_{k,ε} = k + log_A(1 / Δ²_{k,ε}),        H̄_ε = min_k H̄_{k,ε}.

SQIRL whose regression errs by at most Δ/2 takes only such actions. So the proof of Theorem 3.6 of the paper goes through with
Δ_{k,ε} in the place of Δ_k, and gives a policy that loses at most ε (J* - J_random).

The return of the worst such policy falls with Δ. A backward pass computes it for a ladder of Δ (`near_greedy.py`). The first
pass finds Δ of the first k that are good enough, roughly. This bounds H̄_ε from above, and the k that matter, because H̄_k ≥ k.
Then a ladder of horizons H is looked at for all these k at once: k has H̄_{k,ε} ≤ H if the policies within Δ = A^((k - H)/2)
earn enough. The k that reach the lowest of the horizons stay for the next ladder, which lies just below it. A pass over a ladder
takes little more time than a pass for a single Δ, because the returns of a state lie side by side in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import Exactness, backward_pass, fits_in_memory
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
#: The values that a pass carries for each state and slot, as far as memory allows: Q^1..Q^k, and the rungs of a ladder.
COLUMNS = 24
LEAST_RUNGS = 3
#: All but the last rung of the first ladder are between this power of ten and 1: Δ is rarely smaller.
USUAL_DECADE = -5
#: Δ is found within this relative error, which is at most 0.003 in H̄.
PRECISION = 1e-3


@dataclass(frozen=True)
class _Bracket:
    """H̄_{k,ε} of the best of some k lies between two horizons."""

    ks: tuple[int, ...]  # those that may have it
    low: float  # none of them reaches this
    high: float
    k: int  # it reaches `high`


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
        """H̄_ε: the first k that are good enough, and then those that can be better."""
        self.close_calls.clear()
        first = self._first(epsilon)
        if first is None:
            return TolerantHorizon(epsilon, None, None, None, None, len(self.greedy), bool(self.close_calls))
        contenders = self._with_contenders(first)
        best = self._narrowed(contenders, epsilon)
        gap, last = min(1.0, self._gap_at(best.k, best.high)), max(len(self.greedy), contenders.ks[-1])
        earned = self._greedy_return(best.k)
        return TolerantHorizon(epsilon, best.high, best.k, gap, earned, last, bool(self.close_calls))

    def _first(self, epsilon: float) -> _Bracket | None:
        """Of the first k whose greedy policies earn enough, and whose Δ can be told apart from 0; only roughly."""
        good = np.flatnonzero(self._is_enough(self.greedy, epsilon)) + 1
        for stride in range(1, len(self.greedy) + 1, STRIDE):
            ks = good[(good >= stride) & (good < stride + STRIDE)].tolist()
            if not ks:
                continue
            rungs = self._most_rungs(ks)
            shares = np.array([10.0**LAST_DECADE, *np.logspace(USUAL_DECADE, 0, rungs)[1:]])
            returns = self._pass(ks[0], ks[-1], np.tile(shares, (ks[-1] - ks[0] + 1, 1)))
            enough = {k: self._is_enough(returns[k - ks[0]], epsilon) for k in ks}
            found = [self._between(k, shares, enough[k]) for k in ks if enough[k].any()]
            if found:
                best = min(found, key=lambda bracket: bracket.high)
                rivals = [bracket for bracket in found if bracket.low < best.high or bracket is best]
                low = min(bracket.low for bracket in rivals)
                return _Bracket(tuple(bracket.k for bracket in rivals), low, best.high, best.k)
        return None

    def _between(self, k: int, shares: NDArray[np.float64], enough: NDArray[np.bool_]) -> _Bracket:
        """Of one k, from a ladder of shares, the least first. If even the greatest is enough, both ends are there."""
        horizons = k - 2 * np.log(shares) / self._log_actions
        last = int(np.flatnonzero(enough)[-1])
        return _Bracket((k,), float(horizons[min(last + 1, len(shares) - 1)]), float(horizons[last]), k)

    def _with_contenders(self, first: _Bracket) -> _Bracket:
        """With the later k that could be better, as far as memory allows."""
        searched = range(first.ks[-1] + 1, min(self.horizon + 1, math.ceil(first.high)))
        later = [k for k in searched if k <= len(self.greedy) or fits_in_memory(self.mdp, k, self.exactness)]
        return replace(first, ks=(*first.ks, *later), low=min([first.low, *later]))

    def _narrowed(self, bracket: _Bracket, epsilon: float) -> _Bracket:
        """Look between the ends until their gaps differ by at most the precision."""
        finest = 2 * math.log1p(PRECISION) / self._log_actions  # the difference of horizons that stands for it
        while bracket.high - bracket.low > finest:
            rungs = self._num_rungs(bracket.ks, (bracket.high - bracket.low) / finest)
            ends = np.linspace(bracket.low, bracket.high, rungs + 2).tolist()
            first_k, last_k = bracket.ks[0], bracket.ks[-1]
            shares = np.array([[self._gap_at(k, H) for H in ends[1:-1]] for k in range(first_k, last_k + 1)])
            returns = self._pass(first_k, last_k, np.minimum(shares, 1.0))
            enough = self._is_enough(returns, epsilon) & (shares <= 1.0)
            reached = [place for place in range(rungs) if any(enough[k - first_k, place] for k in bracket.ks)]
            if reached:
                place = reached[0]
                ks = tuple(k for k in bracket.ks if enough[k - first_k, place])
                bracket = _Bracket(ks, ends[place], ends[place + 1], ks[0])
            else:
                bracket = replace(bracket, low=ends[-2])
        return bracket

    def _num_rungs(self, ks: tuple[int, ...], parts: float) -> int:
        """How many horizons a pass looks at for these k: no more than tell so many parts apart in the fewest passes."""
        most = self._most_rungs(ks)
        num_passes = math.ceil(math.log(parts) / math.log(most + 1))
        return min(most, math.ceil(math.exp(math.log(parts) / num_passes)) - 1)

    def _most_rungs(self, ks: Sequence[int]) -> int:
        """How many horizons a pass can look at for all these k."""
        of_column = near_greedy_bytes(self.mdp, 1, 0)
        columns = min(float(COLUMNS), self.exactness.memory / of_column)
        num_ks = ks[-1] - ks[0] + 1
        return max(LEAST_RUNGS if num_ks == 1 else 1, int(columns - ks[-1]) // num_ks)

    def _pass(self, first_k: int, last_k: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The returns of the worst policies within these shares (n, steps) of the range of returns.

        Several k are looked at in one pass if memory suffices, else each in a pass of its own.
        """
        low, high = self.return_range
        if len(shares) > 1 and near_greedy_bytes(self.mdp, last_k, shares.size) > self.exactness.memory:
            singles = [self._pass(k, k, shares[i : i + 1]) for i, k in enumerate(range(first_k, last_k + 1))]
            return np.concatenate(singles)
        return near_greedy_returns(
            self.mdp, self.horizon, last_k, shares * (high - low), discount=self.discount, sets=self.sets,
            probabilities=self.exactness.probabilities, buffer=self.exactness.buffer, meter=self.meter,
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
