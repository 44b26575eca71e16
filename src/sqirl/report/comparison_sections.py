"""Sections of docs/training.md: how far our results agree with the paper's, and what our variant gains."""

from __future__ import annotations

from collections.abc import Iterable

from sqirl.algorithms.registry import algorithm
from sqirl.report.data import ReportData
from sqirl.report.markdown import estimate, steps, table, wrapped
from sqirl.results.agreement import PROTOCOL_SEEDS, Disagreement, is_open
from sqirl.results.outcomes import Outcome
from sqirl.results.statistics import BUDGET, WITHIN_FACTOR


def agreement_section(data: ReportData) -> list[str]:
    """The rows that answer the paper's question, the disagreements among them, and the rows that leave it open."""
    return [
        "## Agreement with the paper",
        "",
        *wrapped(
            f"The question is whether an environment is solved within {BUDGET:,} steps by the median of {PROTOCOL_SEEDS} seeds, "
            "with any setting that the paper tries. A row answers it with yes if a setting solves. It answers with no if every "
            "setting was run to the budget, the search for m went on until one iteration would exceed it, and no setting solves. "
            f"Three unsolved seeds of {PROTOCOL_SEEDS} are enough to say that the median does not solve. All other rows are "
            "open: they do not count as disagreements. *Whole search*: the rows in which no setting that was not tried could win."
        ),
        *_counts(data),
        *_correlations(data),
        "### Rows that only one of us solves",
        "",
        *_disagreements((e.algorithm, d) for e in data.agreement for d in e.solved_by_one),
        f"### Rows that both solve, with more than {WITHIN_FACTOR} times the steps",
        "",
        *_disagreements((e.algorithm, d) for e in data.agreement for d in e.far_apart),
        "### Rows that were not run to the paper's budget",
        "",
        *_open(data),
    ]


def _counts(data: ReportData) -> list[str]:
    rows = []
    for entry in data.agreement:
        c = entry.comparison
        rows.append([
            algorithm(entry.algorithm).label, str(entry.answered), str(entry.complete), f"{entry.agreeing} of {entry.answered}",
            str(c.both), estimate(c.correlation), estimate(c.log_correlation), estimate(c.median_ratio), str(len(entry.open)),
        ])  # fmt: skip
    header = ["algorithm", "rows that answer", "whole search", "solved or not agrees", "both solve", "rank correlation",
              "correlation of log steps", "median of ours / paper's", "open"]  # fmt: skip
    return [
        *table(header, rows),
        *wrapped("Brackets hold 95 % bootstrap intervals over environments."),
    ]


def _correlations(data: ReportData) -> list[str]:
    """The paper's Table 3: ours, the paper's on the same rows, and the paper's on all rows."""
    rows = []
    for ours, same, paper in zip(data.ours.pairs, data.paper_where_ours, data.paper.pairs, strict=True):
        for whose, c in (("ours", ours), ("the paper's, same rows", same), ("the paper's, all rows", paper)):
            pair = f"{algorithm(c.first).label}–{algorithm(c.second).label}"
            rows.append([pair, whose, str(c.both), estimate(c.correlation), estimate(c.median_ratio)])
    return [
        *wrapped(
            "The paper compares two algorithms by the Spearman correlation of their sample complexities and by the median of "
            "their ratios, over the environments that both solve. It prints 0.83 and 1.38 for SQIRL and PPO. Its table of "
            "sample complexities, whose numbers are rounded, yields the values of the rows `the paper's`."
        ),
        *table(["pair", "of", "both solve", "rank correlation", "median ratio"], rows, left=2),
    ]


def _disagreements(found: Iterable[tuple[str, Disagreement]]) -> list[str]:
    rows = [[f"`{d.env_id}`", algorithm(name).label, steps(d.ours), steps(d.paper), d.cause] for name, d in found]
    header = ["environment", "algorithm", "ours", "paper", "likely cause"]
    return table(header, rows, left=2) if rows else ["None.", ""]


def _open(data: ReportData) -> list[str]:
    rows = [
        [f"`{row.env_id}`", algorithm(entry.algorithm).label, ", ".join(row.missing), steps(row.paper)]
        for entry in data.agreement
        for row in entry.open
    ]
    return table(["environment", "algorithm", "what there is", "paper"], rows, left=3) if rows else ["None.", ""]


def variants_section(data: ReportData) -> list[str]:
    """What the variant "ours" gains over the variant "paper"."""
    if not data.variant_gains:
        return []
    rows = []
    for gain in data.variant_gains:
        ratio = "" if gain.ratio is None else f"{gain.ratio:.2f}"
        label = algorithm(gain.ours.algorithm).label
        rows.append([f"`{gain.ours.env_id}`", label, *map(_found, (gain.ours, gain.paper)), ratio])
    typical = data.median_gain
    median = "" if typical is None else f" The median of the ratios is {typical:.2f}."
    return [
        "## Our variant and that of the authors' code",
        "",
        *wrapped(
            f"Median steps where both variants were run. A ratio below 1 is a gain of ours. `open`: not decided.{median}"
        ),
        *table(["environment", "algorithm", "ours", "paper's variant", "ratio"], rows, left=2),
    ]


def _found(outcome: Outcome) -> str:
    return "open" if is_open(outcome) else steps(outcome.complexity)
