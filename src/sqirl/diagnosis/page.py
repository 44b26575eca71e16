"""A diagnosis as one self-contained HTML page: the verdict, its reasons, and pictures."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from sqirl.diagnosis.result import Diagnosis
from sqirl.errors import SqirlError
from sqirl.runtime.files import check_format, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sqirl.analysis.result import Analysis
    from sqirl.mdp.tabular import TabularMDP

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; border-left: 4px solid #2f6fb0; padding-left: 1rem; }
pre { overflow-x: auto; } img { max-width: 100%; }
@media (prefers-color-scheme: dark) { body { background: #16181b; color: #ddd; } img { background: white; } }
"""


def check_page_path(path: Path) -> None:
    """Raise `SqirlError` if no page can be written there."""
    check_format(path, [".html"], "pages")


def write_page(diagnosis: Diagnosis, path: Path) -> None:
    """Write the page; it opens from disk and needs no other file."""
    title = html.escape(diagnosis.facts.env_id)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>sqirl diagnose {title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title} <small>({html.escape(diagnosis.scope)})</small></h1>",
        "<div class='verdict'>" + "".join(f"<p>{html.escape(text)}</p>" for text in diagnosis.verdict.text) + "</div>",
    ]
    for section in diagnosis.sections():
        table = f"<pre>{html.escape(chr(10).join(section.rows))}</pre>" if section.rows else ""
        texts = "".join(f"<p>{html.escape(text)}</p>" for text in section.texts)
        parts.append(f"<h2>{html.escape(section.title)}</h2>{table}{texts}")
    parts += [
        f"<h2>{html.escape(name)}</h2><img alt='{html.escape(name)}' src='{_source(figure)}'>"
        for name, figure in _figures(diagnosis)
    ]
    parts.append("</body></html>\n")
    write_atomically(path, "\n".join(parts).encode())


def _figures(diagnosis: Diagnosis) -> list[tuple[str, Figure]]:
    """(title, figure): greedy returns, where greedy fails, the map of a grid, what-if, and states that look alike."""
    from sqirl.diagnosis.whatif import WhatIf
    from sqirl.diagnosis.whatif_figure import plot_changes
    from sqirl.report.analysis_figures import plot_greedy_returns, witness_figure

    found: list[tuple[str, Figure]] = []
    analysis, mdp = diagnosis.analysis, diagnosis.mdp
    if analysis is not None and mdp is not None:
        found.append(("Greedy return against k", plot_greedy_returns(analysis)))
        witness, grid = witness_figure(mdp, analysis), _map_figure(mdp, analysis)
        found += [("Where greedy fails", witness)] if witness is not None else []
        found += [("The best actions", grid)] if grid is not None else []
    if len(diagnosis.changes) > 1:
        found.append(("What would change it", plot_changes(WhatIf(diagnosis.facts.env_id, diagnosis.changes))))
    alike = _alike_figure(diagnosis)
    if alike is not None:
        found.append(("Two states that look alike and need different actions", alike))
    return found


def _map_figure(mdp: TabularMDP, analysis: Analysis) -> Figure | None:
    """The map of a grid; None if it is none."""
    from sqirl.report.policy_map import grid_of, plot_policy_map

    try:
        return plot_policy_map(mdp, analysis, grid_of(mdp, analysis.horizon))
    except SqirlError:
        return None


def _alike_figure(diagnosis: Diagnosis) -> Figure | None:
    """Pictures of the two states, where the env draws them."""
    from sqirl.report.style import new_figure

    report, mdp = diagnosis.observations, diagnosis.mdp
    if report is None or report.alike is None or mdp is None:
        return None
    try:
        pictures = [mdp.render(state) for state in report.alike.states]
    except SqirlError:
        return None
    figure = new_figure(7, 3.6)
    for axes, picture, state, actions in zip(
        figure.subplots(1, 2), pictures, report.alike.states, report.alike.actions, strict=True
    ):
        axes.imshow(picture)
        axes.set_axis_off()
        axes.set_title(f"state {state}: action {', '.join(map(str, actions))}", fontsize=9)
    return figure


def _source(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
