"""Statistics of sample complexities, some of which are censored: a run that never solved is known to need more than its budget.

`Complexities` map environments to steps, with None where an algorithm did not solve the environment within the budget. Nothing
is dropped silently: every statistic over the environments that two algorithms both solve says how many these are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Complexities = Mapping[str, float | None]
Values = NDArray[np.float64]

#: The paper's budget in steps; a complexity above it counts as not solved.
BUDGET = 5_000_000
#: Our complexity agrees with the paper's if it is at most so many times the paper's.
WITHIN_FACTOR = 3


@dataclass(frozen=True)
class Estimate:
    """A statistic, its bootstrap interval, and the number of environments that it is of."""

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Comparison:
    """Two algorithms: correlations and median ratio of their sample complexities where both solve."""

    first: str
    second: str
    correlation: Estimate | None  # of ranks
    log_correlation: Estimate | None  # of the logarithms of the steps
    median_ratio: Estimate | None
    both: int
    only_first: int
    only_second: int
    neither: int


def within_budget(table: Complexities, budget: float = BUDGET) -> dict[str, float | None]:
    """The table with complexities above the budget censored."""
    return {env: steps if steps is not None and steps <= budget else None for env, steps in table.items()}


def num_solved(table: Complexities) -> int:
    return sum(steps is not None for steps in table.values())


def censored_median(values: Sequence[float | None]) -> float | None:
    """The median of runs, None (not solved) counting as larger than any; None if the median itself is not solved."""
    ordered = sorted(math.inf if value is None else value for value in values)
    if not ordered:
        return None
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    median = sum(middle) / 2
    return None if math.isinf(median) else median


def spearman(x: Values, y: Values) -> Values:
    """The rank correlation along the last axis, equal values sharing their mean rank; nan where either is constant."""
    from scipy.stats import rankdata

    return _correlation(rankdata(x, axis=-1), rankdata(y, axis=-1))  # infinite values share the last ranks


def log_correlation(x: Values, y: Values) -> Values:
    """The linear correlation of the logarithms along the last axis; nan where either is constant."""
    return _correlation(np.log(x), np.log(y))


def _correlation(x: Values, y: Values) -> Values:
    constant = (np.ptp(x, axis=-1) == 0) | (np.ptp(y, axis=-1) == 0)
    x, y = (values - values.mean(axis=-1, keepdims=True) for values in (x, y))
    norms = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    return np.where(constant, np.nan, (x * y).sum(axis=-1) / np.where(constant, 1.0, norms))


def area_under_curve(x: Values, y: Values) -> Values:
    """The chance that x is smaller in an environment that is solved than in one that is not (y infinite), along the last axis.

    Equal x count half; nan where all or none are solved.
    """
    from scipy.stats import rankdata

    unsolved = np.isinf(y)
    many, few = unsolved.sum(axis=-1), (~unsolved).sum(axis=-1)
    above = np.where(unsolved, rankdata(x, axis=-1), 0.0).sum(axis=-1) - many * (many + 1) / 2
    return np.asarray(np.where(many * few > 0, above / np.maximum(many * few, 1), np.nan))


def explained(values: Mapping[str, float], table: Complexities) -> tuple[Estimate | None, Estimate | None]:
    """How a property of environments goes with the steps that an algorithm needs: (rank correlation, area under the curve).

    Environments that are not solved count as needing the most steps, all alike. The area is that of "solved within the budget".
    """
    shared = [env for env in values if env in table]
    steps = [table[env] for env in shared]
    pairs = np.array([(values[env], math.inf if y is None else y) for env, y in zip(shared, steps, strict=True)], float)
    pairs = pairs.reshape(-1, 2)
    return _estimate(spearman, pairs, 2000, 0), _estimate(area_under_curve, pairs, 2000, 0)


def median_ratio(x: Values, y: Values) -> Values:
    """The median of x / y along the last axis."""
    return np.asarray(np.median(x / y, axis=-1))


def compare(
    first: str, second: str, tables: Mapping[str, Complexities], *, resamples: int = 2000, seed: int = 0
) -> Comparison:
    """The paper's comparison of two algorithms, over the environments in both tables."""
    a, b = tables[first], tables[second]
    shared = [env for env in a if env in b]
    pairs = [(a[env], b[env]) for env in shared]
    solved = np.array([(x, y) for x, y in pairs if x is not None and y is not None], float).reshape(-1, 2)
    return Comparison(
        first,
        second,
        _estimate(spearman, solved, resamples, seed),
        _estimate(log_correlation, solved, resamples, seed),
        _estimate(median_ratio, solved, resamples, seed),
        both=len(solved),
        only_first=sum(x is not None and y is None for x, y in pairs),
        only_second=sum(x is None and y is not None for x, y in pairs),
        neither=sum(x is None and y is None for x, y in pairs),
    )


def _estimate(
    statistic: Callable[[Values, Values], Values], solved: Values, resamples: int, seed: int
) -> Estimate | None:
    """The statistic and its 95 % percentile interval over resampled environments; None with fewer than two of them."""
    return None if len(solved) < 2 else _resampled(statistic, solved.tobytes(), resamples, seed)


@lru_cache(maxsize=512)
def _resampled(statistic: Callable[[Values, Values], Values], pairs: bytes, resamples: int, seed: int) -> Estimate:
    """The estimate from the bytes of the pairs (N, 2): those of the paper's tables are asked for again and again."""
    solved = np.frombuffer(pairs).reshape(-1, 2)
    value = float(statistic(solved[:, 0], solved[:, 1]))
    draws = solved[np.random.default_rng(seed).integers(len(solved), size=(resamples, len(solved)))]  # (R, N, 2)
    found = statistic(draws[..., 0], draws[..., 1])
    low, high = np.nanpercentile(found, [2.5, 97.5]) if np.isfinite(found).any() else (math.nan, math.nan)
    return Estimate(value, float(low), float(high), len(solved))


def share_solved_where(table: Complexities, condition: Callable[[str], bool]) -> float:
    """The share of the environments with that property that the table solves; nan if there are none."""
    chosen = [steps for env, steps in table.items() if condition(env)]
    return num_solved(dict(enumerate(chosen))) / len(chosen) if chosen else math.nan  # type: ignore[arg-type]


def num_within(ours: Complexities, paper: Complexities, factor: float = WITHIN_FACTOR) -> int:
    """How many environments we solve within `factor` times the paper's steps."""
    return sum((steps or math.inf) <= factor * (paper.get(env) or 0) for env, steps in ours.items())
