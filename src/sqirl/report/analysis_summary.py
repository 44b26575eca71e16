"""What `sqirl analyze` says: the analysis, how much data theory and practice ask for, and what the symbols mean."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from sqirl.analysis.authors_min_k import AuthorsMinK
from sqirl.analysis.bounds import BoundTerms
from sqirl.analysis.guarantees import Guarantee, deterministic_horizon, guarantees, with_bounds
from sqirl.analysis.result import Analysis, plain_values
from sqirl.report.similar_rows import SimilarRows, similar_rows, why_none_is_similar
from sqirl.report.words import WORDS


@dataclass(frozen=True)
class AnalysisSummary:
    """An analysis, the guarantees of the theorems, and the steps that similar environments needed."""

    analysis: Analysis
    terms: BoundTerms
    guarantees: tuple[Guarantee, ...]
    deterministic_horizon: tuple[float, int] | None  # a bound on H, and its k
    similar: SimilarRows | None
    authors: AuthorsMinK | None  # None: not asked for

    def to_json(self) -> str:
        """One JSON object: the keys of `Analysis.to_dict`, and more: what is not an analysis of the MDP alone."""
        added: dict[str, Any] = {
            "guarantees": [asdict(found) for found in self.guarantees],
            "deterministic_horizon_bound": None
            if self.deterministic_horizon is None
            else self.deterministic_horizon[0],
            "usually_needed": None if self.similar is None else asdict(self.similar),
        }
        if self.authors is not None:
            added["authors_min_k"] = asdict(self.authors)
        plain: dict[str, Any] = plain_values({**self.analysis.to_dict(), **added})
        return json.dumps(plain, indent=1, allow_nan=False)

    def __str__(self) -> str:
        data = [*_guarantee_lines(self.guarantees, self.terms), *self._deterministic_lines()]
        unknown = f"what is usually needed is not known: {why_none_is_similar(self.analysis)}"
        data += self.similar.lines() if self.similar else [unknown]
        words = ["what the symbols mean:", *(f"  {symbol}: {meaning}" for symbol, meaning in WORDS.items())]
        authors = [] if self.authors is None else [str(self.authors)]
        blocks = [block for block in (authors, data, words) if block]
        return "\n".join([str(self.analysis), *("\n" + "\n".join("  " + line for line in block) for block in blocks)])

    def _deterministic_lines(self) -> list[str]:
        if self.deterministic_horizon is None:
            return []
        bound, k = self.deterministic_horizon
        return [
            f"  effective horizon H for deterministic MDPs (that of GORP): at most {bound:.2f} (k = {k}, Lemma 3.4)"
        ]


def summarize(
    analysis: Analysis, terms: BoundTerms | None = None, authors: AuthorsMinK | None = None
) -> AnalysisSummary:
    """The summary of an analysis; `terms` are the ε, δ and dimensions of the bounds, `authors` their min k if it is wanted."""
    terms = terms or BoundTerms()
    analysis = with_bounds(analysis, terms)
    found = guarantees(analysis, terms)
    return AnalysisSummary(analysis, terms, found, deterministic_horizon(analysis), similar_rows(analysis), authors)


def _guarantee_lines(found: tuple[Guarantee, ...], terms: BoundTerms) -> list[str]:
    if not found:
        return []
    lines = [
        f"the theorem's guarantee, up to constants, with probability {1 - terms.delta:g} (far more than is usually needed):"
    ]
    for each in (found[0], *(each for each in found[1:] if not each.tolerance)):  # the first tolerance leads
        loss = f"{100 * each.tolerance:g} % and " if each.tolerance else ""
        gorp = "" if each.gorp is None else f"   GORP {_steps(each.gorp)} steps"
        lines.append(
            f"  to lose at most {loss}ε = {terms.epsilon:g} (k = {each.k}): SQIRL {_steps(each.sqirl)} steps{gorp}"
        )
    rows = [
        f"{row.setting} {_steps(row.sqirl)} (strategic exploration {_steps(row.strategic)})" for row in found[0].table
    ]
    return [*lines, f"  leading terms of Table 1 at k = {found[0].k}: SQIRL {', '.join(rows)}"]


def _steps(value: float | None) -> str:
    return "unknown" if value is None else "> 1e308" if math.isinf(value) else f"{value:.1e}"
