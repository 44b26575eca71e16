"""How the steps of an algorithm grow with a property of environments: a line, and how far resampled environments move it.

The line is that of log steps on the logarithm of the property, with normal errors (a Tobit model). An environment that is not
solved needs more than the budget, one that is solved at the first evaluation at most the steps until then: both are counted so,
and nothing is dropped. The line maximises the likelihood; it is found by expectation and maximisation, for all resamples at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sqirl.results.statistics import BUDGET, Complexities, Values

#: The first evaluation of the paper's protocol: fewer steps are not seen.
FIRST_EVALUATION = 10_000
#: The least number of environments of a line, resamples of its interval, and points at which it is drawn.
LEAST_COUNT, RESAMPLES, DRAWN_POINTS = 8, 300, 25
#: Rounds of the search for a line, and for that of a resample, which starts from the line of all environments.
ROUNDS, RESAMPLE_ROUNDS = 300, 30
#: The least standard deviation of log10 steps: data on a line have none.
LEAST_DEVIATION = 1e-3


@dataclass(frozen=True)
class Trend:
    """The steps of the line at some values of the property, and their 95 % interval over resampled environments."""

    x: tuple[float, ...]
    steps: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    count: int


def trend(values: Mapping[str, float], table: Complexities, *, seed: int = 0) -> Trend | None:
    """The line over the environments in both; None with fewer than LEAST_COUNT of them, or if all have the same value."""
    shared = [env for env in values if env in table and values[env] > 0]
    x = np.log10([values[env] for env in shared])
    if len(shared) < LEAST_COUNT or np.ptp(x) == 0:
        return None
    y = np.log10([math.inf if (steps := table[env]) is None else steps for env in shared])
    return _resampled_line(x.tobytes(), y.tobytes(), seed)


@lru_cache(maxsize=64)
def _resampled_line(x_bytes: bytes, y_bytes: bytes, seed: int) -> Trend:
    """The line and its interval: those of the paper's runs are asked for again and again."""
    x, y = np.frombuffer(x_bytes), np.frombuffer(y_bytes)
    draws = np.random.default_rng(seed).integers(len(x), size=(RESAMPLES, len(x)))
    whole = fit_lines(x[None], y[None])
    lines = np.vstack([whole, fit_lines(x[draws], y[draws], start=whole[0], rounds=RESAMPLE_ROUNDS)])
    grid = np.linspace(x.min(), x.max(), DRAWN_POINTS)
    heights = 10 ** (lines[:, :1] + lines[:, 1:2] * grid)  # (1 + RESAMPLES, DRAWN_POINTS)
    low, high = np.percentile(heights[1:], [2.5, 97.5], axis=0)
    drawn = [tuple(each.tolist()) for each in (10**grid, heights[0], low, high)]
    return Trend(drawn[0], drawn[1], drawn[2], drawn[3], len(x))


def fit_lines(
    x: Values,
    y: Values,
    *,
    first: float = FIRST_EVALUATION,
    budget: float = BUDGET,
    start: Values | None = None,
    rounds: int = ROUNDS,
) -> NDArray[np.float64]:
    """(R, 3) intercept, slope and deviation of the likeliest line of each row of x and y (R, N); y infinite: not solved.

    y are logarithms of steps. Those at or below log10(first) are only known to be that small. `start` (3,): a line that is near.
    """
    lowest, highest = math.log10(first), math.log10(budget)
    bounds = [(np.isinf(y), highest, 1.0), (y <= lowest, lowest, -1.0)]
    expected, extra = np.clip(y, lowest, highest), np.zeros_like(y)  # of y, given the line: its mean and its variance
    if start is not None:
        _expect(bounds, start[0] + start[1] * x, np.full((len(x), 1), start[2]), expected, extra)
    centre = x.mean(axis=1, keepdims=True)
    spread = ((x - centre) ** 2).sum(axis=1, keepdims=True)
    lines = np.zeros((len(x), 3))
    for _ in range(rounds):
        mean = expected.mean(axis=1, keepdims=True)
        slope = ((x - centre) * (expected - mean)).sum(axis=1, keepdims=True) / np.where(spread > 0, spread, 1.0)
        intercept = mean - slope * centre
        line = intercept + slope * x
        variance = ((expected - line) ** 2 + extra).mean(axis=1, keepdims=True)
        deviation = np.maximum(np.sqrt(variance), LEAST_DEVIATION)
        lines = np.hstack([intercept, slope, deviation])
        _expect(bounds, line, deviation, expected, extra)
    return lines


def _expect(
    bounds: list[tuple[NDArray[np.bool_], float, float]],
    line: Values,
    deviation: Values,
    expected: Values,
    extra: Values,
) -> None:
    """Mean and variance of the y that are only known to be above (sign 1) or below (sign -1) a bound, in place."""
    from scipy.special import log_ndtr

    for censored, bound, sign in bounds:
        width = np.broadcast_to(deviation, line.shape)[censored]
        z = sign * (bound - line[censored]) / width
        # The mean of a standard normal number that is above z: its density at z over the probability above z
        hazard = np.exp(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_ndtr(-z))
        expected[censored] = line[censored] + sign * width * hazard
        extra[censored] = width**2 * np.maximum(1 + z * hazard - hazard**2, 0.0)
