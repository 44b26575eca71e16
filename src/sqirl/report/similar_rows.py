"""What is usually needed: the steps of the paper's runs on the analysed environments that are most similar to an MDP."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqirl.analysis.result import Analysis, TolerantHorizon
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.report.environments import EnvironmentRow, environment_rows, paper_algorithms
from sqirl.results.statistics import BUDGET, censored_median, num_solved

#: So many environments are looked at.
NEIGHBOURS = 9


@dataclass(frozen=True)
class UsualSteps:
    """The steps of one algorithm on the similar environments."""

    label: str
    solved: int  # how many it solves within the paper's budget
    of: int
    median: float | None  # None: it solves fewer than half of them
    here: float | None  # on the environment itself; None: not solved, or not one of the paper's


@dataclass(frozen=True)
class SimilarRows:
    """The environments of the paper whose log A · H̄_ε is nearest to that of an MDP, itself left out."""

    tolerance: float  # ε
    value: float  # log A · H̄_ε of the MDP
    low: float  # the least and the greatest of the similar ones
    high: float
    known: tuple[float, float]  # ... and of all environments that are analysed
    env_ids: tuple[str, ...]
    is_in_paper: bool
    steps: tuple[UsualSteps, ...]

    def lines(self) -> list[str]:
        """The paragraph of `sqirl analyze`."""
        count, share = len(self.env_ids), f"{100 * self.tolerance:g} %"
        lines = [
            f"what is usually needed: of the {count} analysed sticky games with the nearest log A · H̄ within {share} "
            f"({self.low:.1f} to {self.high:.1f}, here {self.value:.1f}{self._outside()}),",
            f"  the paper's runs solve within {BUDGET:,} steps: " + "   ".join(map(_of_rows, self.steps)),
        ]
        if self.is_in_paper:
            lines.append("  on this game itself: " + "   ".join(f"{f.label} {_steps(f.here)}" for f in self.steps))
        return lines

    def _outside(self) -> str:
        if self.value > self.known[1]:
            return f"; no analysed game has more than {self.known[1]:.1f}, so it may well need more"
        return f"; no analysed game has less than {self.known[0]:.1f}" if self.value < self.known[0] else ""


def similar_rows(analysis: Analysis, rows: Sequence[EnvironmentRow] | None = None) -> SimilarRows | None:
    """The rows that are most similar to an analysed MDP; None where `why_none_is_similar` says why."""
    found = analysis.tolerant[0] if analysis.tolerant else None
    rows = environment_rows() if rows is None else rows
    if found is None or found.horizon is None or analysis.discount != 1:
        return None
    known = _known(rows, found)
    value = found.horizon * math.log(analysis.num_actions)
    others = sorted((env for env in known if env != analysis.env_id), key=lambda env: abs(known[env] - value))
    nearest = others[:NEIGHBOURS]
    if not nearest:
        return None
    by_id = {row.env_id: row for row in rows}
    here = by_id.get(analysis.env_id)
    values = [known[env] for env in nearest]
    return SimilarRows(
        found.epsilon, value, min(values), max(values), (min(known.values()), max(known.values())), tuple(nearest),
        here is not None, _usual_steps([by_id[env] for env in nearest], here),
    )  # fmt: skip


def why_none_is_similar(analysis: Analysis) -> str:
    """Why there are no similar rows, and what to do about it."""
    if analysis.discount != 1:
        return "the paper's games are not discounted; leave out --discount"
    if not analysis.tolerant or analysis.tolerant[0].horizon is None:
        return "it has no effective horizon within this tolerance; try a larger --tolerance"
    known = ", ".join(f"{epsilon:g}" for epsilon in sorted(TOLERANCES))
    return f"no analysed game has H̄ within {100 * analysis.tolerant[0].epsilon:g} %; try --tolerance {known}"


def _known(rows: Sequence[EnvironmentRow], found: TolerantHorizon) -> dict[str, float]:
    """log A · H̄_ε by environment, where it is known."""
    values = {row.env_id: (row.tolerant_horizon(found.epsilon), row.num_actions) for row in rows}
    return {env: horizon * math.log(A) for env, (horizon, A) in values.items() if horizon is not None and A is not None}


def _usual_steps(rows: Sequence[EnvironmentRow], here: EnvironmentRow | None) -> tuple[UsualSteps, ...]:
    found = []
    for spec in paper_algorithms():
        steps: Mapping[str, float | None] = {row.env_id: row.paper_solved[spec.name] for row in rows}
        own = None if here is None else here.paper_solved[spec.name]
        median = censored_median(list(steps.values()))
        found.append(UsualSteps(spec.label, num_solved(steps), len(rows), median, own))
    return tuple(found)


def _of_rows(found: UsualSteps) -> str:
    median = "" if found.median is None else f" (median {found.median:,.0f})"
    return f"{found.label} {found.solved} of {found.of}{median}"


def _steps(value: float | None) -> str:
    return "not solved" if value is None else f"{value:,.0f}"
