"""What explains the steps that deep RL needs: properties of the analysed environments beside the paper's sample complexities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqirl.algorithms.registry import DQN, PPO, SQIRL
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.report.environments import EnvironmentRow, paper_algorithms
from sqirl.report.markdown import table
from sqirl.results.outcomes import paper_tables
from sqirl.results.statistics import BUDGET, Estimate, explained

#: A number for each environment, where it has one.
Property = Callable[[EnvironmentRow], float | None]

#: The algorithms that are drawn against the effective horizon. (GORP is for deterministic environments, and these are sticky.)
DRAWN = (PPO, DQN, SQIRL)


@dataclass(frozen=True)
class Predictor:
    """A property of environments, and how it goes with the steps of each algorithm: (rank correlation, area under the curve)."""

    name: str
    label: str  # shorter, for figures
    tolerance: float | None  # ε of H̄_ε, 0 for H̄ by the letter; None for a property that is not an effective horizon
    values: Mapping[str, float]  # by environment
    found: Mapping[str, tuple[Estimate | None, Estimate | None]]  # by the label of the algorithm

    @property
    def rows(self) -> int:
        return len(self.values)


def predictors(rows: Sequence[EnvironmentRow]) -> list[Predictor]:
    """Of the rows that are analysed, with H̄_ε known: the effective horizons, and what is simpler."""
    known = [row for row in rows if row.analysis is not None and row.tolerant_horizon(TOLERANCES[0]) is not None]
    horizons = [_within(epsilon) for epsilon in sorted(TOLERANCES)]
    letter = ("log A · H̄ (Definition 3.3)", "H̄ by the letter", 0.0, _scaled(0.0))
    simpler: list[tuple[str, str, float | None, Property]] = [
        ("minus the random policy's share of the optimal return", "random play's return", None, _random_share),
        ("horizon", "length of an episode", None, lambda row: float(row.horizon)),
        ("states", "number of states", None, lambda row: float(row.num_states or 0)),
    ]
    return [_predictor(known, *described) for described in (*horizons, letter, *simpler)]


def _within(epsilon: float) -> tuple[str, str, float, Property]:
    share = f"{100 * epsilon:g} %"
    return f"log A · H̄_ε, ε = {share}", f"H̄ within {share}", epsilon, _scaled(epsilon)


def _predictor(
    rows: Sequence[EnvironmentRow], name: str, label: str, tolerance: float | None, value_of: Property
) -> Predictor:
    values = {row.env_id: value for row in rows if (value := value_of(row)) is not None}
    tables = paper_tables()
    cells = {spec.label: explained(values, tables[spec.name]) for spec in paper_algorithms()}
    return Predictor(name, label, tolerance, values, cells)


def _scaled(tolerance: float) -> Property:
    return lambda row: None if row.analysis is None else scaled_horizon(row.analysis, tolerance)


def scaled_horizon(analysis: Analysis, tolerance: float) -> float | None:
    """log A · H̄_ε, or log A · H̄ with tolerance 0: the logarithm of A^H̄, to which the bounds are proportional."""
    within = analysis.tolerant_horizon(tolerance) if tolerance else None
    horizon = (None if within is None else within.horizon) if tolerance else analysis.effective_horizon
    return None if horizon is None else horizon * math.log(analysis.num_actions)


def _random_share(row: EnvironmentRow) -> float | None:
    a = row.analysis
    if a is None or a.optimal_return <= a.worst_return:
        return None
    return -(a.random_return - a.worst_return) / (a.optimal_return - a.worst_return)


def predictors_section(found: Sequence[Predictor]) -> list[str]:
    """The section of docs/bridge.md."""
    if not found or not found[0].rows:
        return []
    labels = [spec.label for spec in paper_algorithms()]
    header = ["property", "rows", *(f"{label} {what}" for label in labels for what in ("correlation", "AUC"))]
    cells = [
        [each.name, str(each.rows), *(in_words(estimate) for label in labels for estimate in each.found[label])]
        for each in found
    ]
    return [
        "",
        "## What explains the steps that deep RL needs",
        "",
        f"Over the {found[0].rows} rows whose H̄_ε is computed: the rank correlation of a property with the steps that the "
        f"paper's algorithm needed (rows that it did not solve within {BUDGET:,} steps count as needing the most, all alike), "
        "and the area under the curve (AUC) of telling the solved rows from the others: 1 is perfect, 0.5 is chance. In "
        "brackets: 95 % intervals over resampled rows. A is the number of actions. H̄_ε is the effective horizon for policies "
        "that may lose the share ε of what optimal play gains on random play; [how it is defined](effective_horizon.md).",
        "",
        *table(header, cells)[:-1],
    ]


def in_words(estimate: Estimate | None) -> str:
    """'0.87 (0.80 to 0.91)'."""
    return "" if estimate is None else f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
