"""Write the report to disk: the page and, if asked for, the figures and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqirl.analysis.result import Analysis
from sqirl.report.data import report_data
from sqirl.report.figures import write_figures
from sqirl.report.page import report_page
from sqirl.report.page_rows import OnRow
from sqirl.report.tables import write_tables
from sqirl.runs.record import RunRecord
from sqirl.runtime.files import check_format, check_writable, write_atomically


def write_report(
    out: Path,
    records: Sequence[RunRecord],
    *,
    analyses: Sequence[Analysis] = (),
    pictures: bool = True,
    on_row: OnRow = lambda done, of: None,
    figures: Path | None = None,
    tables: Path | None = None,
) -> list[Path]:
    """Write the page to `out`; returns all files that were written, the page first.

    `analyses`: of the user's own environments. `pictures`: draw the games (a minute; they are kept for the next time), and
    `on_row` is told how many of the paper's rows are done. `figures`, `tables`: folders for the figures (PDF and SVG) and for
    the tables (CSV and LaTeX); None: not written. A place that cannot be written is an error before anything is drawn.
    """
    check_format(out, [".html"], "pages")
    for folder in (figures, tables):
        if folder is not None:
            check_writable(folder / out.name)
    data = report_data(records, analyses)
    write_atomically(out, report_page(data, pictures=pictures, on_row=on_row).encode())
    written = [out]
    if figures is not None:
        written += write_figures(data, figures)
    if tables is not None:
        written += write_tables(data, tables)
    return written
