"""N_{ε,δ}: the share of seeds that succeed, its interval, and the least m that is enough."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scipy.stats import binom

from sqirl.errors import SqirlError
from sqirl.experiments.sample_complexity import Share, sample_complexity


def test_the_interval_of_clopper_and_pearson() -> None:
    """Known values, and the definition: at its ends the observed share, or a more extreme one, has probability 2.5 %."""
    assert Share(20, 20).interval == pytest.approx((0.8316, 1.0), abs=1e-4)
    assert Share(0, 10).interval == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert Share(3, 3).interval[0] == pytest.approx(0.2924, abs=1e-4)  # "3 of 3" says little
    low, high = Share(17, 20).interval
    assert binom.sf(16, 20, low) == pytest.approx(0.025) and binom.cdf(17, 20, high) == pytest.approx(0.025)
    assert str(Share(19, 20)) == "19 of 20 (0.75 to 1.00)" and Share(19, 20).value == 0.95


def test_the_least_m_whose_share_is_large_enough() -> None:
    """A seed succeeds if m is above a limit of its own: seeds 0..9 need m > 0, 1, …, 9."""
    tried = []

    def fit(m: int, seed: int) -> SimpleNamespace:
        tried.append((m, seed))
        return SimpleNamespace(good=m > seed, num_steps=100 * m + seed)

    found = sample_complexity(fit, lambda run: run.good, delta=0.2, seeds=10)
    assert (found.m, found.steps, found.share) == (8, 804, Share(8, 10))
    assert [seed for m, seed in tried if m == 1] == [0, 1, 2, 3]  # the third failure is one too many
    assert sample_complexity(fit, lambda run: run.good, delta=0.5, seeds=10).m == 8  # 4 has only four of ten
    assert sample_complexity(fit, lambda run: run.good, delta=0.05, seeds=10, largest_m=8) is None
    assert sample_complexity(fit, lambda run: run.good, delta=0.05, seeds=10, factor=3).m == 27


def test_senseless_calls_are_refused() -> None:
    for delta, seeds in ((0.0, 5), (1.0, 5), (float("nan"), 5), (0.5, 0)):
        with pytest.raises(SqirlError, match="must be in"):
            sample_complexity(lambda m, seed: None, lambda run: True, delta=delta, seeds=seeds)
