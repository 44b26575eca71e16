"""Write docs/training.md and the pictures of the docs: python scripts/make_docs.py (two minutes)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from sqirl.analysis.analyze import analyze
from sqirl.experiments.theory import theory_points
from sqirl.mdp.build import build_mdp
from sqirl.report.analysis_figures import plot_witness
from sqirl.report.data import report_data
from sqirl.report.figures import bounds_figure, full_length_figure
from sqirl.report.full_length_section import PICTURE
from sqirl.report.style import save_figure
from sqirl.report.training_page import training_page
from sqirl.report.write import write_report
from sqirl.runs.store import shipped_records

DOCS = Path(__file__).parent.parent / "docs"
#: The environment of `make demo` in which greedy on Q^1 fails.
FAILING = "BRIDGE/MiniGrid-FourRooms-Sticky-v0"


def main() -> None:
    points = theory_points()
    save_figure(bounds_figure(points), DOCS / "images" / "theory.png")
    data = report_data(shipped_records())
    (DOCS / "training.md").write_text(training_page(data, points))
    if data.full_length:
        save_figure(full_length_figure(data), DOCS / PICTURE)
    print(f"{len(points)} MDPs, {sum(point.steps < point.bound for point in points)} below their bounds")
    draw_witness(DOCS / "images" / "witness.png")
    draw_report(DOCS / "images" / "report.png")


def draw_witness(picture: Path) -> None:
    """The state in which greedy on Q^k fails."""
    mdp = build_mdp(FAILING)
    analysis = analyze(mdp)
    assert analysis.witness is not None
    save_figure(plot_witness(analysis, mdp.render(analysis.witness.state)), picture)


def draw_report(picture: Path) -> None:
    """A screenshot of the page; without Chromium the old picture is kept."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no Chromium: the picture of the report is not drawn again")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_report(page, shipped_records(), pictures=False)
        subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
             "--window-size=1300,980", "--virtual-time-budget=5000", f"--screenshot={picture}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
