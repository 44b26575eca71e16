"""Write docs/training.md, the pictures of the docs and the outputs that pages quote: python scripts/make_docs.py (minutes)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import Browser, chromium

from sqirl.analysis.analyze import analyze
from sqirl.experiments.theory import theory_points
from sqirl.mdp.build import build_mdp
from sqirl.report.analysis_figures import plot_witness
from sqirl.report.analysis_summary import summarize
from sqirl.report.data import report_data
from sqirl.report.figures import bounds_figure, full_length_figure
from sqirl.report.full_length_section import PICTURE
from sqirl.report.horizon_figure import horizon_figure
from sqirl.report.style import save_figure
from sqirl.report.training_page import training_page
from sqirl.report.write import write_report
from sqirl.runs.store import shipped_records

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
#: An example whose output docs/theory.md quotes.
EXAMPLE = "examples/linear_mdp.py"
#: The environment of `make demo` in which greedy on Q^1 fails.
FAILING = "BRIDGE/MiniGrid-FourRooms-Sticky-v0"

#: The screenshots of the page: on a desktop, on a phone, and dark.
LOOKS: dict[str, dict[str, Any]] = {
    "desktop": {"height": 960},
    "phone": {"width": 390, "height": 844, "phone": True, "scale": 2},
    "dark": {"height": 960, "dark": True},
}


def main() -> None:
    points = theory_points()
    save_figure(bounds_figure(points), DOCS / "images" / "theory.png")
    data = report_data(shipped_records())
    (DOCS / "training.md").write_text(training_page(data, points))
    save_figure(horizon_figure(data), DOCS / "images" / "effective-horizon.png")
    if data.full_length:
        save_figure(full_length_figure(data), DOCS / PICTURE)
    print(f"{len(points)} MDPs, {sum(point.steps < point.bound for point in points)} below their bounds")
    show_analysis(DOCS / "images" / "witness.png", ROOT / "README.md")
    example = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / EXAMPLE], check=True, capture_output=True, text=True
    )
    quote(DOCS / "theory.md", f"output of {EXAMPLE}", example.stdout)
    draw_report(DOCS / "images")


def show_analysis(picture: Path, page: Path) -> None:
    """What `sqirl analyze` says of a game in which greedy on Q^k fails, and the state in which it does."""
    mdp = build_mdp(FAILING)
    analysis = analyze(mdp)
    quote(page, f"output of sqirl analyze {FAILING}", str(summarize(analysis)))
    assert analysis.witness is not None
    save_figure(plot_witness(analysis, mdp.render(analysis.witness.state)), picture)


def quote(page: Path, marker: str, output: str) -> None:
    """Replace the block of code that follows the comment `<!-- marker; … -->` in the page."""
    before, comment, rest = page.read_text().partition(f"<!-- {marker}; written by make docs -->\n")
    assert comment, f"{page} has no comment '{marker}'"
    _, _, after = rest.partition("```\n")[2].partition("```\n")
    page.write_text(f"{before}{comment}```\n{output.rstrip()}\n```\n{after}")


def draw_report(folder: Path) -> None:
    """Screenshots of the page; without Chromium the old pictures are kept."""
    if chromium() is None:
        print("no Chromium: the pictures of the report are not drawn again")
        return
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "report.html"
        write_report(page, shipped_records(), pictures=False)
        for name, look in LOOKS.items():
            with Browser(Path(place) / name, **look) as browser:
                browser.open(page)
                browser.picture(folder / f"page-{name}.png")


if __name__ == "__main__":
    main()
