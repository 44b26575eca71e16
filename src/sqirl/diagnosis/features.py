"""The numbers that the prediction model sees of an environment: from an exact analysis, or from samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.result import Analysis, TolerantHorizon
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.diagnosis.sampling import Samples
from sqirl.mdp.scope import is_estimated

#: Kinds of features, and the names of the numbers of each.
EXACT, SAMPLED = "exact", "sampled"
FEATURES = {
    EXACT: ("difficulty", "log_length"),
    SAMPLED: ("lift", "rarity", "variety", "greedy_share", "log_horizon"),
}
#: Of the prediction for our own runs. `paper_center` is log10 of the steps that are predicted by the paper's rule.
OUR_FEATURES = {EXACT: ("difficulty", "pictures"), SAMPLED: ("paper_center", "pictures")}
#: A picture is at least so many points high and wide; smaller arrays are grids.
PICTURE_SIZE = 32
#: How an agent sees an environment: as pictures, as a grid or some numbers, or as the number of the state.
PICTURES, GRID, NUMBER = SEEN_AS = "pictures", "grid", "number"
#: Rewards that are met more often than once in so many episodes (a power of ten) are not rare.
NOT_RARE = 2.0
#: Powers of ten for returns that were never unusual: where rollouts differ late in an episode, and where nothing differs at all.
LATE_ONLY, NEVER = 3.5, 4.5
#: Classes of returns between the worst and the best one seen.
CLASSES = 10
#: Added to `lift` where no episode earned more than random play.
NOTHING_FOUND = 3.0
#: Differences between returns below this share of them are rounding.
SAME_SHARE = 1e-9
#: Random play is punished if the optimal return is less than this share of the gain on it, and more than the least scale.
PUNISHED, LEAST_SCALE = 0.2, 0.005
#: Resamples of decision points for the interval of a sampled horizon.
RESAMPLES = 400

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """The input of the prediction model."""

    kind: str
    values: Mapping[str, float]
    #: random play needs more steps than this until an episode is half as good as the optimum; 0 where it is not known
    least_steps: float = 0.0


@dataclass(frozen=True)
class SampledHorizon:
    """The sampled counterpart of H̄_ε for k = 1: 1 + log_A(1 / Δ²), with Δ the margin over the range of returns seen.

    The margin is the standard deviation of Q^1 over the actions, averaged over the moments of the greedy paths, with the noise of
    the rollouts removed. If there is no margin above the noise, the horizon is a lower bound.
    """

    horizon: float
    low: float
    high: float | None  # None: no upper limit
    margin: float
    noise: float  # standard deviation of one rollout
    no_signal: bool  # did no rollout differ from the others?
    moments: int
    rollouts: int
    greedy_return: float | None  # mean of the last paths on Q^1
    greedy_return_2: float | None  # of the path on Q^2

    @property
    def text(self) -> str:
        if self.no_signal:
            return f"at least {self.low:.1f}: no action made a difference in {self.rollouts:,} rollouts"
        if self.high is None:
            return (
                f"at least {self.low:.1f}: the margin between actions is below the noise of {self.rollouts:,} rollouts"
            )
        interval = f"90 % interval {self.low:.1f} to {self.high:.1f}"
        return f"{self.horizon:.1f} ({interval}), from {self.rollouts:,} rollouts at {self.moments:,} moments"


def features_path() -> Path:
    """The file of the sampled features of the paper's environments, and of the fitted models."""
    return Path(str(resources.files("sqirl.data"))) / "features.json"


def exact_features(
    difficulty: float, log_length: float, *, pictures: bool = False, least_steps: float = 0.0
) -> Features:
    """The features of a table.

    :param difficulty: log A · H̄_ε, the logarithm of the episodes that planning needs
    :param log_length: the logarithm of the mean length of an episode of random play, the steps of each of them
    :param pictures: does the agent see pictures?
    :param least_steps: see `Features`
    """
    values = {"difficulty": difficulty, "log_length": log_length, "pictures": float(pictures)}
    return Features(EXACT, values, least_steps)


def are_pictures(shape: Sequence[int]) -> bool:
    """Are observations of this shape pictures, and not grids or lists of numbers?"""
    return len(shape) >= 3 and sorted(shape)[-2] >= PICTURE_SIZE


