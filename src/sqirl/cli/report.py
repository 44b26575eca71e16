"""`sqirl report`: one HTML page of all results, and the same as figures and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sqirl.cli.options import path_option
from sqirl.errors import counted


def command(
    out: Annotated[Path, path_option("-o", "--out", help="The page.")] = Path("report.html"),
    runs: Annotated[
        list[Path] | None, path_option(help="Folder of records (may be repeated; default: your store's runs).")
    ] = None,
    shipped: Annotated[bool, typer.Option(help="Show the runs that come with the package too.")] = True,
    analysis: Annotated[
        list[Path] | None,
        path_option(help="Add an environment of your own: a file of `sqirl analyze ENV --json` (may be repeated)."),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Draw the games (a minute; the pictures are kept).")] = True,
    figures: Annotated[Path | None, path_option(help="Also write the figures as PDF and SVG into this folder.")] = None,
    tables: Annotated[Path | None, path_option(help="Also write the tables as CSV and LaTeX into this folder.")] = None,
) -> None:
    """The paper's tables and figures with our results added, in one file that opens from disk."""
    from sqirl.cli.progress import counting_display
    from sqirl.report.own_analyses import read_analysis
    from sqirl.report.write import write_report
    from sqirl.runs.store import gather_records

    records = gather_records(runs, shipped=shipped)
    analyses = [read_analysis(path) for path in analysis or ()]
    with counting_display("drawing the games") as on_row:
        page, *others = write_report(
            out, records, analyses=analyses, pictures=pictures, on_row=on_row, figures=figures, tables=tables
        )
    print(f"{page}: {page.stat().st_size / 1e6:.2f} MB, {counted(len(records), 'run')}")
    for path in others:
        print(path, file=sys.stderr)
