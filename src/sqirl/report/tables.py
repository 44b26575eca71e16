"""The paper's tables with our results added, as CSV and as LaTeX; `sqirl report --tables` writes them.

Tables 2 and 3 and the two tables of Appendix D, which have no number, have one function each here. Table 1 holds the bounds
(`sqirl.analysis.bounds`), Tables 4 to 6 hold the hyperparameters (the presets in `sqirl.algorithms`).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqirl.algorithms.registry import algorithm, algorithms
from sqirl.report.data import ReportData
from sqirl.report.environments import EnvironmentRow
from sqirl.results.agreement import is_open
from sqirl.results.censoring import StepRange
from sqirl.results.outcomes import Outcome
from sqirl.results.statistics import Estimate
from sqirl.runtime.files import write_atomically

Cell = float | str | None
NOT_SOLVED, OPEN = "not solved", "open"


@dataclass(frozen=True)
class Table:
    """A table as text files have it; None is an empty cell."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def table_2_environments_solved(data: ReportData) -> Table:
    """Table 2 of the paper: the number of environments that each algorithm solves.

    Ours is added, with the number of environments that were run. Empty: the paper does not have the algorithm.
    """
    rows: list[list[Cell]] = []
    for spec in algorithms():
        ours, paper = data.ours.solved[spec.name], data.paper.solved.get(spec.name, (None, None))
        rows.append([spec.label, *ours, *paper])
    return Table(["algorithm", "ours", "ours_of", "paper", "paper_of"], rows)


def table_3_comparisons(data: ReportData) -> Table:
    """Table 3 of the paper: rank correlation and median ratio of the sample complexities of two algorithms.

    Over the environments that both solve. Ours is added, with 95 % bootstrap intervals and the counts of environments.
    """
    header = ["first", "second", "of", "correlation", "correlation_low", "correlation_high", "median_ratio", "ratio_low",
              "ratio_high", "both", "only_first", "only_second", "neither"]  # fmt: skip
    rows: list[list[Cell]] = []
    for ours, paper in zip(data.ours.pairs, data.paper.pairs, strict=True):
        for whose, c in (("ours", ours), ("paper", paper)):
            labels = [algorithm(c.first).label, algorithm(c.second).label]
            counts = [c.both, c.only_first, c.only_second, c.neither]
            rows.append([*labels, whose, *_interval(c.correlation), *_interval(c.median_ratio), *counts])
    return Table(header, rows)


def _interval(estimate: Estimate | None) -> list[Cell]:
    return [None, None, None] if estimate is None else [estimate.value, estimate.low, estimate.high]


def complexity_table(data: ReportData) -> Table:
    """The paper's table of empirical sample complexities (Appendix D.1): steps to solve, ours and the paper's.

    Ours adds its variant and a row for each environment that is not the paper's. Empty: not run, or the optimal return is
    not known; 'not solved': not within the budget; 'open': not so far, and not all was run.
    """
    header = ["env", *(f"{spec.name}_{whose}" for spec in algorithms() for whose in ("ours", "variant", "paper"))]
    rows: list[list[Cell]] = []
    for env, row in _environments(data):
        cells: list[Cell] = [env]
        for spec in algorithms():
            solved = {} if row is None else row.paper_solved
            paper = (solved[spec.name] or NOT_SOLVED) if spec.name in solved else None
            outcome = data.outcomes.get((env, spec.name))
            cells += [_steps(outcome), None if outcome is None else outcome.variant, paper]
        rows.append(cells)
    return Table(header, rows)


def run_table(data: ReportData) -> Table:
    """Not in the paper: every environment of BRIDGE and algorithm that was run, with all that we know of its steps.

    `optimal`: to a truly optimal policy. `validated`: with settings that were chosen by other seeds. A number of steps is more
    than `…_low` and at most `…_high`, which is empty if there is no limit; both are equal where it is known.
    """
    header = ["env", "algorithm", "variant", "setting", "seeds", "settings", "steps", "paper", "optimal_low", "optimal_high",
              "validated_low", "validated_high"]  # fmt: skip
    rows: list[list[Cell]] = []
    for (env, name), o in data.outcomes.items():
        if o.suite.is_bridge:
            validated, paper = data.cross_validated[env, name], data.paper_complexities.get(name, {})
            steps = [_steps(o), (paper[env] or NOT_SOLVED) if env in paper else None]
            ranges = [*_range(o.steps_to_optimal), *_range(None if validated is None else validated.steps)]
            rows.append([env, name, o.variant, o.setting, len(o.records), o.num_settings, *steps, *ranges])
    return Table(header, rows)


