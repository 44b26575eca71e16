"""Write the report to disk: the page and, if asked for, the figures and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqirl.report.data import report_data
from sqirl.report.figures import write_figures
from sqirl.report.page import report_page
from sqirl.report.tables import write_tables
from sqirl.runs.record import RunRecord
from sqirl.runtime.files import check_writable, write_atomically


def write_report(
    out: Path,
    records: Sequence[RunRecord],
    *,
    pictures: bool = True,
    figures: Path | None = None,
    tables: Path | None = None,
) -> list[Path]:
    """Write the page to `out`; returns all files that were written, the page first.

    `pictures`: draw the games (half a minute). `figures`, `tables`: folders for the figures (PDF and SVG) and for the tables
    (CSV and LaTeX); None: not written. A place that cannot be written is an error before anything is drawn.
    """
    check_writable(out)
    for folder in (figures, tables):
        if folder is not None:
            check_writable(folder / out.name)
    data = report_data(records)
    write_atomically(out, report_page(data, pictures=pictures).encode())
    written = [out]
    if figures is not None:
        written += write_figures(data, figures)
    if tables is not None:
        written += write_tables(data, tables)
    return written
