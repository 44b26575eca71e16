"""The tables of sample complexities and of returns, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqirl.envs.catalogue import catalogue
from sqirl.mdp.files import write_atomically
from sqirl.results.frame import Outcome, outcomes
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
            paper = row.paper_steps[name]
            cells.append(_solved(found.get((str(row.env_id), name))))
            cells.append(paper if paper is not None and paper <= BUDGET else "not solved")
        rows.append(cells)
    for env in _other_envs(found):
        rows.append([env, *(cell for name in ALGORITHMS for cell in (_solved(found.get((env, name))), None))])
    return header, rows


def _solved(outcome: Outcome | None) -> Cell:
    """Empty also where nobody knows what there is to reach."""
    if outcome is None or outcome.records[0].optimal_return is None:
        return None
    return outcome.complexity or "not solved"


def _other_envs(found: Mapping[tuple[str, str], Outcome]) -> list[str]:
    """Those that are not the paper's: the user's own, and whole games."""
    return sorted({env for env, _ in found} - {str(row.env_id) for row in catalogue()})


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
    for env in _other_envs(found):
        mine_of = [found.get((env, name)) for name in names]
        rows.append(
            [env, None, *(cell for mine in mine_of for cell in (None if mine is None else mine.best_return, None))]
        )
    return header, rows


def as_csv(header: list[str], rows: list[list[Cell]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if cell is None else _whole(cell) for cell in row] for row in rows])
    return buffer.getvalue()


def _whole(cell: float | str) -> float | str:
    """Steps are whole numbers, and look like it."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def as_latex(header: list[str], rows: list[list[Cell]]) -> str:
    def shown(cell: Cell) -> str:
        if cell is None:
            return ""
        cell = _whole(cell)
        text = cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:.6g}"
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
