"""Write docs/training.md and the pictures of the docs: python scripts/make_docs.py (two minutes)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from sqirl.algorithms.fit import fit_gorp, fit_sqirl
from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.bounds import Instance, gorp_bound
from sqirl.analysis.result import Analysis
from sqirl.envs.ids import parse_id
from sqirl.mdp.build import build_mdp
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP
from sqirl.report.page import report_page
from sqirl.report.plots import plot_witness, save_figure
from sqirl.report.training import TheoryPoint, plot_bounds, training_page
from sqirl.results.frame import shipped_records

DOCS = Path(__file__).parent.parent / "docs"
#: MDPs whose A^H̄ is below this, and the accuracy that the bounds are for.
SMALL_POWER, EPSILON, SEEDS, LARGEST_M = 10**8.5, 0.05, 3, 40_000


def main() -> None:
    points = [point for name, a in archived_analyses().items() for point in theory_points(name, a)]
    points.sort(key=lambda point: (point.algorithm, point.bound))
    save_figure(plot_bounds(points), DOCS / "images" / "theory.png")
    (DOCS / "training.md").write_text(training_page(shipped_records(), points))
    print(f"{len(points)} MDPs, {sum(point.steps < point.bound for point in points)} below their bounds")
    draw_witness(DOCS / "images" / "witness.png")
    draw_report(DOCS / "images" / "report.png")


def draw_witness(picture: Path) -> None:
    """The state of `make demo` where greedy goes wrong."""
    mdp = build_mdp("BRIDGE/MiniGrid-FourRooms-Sticky-v0")
    analysis = analyze(mdp)
    assert analysis.witness is not None
    save_figure(plot_witness(analysis, mdp.render(analysis.witness.state)), picture)


def draw_report(picture: Path) -> None:
    """What a browser shows of the page, where there is one."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no Chromium here: the picture of the report stays as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(report_page(shipped_records(), pictures=False))
        subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
             "--window-size=1300,980", "--virtual-time-budget=5000", f"--screenshot={picture}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


def theory_points(name: str, a: Analysis) -> list[TheoryPoint]:
    k = a.min_k
    if k is None or k > 3 or a.num_actions ** (a.effective_horizons[k - 1] or 99) > SMALL_POWER:
        return []
    mdp = stored_mdp(parse_id(name))
    assert mdp is not None and a.bounds is not None and a.bounds.sqirl is not None
    gap = a.gaps[k - 1]
    assert gap is not None
    found = [steps_needed(mdp, a, lambda m, seed: fit_sqirl(mdp, k=k, m=m, seed=seed), name, "sqirl", a.bounds.sqirl)]
    if not a.sticky:
        bound = gorp_bound(Instance(k, a.horizon, a.num_actions, gap))
        found.append(steps_needed(mdp, a, lambda m, seed: fit_gorp(mdp, k=k, m=m, seed=seed), name, "gorp", bound))
    return [point for point in found if point is not None]


def steps_needed(mdp: TabularMDP, a: Analysis, fit, name: str, algorithm: str, bound: float) -> TheoryPoint | None:
    m, good = 8, a.optimal_return - EPSILON * (a.return_range[1] - a.return_range[0])
    while m <= LARGEST_M:
        runs = [fit(m, seed) for seed in range(SEEDS)]
        if all(run.true_return(mdp) >= good for run in runs):
            return TheoryPoint(name, algorithm, int(np.median([run.num_steps for run in runs])), bound)
        m *= 2
    return None


if __name__ == "__main__":
    main()
