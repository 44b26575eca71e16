"""The tables of sample complexities and of returns, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from sqirl.envs.catalogue import catalogue
from sqirl.mdp.files import write_atomically
from sqirl.results.frame import outcomes
from sqirl.results.records import ALGORITHMS, RunRecord
from sqirl.results.statistics import BUDGET

Cell = float | str | None


def complexity_table(records: Sequence[RunRecord]) -> tuple[list[str], list[list[Cell]]]:
    """Steps to solve, ours and the paper's; empty: not run, 'not solved': not within the budget."""
    found = outcomes(records)
    header = ["env", *(f"{name}_{whose}" for name in ALGORITHMS for whose in ("ours", "paper"))]
    rows: list[list[Cell]] = []
    for row in catalogue():
        cells: list[Cell] = [str(row.env_id)]
        for name in ALGORITHMS:
            mine, paper = found.get((str(row.env_id), name)), row.paper_steps[name]
            cells.append(None if mine is None else mine.complexity or "not solved")
            cells.append(paper if paper is not None and paper <= BUDGET else "not solved")
        rows.append(cells)
    return header, rows


def return_table(records: Sequence[RunRecord]) -> tuple[list[str], list[list[Cell]]]:
    """The best mean returns, ours and the paper's, beside the optimal one."""
    found, names = outcomes(records), ("sqirl", "ppo", "dqn")
    header = ["env", "optimal", *(f"{name}_{whose}" for name in names for whose in ("ours", "paper"))]
    rows: list[list[Cell]] = []
    for row in catalogue():
        cells: list[Cell] = [str(row.env_id), row.paper_returns["optimal"]]
        for name in names:
            mine = found.get((str(row.env_id), name))
            cells += [None if mine is None else mine.best_return, row.paper_returns.get(name)]
        rows.append(cells)
    return header, rows


def as_csv(header: list[str], rows: list[list[Cell]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return buffer.getvalue()


def as_latex(header: list[str], rows: list[list[Cell]]) -> str:
    def shown(cell: Cell) -> str:
        if cell is None:
            return ""
        text = f"{cell:.4g}" if isinstance(cell, float | int) else cell
        return text.replace("not solved", "--").replace("_", r"\_")

    lines = [r"\begin{longtable}{l" + "r" * (len(header) - 1) + "}", " & ".join(map(shown, header)) + r" \\ \hline"]
    lines += [" & ".join(map(shown, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\end{longtable}", ""])


def write_tables(records: Sequence[RunRecord], folder: Path) -> list[Path]:
    written = []
    for name, table in (("complexities", complexity_table(records)), ("returns", return_table(records))):
        for suffix, text in ((".csv", as_csv(*table)), (".tex", as_latex(*table))):
            path = folder / f"{name}{suffix}"
            write_atomically(path, text.encode())
            written.append(path)
    return written
