"""`sqirl report`: one HTML page of everything that is known, and the same as figures and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("report.html"),
    runs: Annotated[
        list[Path] | None, typer.Option(help="Folder of records (may be repeated; default: your store's runs).")
    ] = None,
    shipped: Annotated[bool, typer.Option(help="Show the runs that come with the package too.")] = True,
    pictures: Annotated[bool, typer.Option(help="Draw the games (takes half a minute).")] = True,
    figures: Annotated[
        Path | None, typer.Option(help="Also write the figures as PDF and SVG into this folder.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Also write the tables as CSV and LaTeX into this folder.")
    ] = None,
) -> None:
    """The paper's tables and figures beside ours, in one file that opens from disk."""
    from sqirl.errors import SqirlError
    from sqirl.mdp.files import check_writable, write_atomically
    from sqirl.mdp.store import user_folder
    from sqirl.report.page import report_page
    from sqirl.results.frame import shipped_records
    from sqirl.results.records import RecordStore

    check_writable(out)
    for folder in (figures, tables):
        if folder is not None:
            check_writable(folder / "page.svg")  # before anything is drawn
    for folder in runs or ():
        if not folder.is_dir():
            raise SqirlError(f"no folder '{folder}' of records")
    folders = runs or [user_folder() / "runs"]
    records = {record.config: record for record in (shipped_records() if shipped else [])}
    for folder in folders:
        records |= {record.config: record for record in RecordStore(folder).all()}
    found = list(records.values())
    write_atomically(out, report_page(found, pictures=pictures).encode())
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB, {len(found):,} runs")
    if figures is not None:
        from sqirl.report.figures import write_figures

        for path in write_figures(found, figures):
            print(path, file=sys.stderr)
    if tables is not None:
        from sqirl.report.tables import write_tables

        for path in write_tables(found, tables):
            print(path, file=sys.stderr)
