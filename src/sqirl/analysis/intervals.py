"""95 % intervals for the returns of an MDP whose starts were drawn, or whose outcomes were estimated from draws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import backward_pass, start_values
from sqirl.analysis.sweeps import MAXIMUM, MEAN, MINIMUM
from sqirl.mdp.reach import ReachableSets
from sqirl.mdp.scope import start_facts, starts_are_drawn
from sqirl.mdp.tabular import Outcomes, TabularMDP

if TYPE_CHECKING:
    from sqirl.analysis.result import Analysis

#: (low, high) of the fields of an `Analysis`, by their names.
Intervals = dict[str, tuple[float, float]]

#: The share of intervals that miss the true value.
MISSED = 0.05
NORMAL_QUANTILE = 1.96
#: How often draws are drawn again, and for how many k the returns of greedy policies have intervals.
RESAMPLES, MOST_GREEDY = 60, 5


def intervals_over_starts(
    mdp: TabularMDP, horizon: int, *, discount: float, sets: ReachableSets, return_range: tuple[float, float]
) -> Intervals:
    """Intervals for the optimal, the random and the worst return, if the starts were drawn; else none.

    The return of a policy class is the mean of its values at the starts. Every draw of a start is an independent observation of
    this mean.
    """
    facts = start_facts(mdp)
    if facts is None or not starts_are_drawn(mdp):
        return {}
    counts = np.rint(mdp.start_probabilities * facts["draws"])
    rules = {"optimal_return": MAXIMUM, "random_return": MEAN, "worst_return": MINIMUM}
    return {
        name: mean_interval(start_values(mdp, horizon, rule, discount=discount, sets=sets), counts, return_range)
        for name, rule in rules.items()
    }


def mean_interval(
    values: NDArray[np.float64], counts: NDArray[np.float64], possible: tuple[float, float]
) -> tuple[float, float]:
    """Student's interval for the mean of values (n,) that were drawn `counts` (n,) times.

    Draws that are all equal say nothing about the spread. Then, with confidence 95 %, other values have a probability below
    3 / draws (the rule of three), and the interval reaches as far as the `possible` values allow.
    """
    from scipy.stats import t as student

    draws = counts.sum()
    mean = float(counts @ values / draws)
    spread = counts @ (values - mean) ** 2
    if draws < 2 or spread <= 1e-18 * draws * max(1.0, mean * mean):
        missed = min(1.0, -math.log(MISSED) / draws)
        low, high = ((1 - missed) * mean + missed * bound for bound in possible)
        return min(low, mean), max(high, mean)
    half = float(student.ppf(1 - MISSED / 2, draws - 1) * np.sqrt(spread / (draws - 1) / draws))
    return mean - half, mean + half


def bootstrap_intervals(mdp: TabularMDP, analysis: Analysis, *, resamples: int = RESAMPLES, seed: int = 0) -> Intervals:
    """Intervals for the returns of an MDP whose outcomes were estimated: of optimal, random, worst and greedy policies.

    The draws of every row, and of the starts if they were drawn, are drawn again from their frequencies. The interval is the
    estimate ± 1.96 standard deviations of the resamples. The optimal return of an estimated MDP is too high on average, because
    the best action may be a lucky one. That of a resample exceeds the estimate for the same reason, so the interval reaches lower
    by this difference. Of five constructions this one had the coverage nearest to 95 % on FrozenLake (horizon 20, 30 or 100
    draws, 150 trials each): 96 and 94 % for the optimal return, 95 and 91 % for the random one. It was chosen there and not
    checked on another environment.

    :param analysis: the analysis of `mdp`
    :param resamples: how often the draws are drawn again
    """
    rng = np.random.default_rng(seed)
    k = min(MOST_GREEDY, len(analysis.greedy_returns))
    found = np.array([_returns(resampled(mdp, rng), analysis, k) for _ in range(resamples)])  # (resamples, 3 + k)
    estimates = np.array(
        [analysis.optimal_return, analysis.random_return, analysis.worst_return, *analysis.greedy_returns[:k]]
    )
    half, bias = NORMAL_QUANTILE * found.std(axis=0, ddof=1), found.mean(axis=0) - estimates  # (3 + k,)
    low, high = estimates - half - np.maximum(bias, 0), estimates + half - np.minimum(bias, 0)
    names = ["optimal_return", "random_return", "worst_return", *(f"greedy_returns[{place}]" for place in range(k))]
    least, most = analysis.return_range
    bounds = np.clip(np.stack([low, high], axis=1), least, most).tolist()
    return {name: (pair[0], pair[1]) for name, pair in zip(names, bounds, strict=True)}


def _returns(mdp: TabularMDP, analysis: Analysis, k: int) -> list[float]:
    """Optimal, random and worst return, and that of greedy on Q^1..Q^k."""
    found = backward_pass(mdp, analysis.horizon, max_k=k, discount=analysis.discount)
    return [found.optimal, found.base, found.worst, *found.greedy.tolist()]


def resampled(mdp: TabularMDP, rng: np.random.Generator) -> TabularMDP:
    """The MDP with as many draws of every row, and of the starts, drawn from their frequencies."""
    outcomes, fields = mdp.outcomes, {}
    assert outcomes is not None and outcomes.draws is not None
    counts = _multinomial(outcomes.indptr, outcomes.probabilities, outcomes.draws, rng)  # (nnz,)
    kept = counts > 0
    row_of = np.repeat(np.arange(len(outcomes.draws)), np.diff(outcomes.indptr))
    drawn = Outcomes(
        np.concatenate([[0], np.cumsum(np.bincount(row_of[kept], minlength=len(outcomes.draws)))]),
        outcomes.next_states[kept],
        counts[kept] / outcomes.draws[row_of[kept]],
        outcomes.rewards[kept],
        outcomes.draws,
    )
    facts = start_facts(mdp)
    if facts is not None and starts_are_drawn(mdp):
        times = rng.multinomial(facts["draws"], mdp.start_probabilities)
        fields = {
            "start_states": mdp.start_states[times > 0],
            "start_probabilities": times[times > 0] / facts["draws"],
            "start_seeds": None,
        }
    return replace(mdp, outcomes=drawn, rewards=drawn.expected_rewards(mdp.num_actions), **fields)


def _multinomial(
    indptr: NDArray[np.int64], probabilities: NDArray[np.float64], draws: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """(nnz,) counts of every entry, from `draws` (rows,) draws of every row: one outcome of all rows after the other."""
    counts = np.zeros(len(probabilities), np.int64)
    left, mass = draws.copy(), np.ones(len(draws))
    sizes = np.diff(indptr)
    for place in range(int(sizes.max())):
        rows = np.flatnonzero(sizes > place)
        entries = indptr[rows] + place
        share = np.clip(probabilities[entries] / np.maximum(mass[rows], 1e-300), 0, 1)
        share[sizes[rows] == place + 1] = 1.0  # the last outcome takes what is left
        counts[entries] = rng.binomial(left[rows], share)
        left[rows] -= counts[entries]
        mass[rows] -= probabilities[entries]
    return counts
