"""What the paper's theorems guarantee for an analysed MDP: for policies within a tolerance, and for optimal ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqirl.analysis import bounds
from sqirl.analysis.bounds import BoundRow, BoundTerms

if TYPE_CHECKING:
    from sqirl.analysis.result import Analysis


@dataclass(frozen=True)
class Guarantee:
    """Timesteps that suffice with one k, up to the unknown constants of the theorems.

    The policy may lose `tolerance` of what optimal play gains on random play, and ε of the range of returns besides.
    `sqirl` is Theorem 3.6 of the paper for the tabular class. `gorp` is Lemma 3.4, for deterministic MDPs only. `table` is
    Table 1: leading terms, next to those of strategic exploration.
    """

    tolerance: float  # 0: the policy is optimal up to ε, as in the paper
    k: int
    sqirl: float
    gorp: float | None
    table: tuple[BoundRow, ...]


def guarantees(analysis: Analysis, terms: BoundTerms | None = None) -> tuple[Guarantee, ...]:
    """One guarantee for each H̄_ε of the analysis, then that of the paper, as far as they are known.

    A guarantee for H̄_ε has Δ_{k,ε} in the place of Δ_k; docs/effective_horizon.md has the proof.
    """
    terms = terms or BoundTerms()
    cases = [(found.epsilon, found.k, found.gap) for found in analysis.tolerant]
    cases.append((0.0, analysis.effective_horizon_k, analysis.gap))
    return tuple(_guarantee(analysis, terms, tolerance, k, gap) for tolerance, k, gap in cases if k and gap)


def deterministic_horizon(analysis: Analysis) -> tuple[float, int] | None:
    """A bound on the effective horizon H of a deterministic MDP, and the k that attains it (Lemma 3.4 of the paper).

    None where the MDP is not deterministic, or not k-QVI-solvable for any k that was looked at.
    """
    if not _is_deterministic(analysis):
        return None
    instances = [
        bounds.Instance(k, analysis.horizon, analysis.num_actions, gap)
        for k, gap in enumerate(analysis.gaps, start=1)
        if gap
    ]
    return min(((bounds.deterministic_horizon_bound(each), each.k) for each in instances), default=None)


def with_bounds(analysis: Analysis, terms: BoundTerms) -> Analysis:
    """The analysis with its bounds for other ε, δ and dimensions; nothing else is computed again."""
    if analysis.bounds is None:
        return analysis
    exact = guarantees(replace(analysis, tolerant=()), terms)[0]
    found = replace(
        analysis.bounds, epsilon=terms.epsilon, delta=terms.delta, gorp=exact.gorp, sqirl=exact.sqirl, table=exact.table
    )
    return replace(analysis, bounds=found)


def _guarantee(analysis: Analysis, terms: BoundTerms, tolerance: float, k: int, gap: float) -> Guarantee:
    instance = bounds.Instance(k, analysis.horizon, analysis.num_actions, gap)
    tabular = bounds.finite_pseudo_dimension(analysis.num_states * analysis.num_actions)
    return Guarantee(
        tolerance=tolerance,
        k=k,
        sqirl=bounds.sqirl_bound(instance, hypotheses=tabular, epsilon=terms.epsilon, delta=terms.delta),
        gorp=bounds.gorp_bound(instance, delta=terms.delta) if _is_deterministic(analysis) else None,
        table=bounds.table_of_bounds(
            instance,
            num_states=analysis.num_states,
            epsilon=terms.epsilon,
            feature_dimension=terms.feature_dimension,
            pseudo_dimension=terms.pseudo_dimension,
        ),
    )


def _is_deterministic(analysis: Analysis) -> bool:
    """Only then does an analysis have a bound of GORP."""
    return analysis.bounds is not None and analysis.bounds.gorp is not None