def tolerance_of(optimal: float, random: float) -> float:
    """The share of its gain on random play that a policy may lose and still be called good.

    It is 10 %. Where random play is punished so hard that 10 % of the gain is much more than the optimal return itself, it is
    10 % of the optimal return: a policy that stands still before a cliff is not good because it does not fall.
    """
    gain = optimal - random
    if gain <= 0 or abs(optimal) >= PUNISHED * gain or abs(optimal) < LEAST_SCALE * gain:
        return TOLERANCES[0]
    return TOLERANCES[0] * abs(optimal) / gain


def good_return(samples: Samples) -> float:
    """The return that counts as good where the optimum is not known: close to the best return seen."""
    best, random = samples.best_return, samples.random.mean
    return best - tolerance_of(best, random) * (best - random)


def epsilon_of(analysis: Analysis) -> float:
    """`tolerance_of` an analysis. Of an estimated MDP it is 10 %: what its optimal return is, is known only roughly."""
    if analysis.mdp is not None and is_estimated(analysis.mdp):
        return TOLERANCES[0]
    return tolerance_of(analysis.optimal_return, analysis.random_return)


def leading(analysis: Analysis) -> TolerantHorizon | None:
    """H̄_ε of the analysis for the ε of `epsilon_of`, if it was computed."""
    return analysis.tolerant_horizon(epsilon_of(analysis))


def allowed_loss(analysis: Analysis) -> float:
    """What a good policy may lose, in the units of the rewards."""
    return epsilon_of(analysis) * (analysis.optimal_return - analysis.random_return)


def is_flat(analysis: Analysis) -> bool:
    """Does random play already earn the optimum?"""
    gain = analysis.optimal_return - analysis.random_return
    return gain <= analysis.resolution * max(abs(analysis.optimal_return), 1e-12)


def first_good_k(analysis: Analysis) -> int | None:
    """The first k such that every policy greedy on Q^k is good; None if no k that was looked at is."""
    rounding = analysis.resolution * (abs(analysis.optimal_return) + abs(analysis.random_return))
    least = analysis.optimal_return - allowed_loss(analysis) - rounding
    return next((k for k, earned in enumerate(analysis.greedy_returns, start=1) if earned >= least), None)


def difficulty_of(found: TolerantHorizon, num_actions: int) -> float | None:
    """log A · H̄_ε; None where no k is good enough."""
    if found.k is None or found.gap is None:
        return None
    return found.k * math.log(num_actions) - 2 * math.log(found.gap)


def sampled_features(samples: Samples, *, pictures: bool = False) -> Features:
    """What random play and rollouts say.

    Random play has returns with the mean μ and the deviation σ; the best episode that was seen gains g on μ.

    lift            log of (g / σ)². If a share p of the episodes earns 1 and the others 0, it is nearly log(1 / p)
    rarity          how much rarer than once in a hundred episodes an unusual return is, in powers of ten
    variety         the entropy of the returns, in ten classes between the worst and the best return seen
    greedy_share    the share of g that the greedy paths on Q^1 earn on the mean; 0 where none came to its end
    log_horizon     log T
    log_length      log of the mean length of an episode, for the exact features of the same environment
    pictures        1 if the agent sees pictures
    """
    lengths = samples.random.lengths
    values = {
        "lift": _lift(samples),
        "rarity": max(_rarity(samples) - NOT_RARE, 0.0),
        "variety": _variety(samples),
        "greedy_share": _greedy_share(samples),
        "log_horizon": math.log(samples.horizon or float(lengths.max())),
        "log_length": math.log(max(float(lengths.mean()), 1.0)),
        "pictures": float(pictures),
    }
    return Features(SAMPLED, values)


def _lift(samples: Samples) -> float:
    """See `sampled_features`. Where n episodes all earned the same, half an episode of n counts as better."""
    mean, deviation, best = samples.random.mean, samples.random.deviation, samples.best_episode
    rounding, at_most = _rounding(samples), math.log(2 * len(samples.random.returns))
    if best - mean <= rounding:
        return at_most + NOTHING_FOUND
    return at_most if deviation <= rounding else 2 * math.log((best - mean) / deviation)