def variant_table(data: ReportData) -> Table:
    """Not in the paper: median steps of the variants "ours" and "paper", where both were run."""
    rows = [[g.ours.env_id, g.ours.algorithm, _steps(g.ours), _steps(g.paper), g.ratio] for g in data.variant_gains]
    return Table(["env", "algorithm", "ours", "paper", "ratio"], rows)


def agreement_table(data: ReportData) -> Table:
    """Not in the paper: the rows in which we and the paper differ, and those that leave open whether we do."""
    rows: list[list[Cell]] = []
    for entry in data.agreement:
        found = [("solved by one", d) for d in entry.solved_by_one] + [("far apart", d) for d in entry.far_apart]
        for kind, d in found:
            rows.append([d.env_id, entry.algorithm, kind, d.ours or NOT_SOLVED, d.paper or NOT_SOLVED, d.cause])
        for row in entry.open:
            rows.append([row.env_id, entry.algorithm, "open", None, row.paper or NOT_SOLVED, ", ".join(row.missing)])
    return Table(["env", "algorithm", "kind", "ours", "paper", "note"], rows)


def _range(found: StepRange | None) -> list[Cell]:
    return (
        [None, None]
        if found is None
        else [value if math.isfinite(value) else None for value in (found.low, found.high)]
    )


def return_table(data: ReportData) -> Table:
    """The paper's table of returns (Appendix D.2): the optimal return and the best mean returns, ours and the paper's.

    Ours adds algorithms that the paper's table does not have, and a row for each environment that is not the paper's.
    """
    header = ["env", "optimal", *(f"{spec.name}_{whose}" for spec in algorithms() for whose in ("ours", "paper"))]
    rows: list[list[Cell]] = []
    for env, row in _environments(data):
        paper = {} if row is None else row.paper_returns
        cells: list[Cell] = [env, paper.get("optimal")]
        for spec in algorithms():
            outcome = data.outcomes.get((env, spec.name))
            cells += [None if outcome is None else outcome.best_return, paper.get(spec.name)]
        rows.append(cells)
    return Table(header, rows)


def _environments(data: ReportData) -> Iterator[tuple[str, EnvironmentRow | None]]:
    """The paper's environments in its order, then the others that were run."""
    yield from ((row.env_id, row) for row in data.rows)
    yield from ((runs.env_id, None) for runs in sorted([*data.others, *data.full_length], key=lambda runs: runs.env_id))


def _steps(outcome: Outcome | None) -> Cell:
    if outcome is None or outcome.records[0].optimal_return is None:
        return None
    return OPEN if is_open(outcome) else outcome.complexity or NOT_SOLVED


def as_csv(table: Table) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows([["" if cell is None else _whole(cell) for cell in row] for row in table.rows])
    return buffer.getvalue()


def _whole(cell: float | str) -> float | str:
    """A whole number as an integer: steps are written without '.0'."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def as_latex(table: Table) -> str:
    def shown(cell: Cell) -> str:
        if cell is None:
            return ""
        cell = _whole(cell)
        text = cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:.6g}"
        return text.replace(NOT_SOLVED, "--").replace("_", r"\_")

    lines = [r"\begin{longtable}{l" + "r" * (len(table.header) - 1) + "}"]
    lines += [" & ".join(map(shown, table.header)) + r" \\ \hline"]
    lines += [" & ".join(map(shown, row)) + r" \\" for row in table.rows]
    return "\n".join([*lines, r"\end{longtable}", ""])


def write_tables(data: ReportData, folder: Path) -> list[Path]:
    """Write all tables as CSV and as LaTeX; returns the files."""
    tables = {
        "table-2-environments-solved": table_2_environments_solved(data),
        "table-3-comparisons": table_3_comparisons(data),
        "complexities": complexity_table(data),
        "returns": return_table(data),
        "runs": run_table(data),
        "variants": variant_table(data),
        "disagreements": agreement_table(data),
    }
    written = []
    for name, table in tables.items():
        for suffix, text in ((".csv", as_csv(table)), (".tex", as_latex(table))):
            path = folder / f"{name}{suffix}"
            write_atomically(path, text.encode())
            written.append(path)
    return written
