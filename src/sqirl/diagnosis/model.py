"""The prediction model: how many steps PPO, DQN and SQIRL will need.

One censored regression for each rule, each algorithm and each kind of features:

    log10(steps) = b_0 + Σ_j b_j x_j + σ · noise,     noise standard normal,

fitted by maximum likelihood, with a small penalty on b_1, b_2, …. A rule says when a run is done. PAPER: the mean of an
evaluation reaches the optimum; fitted to the 155 rows of the paper's tables. OURS: it comes within the tolerance of the
optimum, with our presets; fitted to our own runs (`sqirl.diagnosis.our_runs`). A row of the paper that was not solved says that
more than five million steps are needed, a run of ours that was cut that more are needed than it had. What was done at the first
evaluation says that at most ten thousand are. Features are standardised. How good the model is, is measured by leaving out all
rows of one game at a time. The deviation is then multiplied by a factor such that the 90 % intervals hold for 90 % of the rows
left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.suites import PAPER
from sqirl.results.statistics import BUDGET, area_under_curve

Values = NDArray[np.float64]

#: log10 of the first evaluation and of the budget: the range in which the paper's steps are known.
FIRST, LAST = 4.0, math.log10(BUDGET)
#: The 90 % interval of a normal distribution, in deviations.
DEVIATIONS = 1.6449
#: Share of the rows left out that the 90 % intervals should hold, and the factors of the deviation that are tried for it.
WANTED, FACTORS = 0.9, np.concatenate([np.arange(1.0, 0.39, -0.01), np.arange(1.01, 2.0, 0.01)])
#: Penalty on the squares of the coefficients of standardised features.
RIDGE = 1.0


@dataclass(frozen=True)
class Prediction:
    """Steps that an algorithm will need, as a normal distribution of log10(steps)."""

    algorithm: str
    center: float  # log10
    deviation: float
    rule: str = PAPER  # when a run is done: PAPER or OURS

    @property
    def steps(self) -> float:
        return float(10**self.center)

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % interval of the steps."""
        reach = DEVIATIONS * self.deviation
        return float(10 ** (self.center - reach)), float(10 ** (self.center + reach))

    def chance(self, budget: float = BUDGET) -> float:
        """The chance to solve the environment within a budget."""
        return _normal_cdf((math.log10(budget) - self.center) / self.deviation)

    def at_least(self, steps: float) -> Prediction:
        """The prediction that does not expect fewer steps than these."""
        return replace(self, center=max(self.center, math.log10(steps))) if steps > 0 else self

    def to_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "algorithm": self.algorithm, "rule": self.rule, "steps": self.steps, "low": low, "high": high,
            "chance_within_5_million": self.chance(),
        }  # fmt: skip


@dataclass(frozen=True)
class Quality:
    """Leave-one-game-out errors of a model."""

    rows: int
    games: int
    auc: float | None  # of "solved within five million steps"; None where that was not tried
    coverage: float  # share of the rows whose steps are in their 90 % interval
    median_factor: float  # median factor between prediction and truth, over the rows that were solved


@dataclass(frozen=True)
class StepModel:
    """A fitted regression of one algorithm."""

    algorithm: str
    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]  # the constant first
    deviation: float
    quality: Quality
    rule: str = PAPER

    def predict(self, features: Mapping[str, float]) -> Prediction:
        """The prediction for one environment."""
        x = np.array([features[name] for name in self.features])
        standardised = (x - np.array(self.means)) / np.array(self.scales)
        center = self.coefficients[0] + float(standardised @ np.array(self.coefficients[1:]))
        return Prediction(self.algorithm, center, self.deviation, self.rule)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> StepModel:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
        }
        fields["quality"] = Quality(**record["quality"])
        return cls(**fields)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Features and steps of environments; unknown steps have a range."""

    features: tuple[str, ...]
    x: Values  # (n, features)
    low: Values  # (n,) log10 of the steps, at least
    high: Values  # (n,) at most
    games: tuple[str, ...]  # (n,)

    def where(self, mask: NDArray[np.bool_]) -> TrainingData:
        games = tuple(game for game, chosen in zip(self.games, mask, strict=True) if chosen)
        return TrainingData(self.features, self.x[mask], self.low[mask], self.high[mask], games)


def step_range(steps: float | None) -> tuple[float, float]:
    """What the paper's table says about log10 of the steps: (at least, at most)."""
    if steps is None or steps > BUDGET:
        return LAST, math.inf
    known = math.log10(steps)
    return (-math.inf, FIRST) if known <= FIRST else (known, known)


