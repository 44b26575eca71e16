"""`analyze`: from a tabular MDP to everything the paper says about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sqirl.analysis import bounds
from sqirl.analysis.result import Analysis, Witness
from sqirl.analysis.rounding import relative_roundoff
from sqirl.analysis.sweep import Sweep, fits_in_memory, q_values, return_range, sweep
from sqirl.errors import InvalidMDP
from sqirl.mdp.reach import ReachableSets, check_horizon, count_reachable, path_to, reachable_sets
from sqirl.mdp.tabular import TabularMDP

#: Past `max_k`, this many k at a time: each pass carries all smaller Q^k again but keeps the verdicts of these alone.
SEARCH_STRIDE = 16

#: An MDP counts as approximately k-QVI-solvable at this share of the optimal return, measured from the worst return.
APPROXIMATE_SHARE = 0.95


@dataclass(frozen=True, eq=False)
class _Question:
    """What every pass of one analysis has in common."""

    mdp: TabularMDP
    horizon: int
    discount: float
    sets: ReachableSets


def analyze(
    mdp: TabularMDP,
    *,
    horizon: int | None = None,
    max_k: int = 5,
    search_k: int | None = None,
    discount: float = 1.0,
    epsilon: float = bounds.EPSILON,
    delta: float = bounds.DELTA,
) -> Analysis:
    """The analysis of `mdp` over episodes of `horizon` steps (its own if None), for k = 1..max_k at least.

    The search goes on past `max_k` until it has the exact min k and the k that attains the effective horizon, or has
    reached `search_k` or the end of memory (`Analysis.settled` tells).
    """
    horizon = check_horizon(mdp, horizon)
    if max_k < 1:
        raise InvalidMDP(f"max_k {max_k} is below 1; Q^1 is the first Q-function to look at")
    if not 0 < discount <= 1:
        raise InvalidMDP(f"discount {discount} is not in (0, 1]")
    if mdp.num_actions < 2:
        raise InvalidMDP(
            "the MDP has one action only; there is nothing to choose, and the effective horizon needs A ≥ 2"
        )
    max_k = min(max_k, horizon)
    question = _Question(mdp, horizon, discount, reachable_sets(mdp, horizon))
    low, high = return_range(mdp, horizon, discount=discount, sets=question.sets)
    scale = high - low
    passes, settled = _search(question, max_k, max(max_k, min(search_k or horizon, horizon)), scale)
    first = passes[0]
    solvable = np.concatenate([p.solvable for p in passes])
    gaps = _normalised(np.concatenate([p.gaps for p in passes]), scale)
    decisive = _normalised(np.concatenate([p.decisive_gaps for p in passes]), scale)
    greedy = np.concatenate([p.greedy for p in passes])
    horizons = _effective_horizons(solvable, gaps, mdp.num_actions)
    best_k = int(np.argmin(horizons)) + 1 if solvable.any() else None
    min_k = int(np.argmax(solvable)) + 1 if solvable.any() else None
    failing_k = min_k - 1 if min_k else len(solvable)  # the last k for which there is a witness, 0 if there is none
    shown = max(max_k, min_k or len(solvable), best_k or 0)
    wrong = tuple(decision for p in passes for decision in p.wrong_decisions)[:shown]
    num_states = count_reachable(mdp, question.sets)
    resolution = relative_roundoff(horizon, mdp.num_actions, _max_outcomes(mdp))
    return Analysis(
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
        approx_min_k=_approximate_min_k(greedy, first.optimal, first.worst, resolution),
        gaps=_where(solvable, gaps)[:shown],
        decisive_gaps=_where(solvable, decisive)[:shown],
        effective_horizons=_where(solvable, horizons)[:shown],
        effective_horizon=float(horizons[best_k - 1]) if best_k else None,
        effective_horizon_k=best_k,
        settled=settled,
        effective_planning_window=planning_window(
            mdp, horizon=horizon, search_k=search_k, discount=discount, sets=question.sets
        ),
        resolution=resolution,
        bounds=_bounds(best_k, horizon, mdp.num_actions, num_states, gaps, epsilon, delta),
        wrong_decisions=wrong,
        witness=witness(mdp, failing_k, horizon=horizon, discount=discount) if failing_k else None,
    )


def _search(question: _Question, max_k: int, search_k: int, scale: float) -> tuple[list[Sweep], bool]:
    """Passes over k = 1..max_k and then over larger k, until no larger k can change min k or H̄; and whether it got there.

    Δ_k ≤ 1 gives H̄_k ≥ k, and Δ_k ≤ the tail gap of every earlier pass (see `Sweep`) gives more.
    """
    mdp, passes, best = question.mdp, [], math.inf
    first_k, last_k = 1, max_k
    while True:
        result = sweep(
            mdp, question.horizon, max_k=last_k, first_k=first_k, discount=question.discount, sets=question.sets
        )
        passes.append(result)
        horizons = _effective_horizons(result.solvable, _normalised(result.gaps, scale), mdp.num_actions, first_k)
        best = min(best, float(horizons.min()))
        tail = float(_normalised(np.array([result.tail_gap]), scale)[0])
        least_to_come = last_k + 1 + 2 * math.log(1 / tail, mdp.num_actions)
        if last_k == question.horizon or best <= least_to_come:
            return passes, True
        first_k, last_k = last_k + 1, min(last_k + min(last_k, SEARCH_STRIDE), question.horizon)
        if last_k > search_k or not fits_in_memory(mdp, last_k, last_k - first_k + 1):
            return passes, False


def planning_window(
    mdp: TabularMDP,
    *,
    horizon: int | None = None,
    search_k: int | None = None,
    discount: float = 1.0,
    sets: ReachableSets | None = None,
) -> int | None:
    """The effective planning window: the least k for which greedy on k steps of value iteration from the rewards is optimal.

    None if `search_k` or the memory ended the search before.
    """
    horizon = check_horizon(mdp, horizon)
    sets = sets or reachable_sets(mdp, horizon)
    first_k, last_k = 1, min(8, horizon)
    while True:
        result = sweep(
            mdp,
            horizon,
            max_k=last_k,
            first_k=first_k,
            random_base=False,
            with_returns=False,
            discount=discount,
            sets=sets,
        )
        if result.solvable.any():  # at the latest with k = T, where the sequence has become Q*
            return first_k + int(np.argmax(result.solvable))
        first_k, last_k = last_k + 1, min(last_k + SEARCH_STRIDE, horizon)
        if last_k > (search_k or horizon) or not fits_in_memory(mdp, last_k, last_k - first_k + 1):
            return None


def witness(mdp: TabularMDP, k: int, *, horizon: int | None = None, discount: float = 1.0) -> Witness | None:
    """The earliest evidence that some policy greedy on Q^k is not optimal; None if the MDP is k-QVI-solvable."""
    horizon = check_horizon(mdp, horizon)
    decision = sweep(mdp, horizon, max_k=k, first_k=k, with_returns=False, discount=discount).wrong_decisions[0]
    if decision is None:
        return None
    path = path_to(mdp, decision.state, steps=decision.t)
    q, optimal_q = q_values(mdp, decision, horizon, k=k, discount=discount)
    previous = path[-1] if mdp.stickiness and path else None
    roundoff = relative_roundoff(horizon - decision.t, mdp.num_actions, _max_outcomes(mdp))
    return Witness(
        k=k,
        t=decision.t,
        state=decision.state,
        previous_action=previous,
        path=tuple(path),
        q=_of_state(q, previous, mdp.stickiness),
        optimal_q=_of_state(optimal_q, previous, mdp.stickiness),
        greedy_actions=_largest(q, roundoff),
        optimal_actions=_largest(optimal_q, roundoff),
    )


def _of_state(executed: np.ndarray, previous: int | None, stickiness: float) -> tuple[float, ...]:
    """Q of choosing each action in (state, previous action) from the values of executing each."""
    if previous is None:
        return tuple(executed.tolist())
    return tuple(((1 - stickiness) * executed + stickiness * executed[previous]).tolist())


def _largest(q: np.ndarray, roundoff: float) -> tuple[int, ...]:
    return tuple(np.flatnonzero(q.max() - q <= roundoff * (np.abs(q) + abs(q.max()))).tolist())


def _max_outcomes(mdp: TabularMDP) -> int:
    return 1 if mdp.outcomes is None else int(np.diff(mdp.outcomes.indptr).max())


def _normalised(gaps: np.ndarray, scale: float) -> np.ndarray:
    """Gaps of returns in [0, 1]; at most 1, also where no two actions differ anywhere."""
    return np.minimum(gaps / scale, 1.0) if scale > 0 else np.ones_like(gaps)


def _effective_horizons(solvable: np.ndarray, gaps: np.ndarray, num_actions: int, first_k: int = 1) -> np.ndarray:
    """H̄_k = k + log_A(1 / Δ_k²), infinite where not k-QVI-solvable."""
    k = np.arange(first_k, first_k + len(gaps))
    with np.errstate(divide="ignore"):
        return np.where(solvable, k - 2 * np.log(gaps) / math.log(num_actions), np.inf)


def _approximate_min_k(greedy: np.ndarray, optimal: float, worst: float, resolution: float) -> int | None:
    enough = worst + APPROXIMATE_SHARE * (optimal - worst) - resolution * (abs(optimal) + abs(worst))
    return int(np.argmax(greedy >= enough)) + 1 if (greedy >= enough).any() else None


def _where(solvable: np.ndarray, values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(v) if ok else None for ok, v in zip(solvable, values, strict=True))


def _bounds(
    k: int | None, horizon: int, num_actions: int, num_states: int, gaps: np.ndarray, epsilon: float, delta: float
) -> dict[str, float]:
    """The bounds that need no features: GORP's, and SQIRL's and strategic exploration's for the tabular class."""
    accuracy = {"epsilon": epsilon, "delta": delta}
    if k is None:
        return accuracy
    gap = float(gaps[k - 1])
    tabular, *_ = bounds.table_of_bounds(
        k=k, horizon=horizon, num_actions=num_actions, num_states=num_states, gap=gap, epsilon=epsilon
    )
    assert tabular.sqirl is not None and tabular.strategic is not None
    return {
        **accuracy,
        "k": k,
        "gorp": bounds.gorp_bound(k=k, horizon=horizon, num_actions=num_actions, gap=gap, delta=delta),
        "sqirl_theorem": bounds.sqirl_bound(
            k=k,
            horizon=horizon,
            num_actions=num_actions,
            gap=gap,
            epsilon=epsilon,
            delta=delta,
            hypotheses=bounds.finite_pseudo_dimension(num_states * num_actions),
        ),
        "sqirl_tabular": tabular.sqirl,
        "strategic_tabular": tabular.strategic,
    }
