"""The paper's 155 environments as data: the catalogue, the paper's results and our exact analysis of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqirl.algorithms.registry import algorithms
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.analysis.archive import archived_analyses, growth_notes
from sqirl.analysis.result import Analysis
from sqirl.envs.catalogue import CatalogueRow, catalogue
from sqirl.envs.suites import SUITES
from sqirl.errors import SqirlError
from sqirl.mdp.store import is_shipped
from sqirl.results.statistics import within_budget


@dataclass(frozen=True)
class Growth:
    """How far an unfinished enumeration came, and what the rest would cost at the same rate of growth."""

    depth: int  # steps that are enumerated in full
    states: int
    growth: float  # of the frontier, from one step to the next
    core_hours: float  # extrapolated


@dataclass(frozen=True)
class EnvironmentRow:
    """One environment of the paper. `analysis` is None if it is not enumerated; its numbers below are then None too."""

    catalogue_row: CatalogueRow
    analysis: Analysis | None
    growth: Growth | None
    mdp_is_shipped: bool  # the MDP comes with the package

    @property
    def env_id(self) -> str:
        return str(self.catalogue_row.env_id)

    @property
    def deterministic_id(self) -> str:
        """The id of the same game without sticky actions: `sqirl build` enumerates this one."""
        return str(self.catalogue_row.env_id.deterministic())

    @property
    def title(self) -> str:
        """The name in figures and on the page."""
        return self.catalogue_row.env_id.stem

    @property
    def suite(self) -> str:
        return self.catalogue_row.env_id.suite

    @property
    def horizon(self) -> int:
        return self.catalogue_row.env_id.horizon

    def tolerant_horizon(self, epsilon: float) -> float | None:
        """H̄_ε, where it is known."""
        found = None if self.analysis is None else self.analysis.tolerant_horizon(epsilon)
        return None if found is None else found.horizon

    @property
    def state(self) -> str:
        """How much of its MDP is enumerated."""
        if self.analysis is not None:
            return "built"
        return "not built" if self.growth is None else "partly enumerated"

    @property
    def paper_optimal(self) -> str:
        """The paper's optimal return, as printed."""
        return self.catalogue_row.optimal_as_printed

    @property
    def paper_returns(self) -> Mapping[str, float]:
        return self.catalogue_row.paper_returns

    @property
    def paper_solved(self) -> dict[str, float | None]:
        """The paper's sample complexities by algorithm; None: not solved within the paper's budget."""
        return within_budget(self.catalogue_row.paper_steps)

    @property
    def num_actions(self) -> int | None:
        return self.catalogue_row.num_actions if self.analysis is None else self.analysis.num_actions

    @property
    def num_states(self) -> int | None:
        return None if self.analysis is None else self.analysis.num_states

    @property
    def optimal(self) -> float | None:
        return None if self.analysis is None else self.analysis.optimal_return

    @property
    def agrees(self) -> bool | None:
        """Does our optimal return equal the paper's in every printed digit?"""
        return None if self.optimal is None else as_printed(self.optimal) == self.paper_optimal

    @property
    def min_k(self) -> int | None:
        return None if self.analysis is None else self.analysis.min_k

    @property
    def approx_min_k(self) -> int | None:
        return None if self.analysis is None else self.analysis.approx_min_k

    @property
    def effective_horizon(self) -> float | None:
        return None if self.analysis is None else self.analysis.effective_horizon

    @property
    def searched_k(self) -> int | None:
        """How far the search for min k went, if it ended without a result."""
        return None if self.analysis is None or self.analysis.settled else self.analysis.searched_k

    @property
    def bound(self) -> float | None:
        """The theorem's bound on the steps of SQIRL, its constant dropped; None where it is infinite."""
        bound = self.analysis.bounds.sqirl if self.analysis and self.analysis.bounds else None
        return bound if bound and math.isfinite(bound) else None

    def to_dict(self) -> dict[str, Any]:
        """The object that `sqirl envs --json` prints."""
        names = ("env_id", "suite", "horizon", "num_actions", "paper_optimal", "num_states", "optimal",
                 "min_k", "approx_min_k", "effective_horizon", "searched_k", "agrees")  # fmt: skip
        return {name: getattr(self, name) for name in names} | {
            "mdp_at_hand": self.mdp_is_shipped,
            "frameskip": self.catalogue_row.env_id.frameskip,
            "reward_factor": self.catalogue_row.reward_factor,
            "paper_steps": dict(self.catalogue_row.paper_steps),
        }


def as_printed(value: float) -> str:
    """Two decimals, as the paper prints returns (and no negative zero)."""
    return f"{value + 0.0:.2f}"


def paper_algorithms() -> tuple[AlgorithmSpec, ...]:
    """The registered algorithms that the paper has results of."""
    known = catalogue()[0].paper_steps
    return tuple(spec for spec in algorithms() if spec.name in known)


def environment_rows(suite: str | None = None, *, containing: str = "") -> list[EnvironmentRow]:
    """All rows of the catalogue in the paper's order, or those of one suite, or those whose id contains a text."""
    if suite is not None and suite not in SUITES:
        raise SqirlError(f"unknown suite '{suite}'; there are {', '.join(SUITES)}")
    chosen = [
        row
        for row in catalogue()
        if suite in (None, row.env_id.suite) and containing.lower() in str(row.env_id).lower()
    ]
    if not chosen:
        where = "the paper" if suite is None else f"the suite {suite}"
        raise SqirlError(f"no environment of {where} has '{containing}' in its id; `sqirl envs` lists all of them")
    return [_row(row) for row in chosen]


def _row(row: CatalogueRow) -> EnvironmentRow:
    note = growth_notes().get(str(row.env_id.deterministic()))
    growth = None
    if note is not None:
        growth = Growth(int(note["depth"]), int(note["states"]), note["growth"], note["core_hours"])
    return EnvironmentRow(row, archived_analyses().get(str(row.env_id)), growth, is_shipped(row.env_id))
