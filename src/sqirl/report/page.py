"""The report as one HTML file: it holds its data, its style and its script, and loads nothing from elsewhere.

The numbers come from `sqirl.report.data`. `page_story` and `page_rows` write them as plain values; `web/` lays them out.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from sqirl.algorithms.registry import SQIRL, algorithms
from sqirl.envs.suites import FULL_ATARI
from sqirl.report.data import DRAWN_PAIRS, ReportData, Summary
from sqirl.report.environments import paper_algorithms
from sqirl.report.full_length import FullLengthRun
from sqirl.report.page_rows import OnRow, full_length_rows, page_rows
from sqirl.report.page_story import (
    answer_values,
    bound_values,
    contrast_values,
    horizon_values,
    least_k_values,
    pair_values,
    steps_axis,
    suite_labels,
)
from sqirl.report.page_values import comparison, finite, short_list
from sqirl.report.style import UNSOLVED, Colour
from sqirl.report.words import GLOSSARY
from sqirl.results.agreement import Agreement
from sqirl.results.statistics import BUDGET, WITHIN_FACTOR

#: The page's styles and scripts, in the order in which they need each other.
STYLES = ("base.css", "figures.css", "tables.css")
SCRIPTS = (
    "format.js",
    "tips.js",
    "charts.js",
    "horizon.js",
    "contrast.js",
    "compare.js",
    "curves.js",
    "card.js",
    "environments.js",
)


def report_page(data: ReportData, *, pictures: bool = True, on_row: OnRow = lambda done, of: None) -> str:
    """The whole page. `pictures`: with drawings of the games. `on_row` is told how many of the paper's rows are drawn."""
    plain = json.dumps(page_data(data, pictures=pictures, on_row=on_row), separators=(",", ":"), allow_nan=False)
    web = resources.files("sqirl.report").joinpath("web")
    parts = {
        "/*STYLE*/": colour_variables() + "\n".join(web.joinpath(name).read_text("utf-8") for name in STYLES),
        "/*SCRIPT*/": "\n".join(web.joinpath(name).read_text("utf-8") for name in SCRIPTS),
        "{{BUDGET}}": f"{BUDGET:,}",
        "{{FULL_LENGTH_EPISODES}}": str(FULL_ATARI.eval_episodes),
        "/*DATA*/": plain.replace("<", "\\u003c"),  # no markup; last: the data may contain the other places
    }
    page = web.joinpath("page.html").read_text("utf-8")
    for place, text in parts.items():
        page = page.replace(place, text, 1)
    return page


def colour_variables() -> str:
    """The CSS variables for light and for dark pages: --algorithm-0, … in the order of the registry, and the others."""
    colours = {f"algorithm-{i}": Colour(spec.colour, spec.dark_colour) for i, spec in enumerate(algorithms())}
    colours["wrong"] = UNSOLVED
    light = " ".join(f"--{name}: {colour.light};" for name, colour in colours.items())
    dark = " ".join(f"--{name}: {colour.dark};" for name, colour in colours.items())
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def page_data(data: ReportData, *, pictures: bool = True, on_row: OnRow = lambda done, of: None) -> dict[str, Any]:
    """The data of the page as plain values."""
    in_paper = paper_algorithms()
    return {
        "algorithms": [
            {"name": spec.name, "label": spec.label, "colour": f"var(--algorithm-{i})", "in_paper": spec in in_paper}
            for i, spec in enumerate(algorithms())
        ],
        "glossary": GLOSSARY,
        "subject": SQIRL.name,
        "compared_with": [x.name for _, x in DRAWN_PAIRS],
        "suites": suite_labels(),
        "within_factor": WITHIN_FACTOR,
        "budget": BUDGET,
        "steps_axis": steps_axis(),
        "counts": {"built": data.num_built, "runs": len(data.records), "failed": data.num_failed, "paper": len(data.rows)},
        "answer": answer_values(data),
        "horizon": horizon_values(data),
        "contrast": contrast_values(data, pictures=pictures),
        "rows": page_rows(data, pictures=pictures, on_row=on_row),
        "full_length": full_length_rows(data),
        "full_length_runs": [_full_length_run(run) for run in data.full_length_runs],
        "paper": _summary(data.paper),
        "ours": _summary(data.ours),
        "paper_where_ours": [comparison(pair) for pair in data.paper_where_ours],
        "agreement": [_agreement(entry) for entry in data.agreement],
        "variants": [
            {"id": g.ours.env_id, "algorithm": g.ours.algorithm, "ours": g.ours.complexity, "paper": g.paper.complexity}
            for g in data.variant_gains
        ],
        "figure_2": least_k_values(data),
        "figure_3": pair_values(data),
        "bound": bound_values(data),
    }  # fmt: skip


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "solved": summary.solved,
        "pairs": [comparison(pair) for pair in summary.pairs],
        "where_both": finite(summary.where_both),
        "where_neither": finite(summary.where_neither),
    }


def _agreement(entry: Agreement) -> dict[str, Any]:
    differing = [*entry.solved_by_one, *entry.far_apart]
    return {
        "algorithm": entry.algorithm, **comparison(entry.comparison), "within": entry.within,
        "answered": entry.answered, "agreeing": entry.agreeing, "complete": entry.complete,
        "differing": [{"id": d.env_id, "ours": d.ours, "paper": d.paper, "cause": d.cause} for d in differing],
        "open": [{"id": row.env_id, "paper": row.paper, "missing": ", ".join(row.missing)} for row in entry.open],
    }  # fmt: skip


def _full_length_run(run: FullLengthRun) -> dict[str, Any]:
    return {
        "game": run.game, "algorithm": run.algorithm.name, "variant": run.variant, "setting": run.setting,
        "seeds": run.seeds, "steps": run.steps, "random": None if run.random is None else finite(run.random.mean),
        "last": short_list(run.last), "best": finite(run.best), "above": run.above_random,
    }  # fmt: skip
