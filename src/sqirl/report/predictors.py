"""What explains the steps that deep RL needs: properties of the analysed environments beside the paper's sample complexities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqirl.analysis.tolerance import TOLERANCES
from sqirl.report.environments import EnvironmentRow, paper_algorithms
from sqirl.results.outcomes import paper_tables
from sqirl.results.statistics import BUDGET, Estimate, explained

#: A number for each environment, where it has one.
Property = Callable[[EnvironmentRow], float | None]


@dataclass(frozen=True)
class Predictor:
    """A property of environments, and how it goes with the steps of each algorithm: (rank correlation, area under the curve)."""

    name: str
    rows: int
    found: dict[str, tuple[Estimate | None, Estimate | None]]  # by the label of the algorithm


def predictors(rows: Sequence[EnvironmentRow]) -> list[Predictor]:
    """Of the rows that are analysed, with H̄_ε known: the effective horizons, and what is simpler."""
    known = [row for row in rows if row.analysis is not None and row.tolerant_horizon(TOLERANCES[0]) is not None]
    tables = paper_tables()
    properties: dict[str, Property] = {
        **{f"log A · H̄_ε, ε = {100 * epsilon:g} %": _tolerant(epsilon) for epsilon in sorted(TOLERANCES)},
        "log A · H̄ (Definition 3.3)": _scaled(lambda row: row.effective_horizon),
        "minus the random policy's share of the optimal return": _random_share,
        "horizon": lambda row: float(row.horizon),
        "states": lambda row: float(row.num_states or 0),
    }
    found = []
    for name, value_of in properties.items():
        values = {row.env_id: value for row in known if (value := value_of(row)) is not None}
        cells = {spec.label: explained(values, tables[spec.name]) for spec in paper_algorithms()}
        found.append(Predictor(name, len(values), cells))
    return found


def _tolerant(epsilon: float) -> Property:
    return _scaled(lambda row: row.tolerant_horizon(epsilon))


def _scaled(horizon_of: Property) -> Property:
    """log A times a horizon: the logarithm of A^H̄, to which the bounds are proportional."""

    def value(row: EnvironmentRow) -> float | None:
        horizon = horizon_of(row)
        return None if horizon is None or row.num_actions is None else horizon * math.log(row.num_actions)

    return value


def _random_share(row: EnvironmentRow) -> float | None:
    a = row.analysis
    if a is None or a.optimal_return <= a.worst_return:
        return None
    return -(a.random_return - a.worst_return) / (a.optimal_return - a.worst_return)


def predictors_section(rows: Sequence[EnvironmentRow]) -> list[str]:
    """The section of docs/bridge.md."""
    found = predictors(rows)
    if not found or not found[0].rows:
        return []
    labels = [spec.label for spec in paper_algorithms()]
    lines = [
        "",
        "## What explains the steps that deep RL needs",
        "",
        f"Over the {found[0].rows} rows whose H̄_ε is computed: the rank correlation of a property with the steps that the "
        f"paper's algorithm needed (rows that it did not solve within {BUDGET:,} steps count as needing the most, all alike), "
        "and the area under the curve (AUC) of telling the solved rows from the others. In brackets: 95 % intervals over "
        "resampled rows. H̄_ε is the effective horizon for policies that may lose the share ε of what optimal play gains on "
        "random play; [how it is defined](../src/sqirl/analysis/tolerance.py).",
        "",
        "| property | rows | " + " | ".join(f"{label} correlation | {label} AUC" for label in labels) + " |",
        "|---|---:|" + "---:|" * (2 * len(labels)),
    ]
    for each in found:
        cells = [_shown(estimate) for label in labels for estimate in each.found[label]]
        lines.append(f"| {each.name} | {each.rows} | {' | '.join(cells)} |")
    return lines


def _shown(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