def _variety(samples: Samples) -> float:
    spread = samples.best_return - samples.worst_return
    places = (samples.random.returns - samples.worst_return) / (spread or 1.0) * CLASSES
    counts = np.bincount(np.clip(places.astype(np.int64), 0, CLASSES - 1))
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _rarity(samples: Samples) -> float:
    """-log10 of how often random play earns something unusual. Where it never does, rollouts from the start are looked at."""
    returns = samples.random.returns
    known, counts = np.unique(returns, return_counts=True)
    usual, hits = float(known[counts.argmax()]), len(returns) - int(counts.max())
    if hits:
        return min(-math.log10(hits / len(returns)), 4.0)
    points = [point for path in samples.paths if path.k == 1 for point in path.points]
    first = [point for point in points if point.t == 0]
    weight = sum(point.rollouts * len(point.means) for point in first)
    mean = sum(float((point.means - usual).sum()) * point.rollouts for point in first) / max(weight, 1)
    square = sum(float((point.deviations**2 + (point.means - usual) ** 2).sum()) * point.rollouts for point in first)
    if square > 0:  # the share of the rollouts that differ, if they all differ by the same amount
        share = max(mean**2 / (square / weight), 0.5 / (len(returns) + weight))
        return min(-math.log10(share), 4.0)
    return LATE_ONLY if any((point.deviations > 0).any() for point in points) else NEVER


def _greedy_share(samples: Samples) -> float:
    gain = samples.best_episode - samples.random.mean
    earned = [path.total for path in samples.paths if path.k == 1 and path.complete]
    if not earned or gain <= _rounding(samples):
        return 0.0
    return (float(np.mean(earned)) - samples.random.mean) / gain


def _rounding(samples: Samples) -> float:
    """Differences between returns that are no more than this are not real."""
    return SAME_SHARE * max(abs(samples.best_episode), abs(samples.random.mean))


def sampled_horizon(samples: Samples, *, seed: int = 0) -> SampledHorizon:
    """The sampled effective horizon with its 90 % interval over resampled moments."""
    A = samples.num_actions
    points = [point for path in samples.paths if path.k == 1 for point in path.points]
    rollouts = sum(point.rollouts * A for point in points)
    spread = (
        max(samples.best_return - samples.worst_return, *(float(np.ptp(p.means)) for p in points), 0.0)
        if points
        else 0.0
    )
    several = [point for point in points if point.rollouts > 1]
    noise = np.array([float((p.deviations**2).mean()) * p.rollouts / (p.rollouts - 1) for p in several])
    signal = (
        np.array([float(p.means.var(ddof=1)) for p in several])
        - noise / np.array([p.rollouts for p in several] or [1])[: len(noise)]
    )
    paths = [path for path in samples.paths if path.complete]
    last = [path.total for path in paths if path.k == 1][-3:]
    second = [path.total for path in paths if path.k == 2]
    floor = 1 / max(rollouts, 2)
    seen = spread > 0 and len(signal) > 0 and bool(noise.any())
    low, center, high = _margins(signal, seed) if seen else (0.0, 0.0, 0.0)
    gaps = [max(margin / spread, floor) if seen else floor for margin in (high, center, low)]
    return SampledHorizon(
        horizon=_horizon(gaps[1], A),
        low=_horizon(gaps[0], A),
        high=_horizon(gaps[2], A) if seen and low > 0 else None,
        margin=center,
        noise=float(np.sqrt(noise.mean())) if len(noise) else 0.0,
        no_signal=spread <= 0 or not noise.any(),
        moments=len(points),
        rollouts=rollouts,
        greedy_return=float(np.mean(last)) if last else None,
        greedy_return_2=second[-1] if second else None,
    )


def _margins(signal: Floats, seed: int) -> tuple[float, float, float]:
    """The root of the mean signal, between the ends of its 90 % interval over resampled moments."""
    draws = np.random.default_rng(seed).integers(len(signal), size=(RESAMPLES, len(signal)))
    low, high = np.percentile(signal[draws].mean(axis=1), [5, 95])
    low, center, high = (math.sqrt(max(float(value), 0.0)) for value in (low, signal.mean(), high))
    return low, center, high


def _horizon(gap: float, num_actions: int) -> float:
    return 1 - 2 * math.log(min(gap, 1.0)) / math.log(max(num_actions, 2))
