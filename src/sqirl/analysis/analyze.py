"""`analyze`: everything that the paper defines for a tabular MDP.

k-QVI-solvable                 Definition 3.1   `BackwardPass.solvable`, `Analysis.solvable` and `min_k`
k-gap Δ_k                      Definition 3.2   `BackwardPass.gaps`, normalised in `_normalised`
stochastic effective horizon   Definition 3.3   `effective_horizons`
approximately solvable, 95 %   Section 3        `_approximate_min_k`
within a tolerance: Δ_{k,ε}    not in the paper `tolerance.py`
sample complexity              Lemma 3.4 and Theorem 3.6, in `bounds.py`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis import bounds
from sqirl.analysis.backward import (
    BackwardPass,
    Exactness,
    backward_pass,
    fits_in_memory,
    look_at,
    return_range,
)
from sqirl.analysis.columns import Columns
from sqirl.analysis.intervals import Intervals, bootstrap_intervals, intervals_over_starts
from sqirl.analysis.memory import most_bytes, split
from sqirl.analysis.near_greedy import COLUMNS
from sqirl.analysis.progress import SILENT, AnalysisProgress, Meter
from sqirl.analysis.reduction import Marks, bytes_of_marks
from sqirl.analysis.result import Analysis, Bounds, TolerantHorizon, Witness
from sqirl.analysis.rounding import relative_roundoff
from sqirl.analysis.tolerance import FIRST_KS, TOLERANCES, ToleranceSearch
from sqirl.analysis.window import WindowSearch
from sqirl.analysis.witness import Decision
from sqirl.envs.description import EnvLike
from sqirl.errors import InvalidMDP
from sqirl.mdp.reach import ReachableSets, check_horizon, count_reachable, path_to, reachable_sets
from sqirl.mdp.scope import is_estimated, scope_of
from sqirl.mdp.store import open_mdp
from sqirl.mdp.tabular import TabularMDP

#: The search past `max_k` takes this many k in one pass. A pass computes all smaller Q^k again and keeps results of these k only.
SEARCH_STRIDE = 16

#: How many passes the search for an effective horizon within a tolerance takes, more or less. It is only used for progress.
EXPECTED_PASSES = 5

#: Powers of a smaller discount are no numbers that a float can hold.
LEAST_DISCOUNT = 1e-6
#: Larger total rewards are refused, because their sums and differences could overflow.
LARGEST_TOTAL = 1e300

#: An MDP is approximately k-QVI-solvable if greedy on Q^k has this share of the optimal return, measured from the worst return
#: (Section 3 of the paper).
APPROXIMATE_SHARE = 0.95


@dataclass(frozen=True, eq=False)
class _AnalysisInput:
    """What all backward passes of one analysis share."""

    mdp: TabularMDP
    horizon: int
    discount: float
    sets: ReachableSets
    search_k: int  # the last k to look at
    exactness: Exactness
    meter: Meter
    optimal: list[Marks]  # the optimal actions by time, once the first pass has found them

    @cached_property
    def return_range(self) -> tuple[float, float]:
        return return_range(self.mdp, self.horizon, discount=self.discount, sets=self.sets)

    def backward_pass(
        self, last_k: int, first_k: int, *, with_returns: bool = True, optimal: list[Marks] | None = None
    ) -> BackwardPass:
        """The pass over Q^1..Q^last_k that keeps what it finds for those from `first_k` on."""
        return backward_pass(
            self.mdp, self.horizon, max_k=last_k, first_k=first_k, with_returns=with_returns, optimal=optimal,
            discount=self.discount, sets=self.sets, exactness=self.exactness, meter=self.meter,
        )  # fmt: skip

    def passes(self, first_pass: int) -> Iterator[tuple[int, int, BackwardPass]]:
        """(first k, last k, pass): first over k = 1..first_pass, then over later k as long as memory allows."""
        first_k, last_k = 1, min(first_pass, self.search_k)
        while True:
            yield first_k, last_k, self.backward_pass(last_k, first_k, optimal=self.optimal if first_k == 1 else None)
            first_k, last_k = last_k + 1, min(last_k + min(last_k, SEARCH_STRIDE), self.search_k)
            if first_k > self.search_k or not fits_in_memory(self.mdp, last_k, self.exactness):
                return


def analyze(
    mdp: TabularMDP | EnvLike,
    *,
    horizon: int | None = None,
    max_k: int = 5,
    search_k: int | None = None,
    discount: float = 1.0,
    epsilon: float = bounds.EPSILON,
    delta: float = bounds.DELTA,
    feature_dimension: float | None = None,
    pseudo_dimension: float | None = None,
    tolerances: Sequence[float] = TOLERANCES[:1],
    memory: float | None = None,
    resample: bool = True,
    progress: Callable[[AnalysisProgress], None] | None = None,
) -> Analysis:
    """The analysis of `mdp` over episodes of `horizon` steps (its own if None), for k = 1..max_k at least.

    The search goes past `max_k` until min k and the k of the effective horizon are certain. It stops earlier at `search_k`, or
    if memory is short; then `Analysis.settled` is False. Give the dimension of linear features, or the pseudo-dimension of a
    hypothesis class, to have their rows in the table of bounds. `tolerances` are the ε of the horizons H̄_ε (`tolerance.py`).
    `memory` is the number of bytes that the analysis may take besides the MDP; by default, most of what is free. Returns of an
    MDP that is estimated from draws have intervals from resamples; `resample=False` saves their time. `progress` is called with
    the memory before it is taken, and after every backward step. What is no MDP is opened: a file, an id, an env.
    """
    mdp = mdp if isinstance(mdp, TabularMDP) else open_mdp(mdp, horizon=horizon)
    given = _prepare(mdp, horizon, max_k, search_k, discount, tolerances, memory, Meter(progress))
    _announce(given, min(max_k, given.search_k))
    horizon = given.horizon
    passes, settled = _search(given, max_k)
    first = passes[0]
    low, high = given.return_range
    assert first.worst is not None
    solvable = np.concatenate([p.solvable for p in passes])
    gaps = _normalised(np.concatenate([p.gaps for p in passes]), high - low)
    decisive = _normalised(np.concatenate([p.decisive_gaps for p in passes]), high - low)
    greedy = np.concatenate([p.greedy for p in passes])
    horizons = effective_horizons(solvable, gaps, mdp.num_actions)
    best_k = int(np.argmin(horizons)) + 1 if solvable.any() else None
    min_k = int(np.argmax(solvable)) + 1 if solvable.any() else None
    wrong = tuple(decision for p in passes for decision in p.wrong_decisions)
    failing_k = min_k - 1 if min_k else len(solvable)  # the last k before min k; the witness is for this k
    shown = max(min(max_k, len(solvable)), min_k or len(solvable), best_k or 0)
    num_states = count_reachable(mdp, given.sets)
    resolution = relative_roundoff(horizon, mdp.num_actions, mdp.max_outcomes)
    approx_min_k, by_rounding = _approximate_min_k(greedy, solvable, first.optimal, first.worst, resolution)
    window, tolerant, shown_witness = _further_passes(
        given, first, greedy, resolution, tolerances, failing_k, wrong[failing_k - 1] if failing_k else None
    )
    found = Analysis(
        env_id=mdp.name,
        horizon=horizon,
        num_actions=mdp.num_actions,
        num_states=num_states,
        sticky=mdp.stickiness,
        discount=discount,
        optimal_return=first.optimal,
        random_return=first.base,
        worst_return=first.worst,
        return_range=(low, high),
        greedy_returns=tuple(greedy[:shown].tolist()),
        solvable=tuple(solvable[:shown].tolist()),
        min_k=min_k,
        approx_min_k=approx_min_k,
        approx_by_rounding=by_rounding,
        gaps=_where(solvable, gaps)[:shown],
        decisive_gaps=_where(solvable, decisive)[:shown],
        effective_horizons=_where(solvable, horizons)[:shown],
        effective_horizon=float(horizons[best_k - 1]) if best_k else None,
        effective_horizon_k=best_k,
        searched_k=len(solvable),
        settled=settled,
        effective_planning_window=window,
        resolution=resolution,
        bounds=_bounds(mdp, best_k, horizon, num_states, gaps, (epsilon, delta), feature_dimension, pseudo_dimension),
        wrong_decisions=wrong[:shown],
        witness=shown_witness,
        tolerant=tolerant,
        exact=given.exactness.is_exact,
        rows_as_fractions=given.exactness.probabilities.num_as_fractions,
        rows_divided=given.exactness.probabilities.num_divided,
        scope=scope_of(mdp),
        mdp=mdp,
    )
    return replace(found, intervals=_intervals(given, found, resample))


def _intervals(given: _AnalysisInput, found: Analysis, resample: bool) -> Intervals:
    """Of the returns, where outcomes or starts were drawn."""
    if is_estimated(given.mdp) and resample:
        return bootstrap_intervals(given.mdp, found)
    return intervals_over_starts(
        given.mdp, given.horizon, discount=given.discount, sets=given.sets, return_range=given.return_range
    )


def _further_passes(
    given: _AnalysisInput, first: BackwardPass, greedy: NDArray[np.float64], resolution: float,
    tolerances: Sequence[float], failing_k: int, wrong: Decision | None,
) -> tuple[int | None, tuple[TolerantHorizon, ...], Witness | None]:  # fmt: skip
    """The planning window, H̄_ε for the tolerances, and the witness of a wrong decision."""
    given.meter.enter("planning window")
    window = _planning_window(given)
    given.meter.enter("effective horizon within a tolerance")
    search = ToleranceSearch(
        given.mdp, given.horizon, given.sets, given.discount, resolution, first.optimal, first.base, given.return_range,
        greedy, given.exactness, given.meter,
    )  # fmt: skip
    tolerant = tuple(search.find(tolerance) for tolerance in tolerances)
    given.meter.enter("witness")
    return window, tolerant, _witness(given, failing_k, wrong)


def planning_window(
    mdp: TabularMDP, *, horizon: int | None = None, search_k: int | None = None, discount: float = 1.0
) -> int | None:
    """The effective planning window: the least k such that every policy greedy on k steps of value iteration from 0 is optimal.

    None if the search stopped before it was found, at `search_k` or because memory is short.
    """
    given = _prepare(mdp, horizon, 1, search_k, discount)
    given.backward_pass(1, 1, with_returns=False, optimal=given.optimal)
    return _planning_window(given)


def witness(mdp: TabularMDP, k: int, *, horizon: int | None = None, discount: float = 1.0) -> Witness | None:
    """The earliest wrong decision of a policy greedy on Q^k; None if the MDP is k-QVI-solvable (Definition 3.1 of the paper)."""
    given = _prepare(mdp, horizon, k, None, discount)
    found = given.backward_pass(k, k, with_returns=False)
    return _witness(given, k, found.wrong_decisions[0])


def _prepare(
    mdp: TabularMDP, horizon: int | None, max_k: int, search_k: int | None, discount: float,
    tolerances: Sequence[float] = (), memory: float | None = None, meter: Meter = SILENT,
) -> _AnalysisInput:  # fmt: skip
    """The input of an analysis, after its arguments have been checked."""
    horizon = check_horizon(mdp, horizon)
    if max_k < 1 or (search_k is not None and search_k < 1):
        name, wrong = ("max_k", max_k) if max_k < 1 else ("search_k", search_k)
        raise InvalidMDP(f"{name} {wrong} is below 1; Q^1 is the first Q-function to look at")
    if not LEAST_DISCOUNT <= discount <= 1:
        raise InvalidMDP(f"discount {discount:g} is not between {LEAST_DISCOUNT:g} and 1")
    for tolerance in tolerances:
        if not 0 <= tolerance < 1:
            raise InvalidMDP(f"tolerance {tolerance} is not in [0, 1): it is the share that a policy may lose")
    if horizon * max(float(mdp.rewards.max()), -float(mdp.rewards.min())) > LARGEST_TOTAL:
        raise InvalidMDP(f"total rewards may exceed {LARGEST_TOTAL:g}; divide the rewards by a constant")
    if mdp.num_actions < 2:
        raise InvalidMDP(
            "the MDP has one action only; there is nothing to choose, and the effective horizon needs A ≥ 2"
        )
    last_k = horizon if search_k is None else min(max(search_k, max_k), horizon)
    sets = reachable_sets(mdp, horizon)
    reserved = bytes_of_marks(mdp.num_actions) * (mdp.num_states + sum(map(sets.count, range(horizon))))
    exactness = Exactness(mdp, memory=memory, reserved=reserved)
    return _AnalysisInput(mdp, horizon, discount, sets, last_k, exactness, meter, [])


def _search(given: _AnalysisInput, max_k: int) -> tuple[list[BackwardPass], bool]:
    """Backward passes until no larger k can change min k or H̄, and whether this point was reached.

    Δ_k is at most 1 and at most the tail gap of every earlier pass (see `BackwardPass`). This bounds all later H̄_k from below.
    """
    mdp, best = given.mdp, math.inf
    found: list[BackwardPass] = []
    scale = given.return_range[1] - given.return_range[0]
    for first_k, last_k, result in given.passes(max_k):
        found.append(result)
        horizons = effective_horizons(result.solvable, _normalised(result.gaps, scale), mdp.num_actions, first_k)
        best = min(best, float(horizons.min()))
        tail = float(_normalised(np.array([result.tail_gap]), scale)[0])
        least_to_come = last_k + 1 - 2 * math.log(tail) / math.log(mdp.num_actions)
        if last_k == given.horizon or best <= least_to_come:
            return found, True
    return found, False


def _announce(given: _AnalysisInput, max_k: int) -> None:
    """Say how much memory the passes over Q^1..Q^max_k will take, or refuse, and estimate the work of the whole analysis."""
    mdp, columns = given.mdp, Columns(max_k, 1, True)
    parts = split(mdp, columns, given.exactness.num_words, given.exactness.memory)
    given.meter.num_bytes = most_bytes(mdp, parts)
    rows = mdp.num_actions * sum(map(given.sets.count, range(given.horizon)))
    given.meter.expect(rows * sum(part.work for part, _ in parts))
    given.meter.expect(rows * (FIRST_KS + EXPECTED_PASSES * COLUMNS))
    given.meter.enter(f"Q^1..Q^{max_k}" + f" in {len(parts)} passes" * (len(parts) > 1))


def _planning_window(given: _AnalysisInput) -> int | None:
    search = WindowSearch(
        given.mdp, given.horizon, discount=given.discount, sets=given.sets, exactness=given.exactness,
        optimal=given.optimal, meter=given.meter,
    )  # fmt: skip
    return search.find(given.search_k)


def _witness(given: _AnalysisInput, k: int, decision: Decision | None) -> Witness | None:
    if decision is None:
        return None
    mdp = given.mdp
    path = path_to(mdp, decision.state, steps=decision.t)
    (q, greedy), (optimal_q, optimal) = look_at(
        mdp, decision, given.horizon, k=k, discount=given.discount, exactness=given.exactness
    )
    previous = path[-1] if mdp.stickiness and path else None
    return Witness(
        k=k,
        t=decision.t,
        state=decision.state,
        previous_action=previous,
        path=tuple(path),
        q=_of_state(q, previous, mdp.stickiness),
        optimal_q=_of_state(optimal_q, previous, mdp.stickiness),
        greedy_actions=tuple(np.flatnonzero(greedy).tolist()),
        optimal_actions=tuple(np.flatnonzero(optimal).tolist()),
    )


def _of_state(executed: NDArray[np.float64], previous: int | None, stickiness: float) -> tuple[float, ...]:
    """Q of choosing each action in (state, previous action), from the (A,) values of executing each."""
    if previous is None:
        return tuple(executed.tolist())
    return tuple(((1 - stickiness) * executed + stickiness * executed[previous]).tolist())


def _normalised(gaps: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """(n,) gaps divided by the range of returns, at most 1. They are 1 where no two actions differ anywhere."""
    return np.minimum(gaps / scale, 1.0) if scale > 0 else np.ones_like(gaps)


def effective_horizons(
    solvable: NDArray[np.bool_], gaps: NDArray[np.float64], num_actions: int, first_k: int = 1
) -> NDArray[np.float64]:
    """(n,) the stochastic effective horizons H̄_k (Definition 3.3 of the paper) for k = first_k, first_k + 1, ...

    H̄_k = k + log_A(1 / Δ_k²) where the MDP is k-QVI-solvable, else infinity. The effective horizon H̄ is the least of them.
    `gaps` are the k-gaps Δ_k (Definition 3.2) of returns in [0, 1]; `solvable` and `gaps` are (n,).
    """
    k = np.arange(first_k, first_k + len(gaps))
    with np.errstate(divide="ignore"):
        return np.where(solvable, k - 2 * np.log(gaps) / math.log(num_actions), np.inf)


def _approximate_min_k(
    greedy: NDArray[np.float64], solvable: NDArray[np.bool_], optimal: float, worst: float, resolution: float
) -> tuple[int | None, bool]:
    """The least k whose greedy policies earn enough, and whether rounding has decided that they do."""
    surplus = greedy - worst - APPROXIMATE_SHARE * (optimal - worst)
    rounding = resolution * (abs(optimal) + abs(worst))
    enough = solvable | (surplus >= -rounding)
    if not enough.any():
        return None, False
    first = int(np.argmax(enough))
    return first + 1, bool(not solvable[first] and surplus[first] <= rounding)


def _where(solvable: NDArray[np.bool_], values: NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(float(v) if ok else None for ok, v in zip(solvable, values, strict=True))


def _bounds(
    mdp: TabularMDP,
    k: int | None,
    horizon: int,
    num_states: int,
    gaps: NDArray[np.float64],
    accuracy: tuple[float, float],
    feature_dimension: float | None,
    pseudo_dimension: float | None,
) -> Bounds | None:
    """The bounds for the k that attains the effective horizon; GORP's bound (Lemma 3.4) holds in deterministic MDPs only."""
    if k is None or not gaps[k - 1] > 0:
        return None
    epsilon, delta = accuracy
    instance = bounds.Instance(k, horizon, mdp.num_actions, float(gaps[k - 1]))
    deterministic = mdp.transitions is not None and not mdp.stickiness and len(mdp.start_states) == 1
    tabular = bounds.finite_pseudo_dimension(num_states * mdp.num_actions)
    return Bounds(
        k=k,
        epsilon=epsilon,
        delta=delta,
        gorp=bounds.gorp_bound(instance, delta=delta) if deterministic else None,
        sqirl=bounds.sqirl_bound(instance, hypotheses=tabular, epsilon=epsilon, delta=delta),
        table=bounds.table_of_bounds(
            instance,
            num_states=num_states,
            epsilon=epsilon,
            feature_dimension=feature_dimension,
            pseudo_dimension=pseudo_dimension,
        ),
    )
