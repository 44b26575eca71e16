"""The (ε, δ) sample complexity of an algorithm, measured: the paper's N_{ε,δ} (Section 2).

N_{ε,δ} is the least number of timesteps after which an algorithm returns an ε-optimal policy with probability at least 1 - δ. The
probability is over the environment and the algorithm. It is estimated by the share of seeds that succeed, which has an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sqirl.algorithms.literal import Fitted
from sqirl.errors import SqirlError

#: The probability with which the true share is in the interval.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Share:
    """A share of seeds, with the interval of Clopper and Pearson for the probability behind it."""

    successes: int
    seeds: int

    @property
    def value(self) -> float:
        return self.successes / self.seeds

    @property
    def interval(self) -> tuple[float, float]:
        from scipy.stats import beta

        k, n, tail = self.successes, self.seeds, (1 - CONFIDENCE) / 2
        low = float(beta.ppf(tail, k, n - k + 1)) if k else 0.0
        high = float(beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
        return low, high

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.successes} of {self.seeds} ({low:.2f} to {high:.2f})"


@dataclass(frozen=True)
class SampleComplexity:
    """The least m of a ladder with which the share of ε-optimal seeds is at least 1 - δ, and the median of their steps."""

    m: int
    steps: int
    share: Share


def sample_complexity(
    fit: Callable[[int, int], Fitted],
    succeeds: Callable[[Fitted], bool],
    *,
    delta: float,
    seeds: int,
    first_m: int = 1,
    largest_m: int = 40_000,
    factor: int = 2,
) -> SampleComplexity | None:
    """N_{ε,δ} on the ladder m = first_m, factor·first_m, …; None if the largest m is not enough.

    :param fit: from (m, seed) to a learned policy
    :param succeeds: is the policy ε-optimal?
    :param delta: δ
    :param seeds: with each m; a smaller m is given up as soon as more than δ of the seeds have failed
    """
    if not 0 < delta < 1 or seeds < 1:
        raise SqirlError(f"delta {delta:g} must be in (0, 1) and seeds {seeds} at least 1")
    m = first_m
    while m <= largest_m:
        runs = _runs(fit, succeeds, m, seeds, math.floor(delta * seeds + 1e-9))
        if runs is not None:
            steps, successes = runs
            return SampleComplexity(m, int(np.median(steps)), Share(successes, seeds))
        m *= factor
    return None


def _runs(
    fit: Callable[[int, int], Fitted], succeeds: Callable[[Fitted], bool], m: int, seeds: int, may_fail: int
) -> tuple[list[int], int] | None:
    """The steps of all seeds and how many succeed; None if too many fail."""
    steps, failures = [], 0
    for seed in range(seeds):
        run = fit(m, seed)
        steps.append(run.num_steps)
        failures += not succeeds(run)
        if failures > may_fail:
            return None
    return steps, seeds - failures
