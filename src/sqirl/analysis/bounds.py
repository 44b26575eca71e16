"""The paper's sample-complexity bounds, in timesteps, with every constant a named argument.

The theorems have a universal constant that is not known. `constant=1` leaves it out. So a bound is good for a comparison of
environments, but it is not a number of steps that is guaranteed to suffice. All bounds are for returns normalised to [0, 1],
as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqirl.errors import SqirlError

#: Defaults of the accuracy ε and of the failure probability δ.
EPSILON, DELTA = 0.05, 0.05
#: The least ε and δ, and the most parameters: their powers are numbers that a float can hold.
LEAST_SHARE, MOST_PARAMETERS = 1e-50, 1e50


@dataclass(frozen=True)
class BoundTerms:
    """What a bound is asked for: a loss of at most ε of the range of returns, with probability 1 - δ, for a class of dimension d.

    `feature_dimension` is the d of linear Q-functions w·φ(s, a). `pseudo_dimension` is that of any other class. The tabular class
    needs neither.
    """

    epsilon: float = EPSILON
    delta: float = DELTA
    feature_dimension: float | None = None
    pseudo_dimension: float | None = None

    def __post_init__(self) -> None:
        for name, symbol, value in (("epsilon", "ε", self.epsilon), ("delta", "δ", self.delta)):
            if not LEAST_SHARE <= value <= 1:  # not true of nan
                raise SqirlError(
                    f"{name} {value:g} is not in [{LEAST_SHARE:g}, 1]: {symbol} of a bound is a share; try 0.05"
                )
        for name in ("feature_dimension", "pseudo_dimension"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST_PARAMETERS:
                shown = name.replace("_", " ")
                raise SqirlError(
                    f"{shown} {value:g} is not a number between 1 and {MOST_PARAMETERS:g}: it counts the parameters of a class"
                )


@dataclass(frozen=True)
class VCType:
    """A hypothesis class whose L2 covering number is at most (constant / ε)^dimension (Definition A.1 of the paper)."""

    dimension: float
    constant: float

    def log_covering_number(self, epsilon: float) -> float:
        """Natural logarithm of the bound on the covering number at scale ε."""
        return self.dimension * math.log(self.constant / epsilon)


def finite_pseudo_dimension(d: float) -> VCType:
    """A class of pseudo-dimension d: its covering number is O((4e / ε)^(2d)) (the first example of Appendix A.1)."""
    return VCType(2 * d, 4 * math.e)


def lipschitz_parameters(d: int, *, radius: float, lipschitz: float) -> VCType:
    """Q_θ Lipschitz in θ ∈ R^d with |θ| ≤ radius (the second example of Appendix A.1).

    (1 + 4·radius·lipschitz / ε)^d is at most ((1 + 4·radius·lipschitz) / ε)^d for ε ≤ 1.
    """
    return VCType(d, 1 + 4 * radius * lipschitz)


def log_cover_of_pseudo_dimension(d: float, epsilon: float, *, constant: float = 1.0) -> float:
    """log of C·d·(16e)^d·(1/ε)^(2(d-1)), the first example before its constants are absorbed."""
    return math.log(constant * d) + d * math.log(16 * math.e) + 2 * (d - 1) * math.log(1 / epsilon)


def log_cover_of_lipschitz(d: int, epsilon: float, *, radius: float, lipschitz: float) -> float:
    """log of (1 + 4·radius·lipschitz / ε)^d, the second example before its constants are absorbed."""
    return d * math.log1p(4 * radius * lipschitz / epsilon)


def network_pseudo_dimension(num_parameters: int, num_layers: int) -> float:
    """O(n·ℓ·log n) for a network of n parameters in ℓ layers."""
    return num_parameters * num_layers * math.log(num_parameters)


def least_squares_complexity(
    hypotheses: VCType,
    *,
    num_actions: int,
    delta: float,
    blowup: float = 1.0,
    closed_under_qvi: bool = True,
    constant: float = 1.0,
) -> float:
    """F(δ) + G(α, δ) of least squares over a realizable VC-type class (Theorem A.4 of the paper), α = `blowup`.

    A class that is not closed under QVI (Definition A.3) needs α > 2 and pays (α - 2)^-4; the paper takes α = √5.
    """
    d, b = hypotheses.dimension, hypotheses.constant
    if not closed_under_qvi and blowup <= 2:
        raise ValueError(f"blowup {blowup} must exceed 2 for a class that is not closed under QVI (the paper: √5)")
    slack = 1.0 if closed_under_qvi else blowup - 2
    regression = d * math.log(b * d) + math.log(1 / delta)
    iteration = (d * math.log(num_actions * b * d / slack) + math.log(1 / delta)) / slack**4
    return constant * (regression + iteration)


@dataclass(frozen=True)
class Instance:
    """What the bounds need to know about a k-QVI-solvable MDP: k, T, A and the k-gap Δ_k of returns in [0, 1]."""

    k: int
    horizon: int
    num_actions: int
    gap: float

    @property
    def log_power(self) -> float:
        """log A^H̄_k = log(A^k / Δ_k²); a logarithm, because either may be beyond the range of floats."""
        return self.k * math.log(self.num_actions) - 2 * math.log(self.gap)


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 709 else math.inf


def gorp_bound(mdp: Instance, *, delta: float = DELTA, constant: float = 1.0) -> float:
    """C·k·T²·A^H̄_k·log(T·A / δ): GORP in deterministic MDPs (Lemma 3.4 of the paper)."""
    rest = constant * mdp.k * mdp.horizon**2 * math.log(mdp.horizon * mdp.num_actions / delta)
    return _exp(mdp.log_power + math.log(rest))


def gorp_episodes(mdp: Instance, *, failure: float = 0.5) -> float:
    """m with which GORP takes only actions that are greedy on Q^k, with probability at least 1 - `failure`.

    m = ⌈2 · log(T·A^k / failure) / Δ_k²⌉. In each of T iterations GORP takes the first action of the best of A^k sequences. That
    action is greedy if the mean return of one best sequence is above its expectation less Δ_k/2, and the means of all
    sequences with other first actions are below theirs plus Δ_k/2. By Hoeffding's inequality each of these fails with
    probability at most exp(-m·Δ_k²/2), for returns in [0, 1].
    """
    log_count = math.log(mdp.horizon / failure) + mdp.k * math.log(mdp.num_actions)
    episodes = _exp(math.log(2 * log_count) - 2 * math.log(mdp.gap))
    return max(1.0, float(math.ceil(episodes))) if math.isfinite(episodes) else math.inf


def deterministic_horizon_bound(mdp: Instance) -> float:
    """H_k ≤ k + log_A m = H̄_k + log_A O(log(T·A^k)): the deterministic effective horizon (Lemma 3.4 of the paper).

    The effective horizon of deterministic MDPs is H = min_k H_k with H_k = k + log_A(m_k), where m_k is the least m with which
    GORP is optimal with probability at least 1/2. The paper's O(…) is 2·log(2·T·A^k) here, by `gorp_episodes`.
    """
    return mdp.k + math.log(gorp_episodes(mdp)) / math.log(mdp.num_actions)


def sqirl_episodes(
    mdp: Instance, *, complexity: float, blowup: float = 1.0, epsilon: float = EPSILON, constant: float = 1.0
) -> float:
    """m of Theorem 3.6 of the paper (SQIRL sample complexity), with D = `complexity`.

    m = C·k·T·α^(2(k-1))·A^k·D / (Δ²·ε) · log(k·T·α·A·D / (Δ·ε))
    """
    k, T = mdp.k, mdp.horizon
    inner = math.log(k * T * blowup * mdp.num_actions * complexity / epsilon) - math.log(mdp.gap)
    rest = math.log(constant * k * T * complexity / epsilon) + 2 * (k - 1) * math.log(blowup) + math.log(inner)
    return _exp(mdp.log_power + rest)


def sqirl_bound(
    mdp: Instance,
    *,
    hypotheses: VCType,
    blowup: float = 1.0,
    closed_under_qvi: bool = True,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    constant: float = 1.0,
) -> float:
    """Timesteps of SQIRL by Theorem 3.6 of the paper (SQIRL sample complexity): T iterations of m episodes of T steps."""
    share = delta / (mdp.k * mdp.horizon)
    complexity = least_squares_complexity(
        hypotheses, num_actions=mdp.num_actions, delta=share, blowup=blowup, closed_under_qvi=closed_under_qvi
    )
    episodes = sqirl_episodes(mdp, complexity=complexity, blowup=blowup, epsilon=epsilon, constant=constant)
    return mdp.horizon**2 * episodes


@dataclass(frozen=True)
class BoundRow:
    """One row of Table 1 of the paper: leading terms without logarithms; None where no bound is known."""

    setting: str
    strategic: float | None
    sqirl: float | None


def table_of_bounds(
    mdp: Instance,
    *,
    num_states: int,
    epsilon: float = EPSILON,
    feature_dimension: float | None = None,
    pseudo_dimension: float | None = None,
) -> tuple[BoundRow, ...]:
    """Table 1 of the paper for one MDP. Rows whose dimension is not given are left out."""
    T, A, S = mdp.horizon, mdp.num_actions, num_states
    leading = _exp(mdp.log_power + math.log(mdp.k * T**3 / epsilon))  # k·T³·A^H̄_k / ε
    rows = [BoundRow("tabular", T * S * A / epsilon**2, leading * S * A)]
    if feature_dimension is not None:
        rows.append(BoundRow("linear", T**2 * feature_dimension**2 / epsilon**2, leading * feature_dimension))
    if pseudo_dimension is not None:
        rows.append(BoundRow("finite pseudo-dimension", None, leading * 5**mdp.k * pseudo_dimension))
    return tuple(rows)