def fit(algorithm: str, data: TrainingData, *, rule: str = PAPER) -> StepModel:
    """The model of an algorithm, with its leave-one-game-out errors."""
    means, scales, coefficients, deviation = _fit(data)
    center, left_out_deviation = left_out_predictions(data)
    factor = calibration(data, center, left_out_deviation)
    return StepModel(
        algorithm,
        data.features,
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(coefficients.tolist()),
        factor * deviation,
        quality_of(data, center, factor * left_out_deviation),
        rule,
    )


def calibration(data: TrainingData, center: Values, deviation: Values) -> float:
    """The factor of the deviation with which the intervals hold most nearly as often as they should.

    Rows that were not solved are in every interval that reaches beyond the budget, so without it the intervals hold too often.
    With few games they hold too seldom.
    """
    misses = [abs(_covered(data, center, factor * deviation).mean() - WANTED) for factor in FACTORS]
    return float(FACTORS[int(np.argmin(misses))])


def left_out_predictions(data: TrainingData) -> tuple[Values, Values]:
    """(n,) log10 of the predicted steps, and their deviations; each game is predicted by the others."""
    center, deviation = np.empty(len(data.x)), np.empty(len(data.x))
    games = np.array(data.games)
    for game in sorted(set(data.games)):
        out = games == game
        means, scales, coefficients, sigma = _fit(data.where(~out))
        center[out] = coefficients[0] + ((data.x[out] - means) / scales) @ coefficients[1:]
        deviation[out] = sigma
    return center, deviation


def centers_without(data: TrainingData, game: str, x: Values) -> Values:
    """(n,) log10 of the steps at the features x, (n, features), predicted by all games but one."""
    means, scales, coefficients, _ = _fit(data.where(np.array(data.games) != game))
    centers: Values = coefficients[0] + ((x - means) / scales) @ coefficients[1:]
    return centers


def quality_of(data: TrainingData, center: Values, deviation: Values) -> Quality:
    """How good left-out predictions are."""
    solved = data.low < LAST
    errors = np.abs(center - np.clip(center, data.low, data.high))[solved]
    auc = float(area_under_curve(center, np.where(solved, 1.0, math.inf)))
    return Quality(
        rows=len(data.x),
        games=len(set(data.games)),
        auc=None if math.isnan(auc) else auc,
        coverage=float(_covered(data, center, deviation).mean()),
        median_factor=float(10 ** np.median(errors)),
    )


def _covered(data: TrainingData, center: Values, deviation: Values) -> NDArray[np.bool_]:
    """(n,): can the steps of a row be in its 90 % interval?"""
    reach = DEVIATIONS * deviation
    covered: NDArray[np.bool_] = (center + reach >= data.low) & (center - reach <= data.high)
    return covered


def _fit(data: TrainingData) -> tuple[Values, Values, Values, float]:
    """(means, scales, coefficients, deviation) of the most likely model."""
    from scipy.optimize import minimize

    means, scales = data.x.mean(axis=0), data.x.std(axis=0) + 1e-9
    design = np.column_stack([np.ones(len(data.x)), (data.x - means) / scales])
    middle = np.where(np.isfinite(data.low), data.low, data.high)
    start = np.concatenate([[middle.mean()], np.zeros(design.shape[1] - 1), [math.log(middle.std() + 1e-9)]])
    found = minimize(_loss, start, args=(design, data.low, data.high), method="BFGS")
    return means, scales, found.x[:-1], float(np.exp(found.x[-1]))


def _loss(parameters: Values, design: Values, low: Values, high: Values) -> float:
    """Minus the log-likelihood of the ranges, and the penalty; the last parameter is log σ."""
    from scipy.special import ndtr

    coefficients, log_sigma = parameters[:-1], float(np.clip(parameters[-1], -5, 5))
    sigma, center = math.exp(log_sigma), design @ coefficients
    known = low == high
    exact = -0.5 * ((np.where(known, low, 0.0) - center) / sigma) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
    between = ndtr((high - center) / sigma) - ndtr((low - center) / sigma)
    likelihood = np.where(known, exact, np.log(np.maximum(between, 1e-300)))
    return float(-likelihood.sum() + RIDGE * (coefficients[1:] ** 2).sum())


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
