"""The report as one HTML file: it holds its data, its style and its script, and loads nothing from elsewhere.

The numbers come from `sqirl.report.data`. This module writes them as JSON; `web/` lays them out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from sqirl.algorithms.registry import SQIRL, algorithms
from sqirl.envs.suites import FULL_ATARI, SUITES
from sqirl.mdp.store import stored_mdp
from sqirl.report.data import (
    DRAWN_PAIRS,
    EnvironmentRuns,
    LeastK,
    ReportData,
    ScatterPoint,
    Summary,
)
from sqirl.report.environments import EnvironmentRow, paper_algorithms
from sqirl.report.full_length import FullLengthRun
from sqirl.report.learning_curve import LearningCurve
from sqirl.report.pictures import pictures_of
from sqirl.report.style import ACCENT, SOLVED, UNSOLVED, Colour
from sqirl.results.agreement import Agreement, is_open
from sqirl.results.censoring import StepRange
from sqirl.results.cross_validation import CrossValidated
from sqirl.results.outcomes import Case, Outcome
from sqirl.results.statistics import BUDGET, WITHIN_FACTOR, Comparison, Estimate

#: The page's scripts, in the order in which they need each other.
SCRIPTS = ("format.js", "charts.js", "page.js")
#: A curve on the page has at most twice as many points; of longer ones every n-th point is shown.
CURVE_POINTS = 60
#: MDPs with more states are not opened for pictures.
LARGEST_FOR_PICTURES = 120_000
#: The card of an environment shows the returns of greedy on Q^1 to Q^k up to this k.
SHOWN_K = 5


def report_page(data: ReportData, *, pictures: bool = True) -> str:
    """The whole page. `pictures`: with drawings of the games."""
    plain = json.dumps(page_data(data, pictures=pictures), separators=(",", ":"), allow_nan=False)
    web = resources.files("sqirl.report").joinpath("web")
    parts = {
        "/*STYLE*/": colour_variables() + web.joinpath("style.css").read_text(),
        "/*SCRIPT*/": "\n".join(web.joinpath(name).read_text() for name in SCRIPTS),
        "{{BUDGET}}": f"{BUDGET:,}",
        "{{FULL_LENGTH_EPISODES}}": str(FULL_ATARI.eval_episodes),
        "/*DATA*/null": plain.replace("</", "<\\/"),  # last: the data may contain the other places
    }
    page = web.joinpath("page.html").read_text()
    for place, text in parts.items():
        page = page.replace(place, text, 1)
    return page


def colour_variables() -> str:
    """The CSS variables for light and for dark pages: --algorithm-0, … in the order of the registry, and the others."""
    colours = {f"algorithm-{i}": Colour(spec.colour, spec.dark_colour) for i, spec in enumerate(algorithms())}
    colours |= {"accent": ACCENT, "solved": SOLVED, "unsolved": UNSOLVED}
    colours["ours"] = Colour(SQIRL.colour, SQIRL.dark_colour)
    light = " ".join(f"--{name}: {colour.light};" for name, colour in colours.items())
    dark = " ".join(f"--{name}: {colour.dark};" for name, colour in colours.items())
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def page_data(data: ReportData, *, pictures: bool = True) -> dict[str, Any]:
    """The data of the page as plain values."""
    in_paper = paper_algorithms()
    return {
        "algorithms": [
            {"name": spec.name, "label": spec.label, "colour": f"var(--algorithm-{i})", "in_paper": spec in in_paper}
            for i, spec in enumerate(algorithms())
        ],
        "subject": SQIRL.name,
        "compared_with": [x.name for _, x in DRAWN_PAIRS],
        "suites": list(SUITES),
        "within_factor": WITHIN_FACTOR,
        "budget": BUDGET,
        "rows": [_row(row, data, pictures) for row in data.rows],
        "others": [_environment_runs(runs, data) for runs in data.others],
        "full_length": [_environment_runs(runs, data) for runs in data.full_length],
        "paper": _summary(data.paper),
        "ours": _summary(data.ours),
        "paper_where_ours": [_comparison(pair) for pair in data.paper_where_ours],
        "agreement": [_agreement(entry) for entry in data.agreement],
        "variants": [
            {"id": g.ours.env_id, "algorithm": g.ours.algorithm, "ours": g.ours.complexity, "paper": g.paper.complexity}
            for g in data.variant_gains
        ],
        "full_length_runs": [_full_length_run(run) for run in data.full_length_runs],
        "counts": {"built": data.num_built, "runs": len(data.records), "failed": data.num_failed},
        "figure_2": {
            "approximate": [_least_k(group) for group in data.least_k(lambda row: row.approx_min_k)],
            "exact": [_least_k(group) for group in data.least_k(lambda row: row.min_k)],
        },
        "figure_3": [
            {"y": y.name, "x": x.name, "points": _points(data.sample_complexities(y, x))} for y, x in DRAWN_PAIRS
        ],
        "theory": {
            "horizon": _points(data.steps_of_sqirl_against(lambda row: row.effective_horizon)),
            "bound": _points(data.steps_of_sqirl_against(lambda row: row.bound)),
        },
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "solved": summary.solved,
        "pairs": [_comparison(pair) for pair in summary.pairs],
        "sqirl_where_both": _finite(summary.where_both),
        "sqirl_where_neither": _finite(summary.where_neither),
    }


def _agreement(entry: Agreement) -> dict[str, Any]:
    differing = [*entry.solved_by_one, *entry.far_apart]
    return {
        "algorithm": entry.algorithm, **_comparison(entry.comparison), "within": entry.within,
        "answered": entry.answered, "agreeing": entry.agreeing, "complete": entry.complete,
        "differing": [{"id": d.env_id, "ours": d.ours, "paper": d.paper, "cause": d.cause} for d in differing],
        "open": [{"id": row.env_id, "paper": row.paper, "missing": ", ".join(row.missing)} for row in entry.open],
    }  # fmt: skip


def _full_length_run(run: FullLengthRun) -> dict[str, Any]:
    return {
        "game": run.game, "algorithm": run.algorithm.name, "variant": run.variant, "setting": run.setting,
        "seeds": run.seeds, "steps": run.steps, "random": None if run.random is None else run.random.mean,
        "last": run.last, "best": run.best, "above": run.above_random,
    }  # fmt: skip


def _comparison(c: Comparison) -> dict[str, Any]:
    return {
        "first": c.first, "second": c.second,
        "correlation": _interval(c.correlation), "log_correlation": _interval(c.log_correlation),
        "ratio": _interval(c.median_ratio),
        "both": c.both, "only_first": c.only_first, "only_second": c.only_second, "neither": c.neither,
    }  # fmt: skip


def _interval(e: Estimate | None) -> list[float | None] | None:
    return None if e is None else [_finite(e.value), _finite(e.low), _finite(e.high)]


def _finite(value: float | None) -> float | None:
    """JSON has no nan and no infinity; six decimals are enough to be shown."""
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _least_k(group: LeastK) -> dict[str, Any]:
    return {
        "k": group.k,
        "solved": [row.env_id for row in group.solved],
        "unsolved": [row.env_id for row in group.unsolved],
    }


def _points(points: Sequence[ScatterPoint]) -> list[dict[str, Any]]:
    return [{"id": p.env_id, "title": p.title, "x": p.x, "y": p.y, "ours": p.ours} for p in points]


def _row(row: EnvironmentRow, data: ReportData, pictures: bool) -> dict[str, Any]:
    """One of the paper's environments."""
    return {
        "id": row.env_id,
        "title": row.title,
        "suite": row.suite,
        "horizon": row.horizon,
        "state": row.state,
        "build_id": row.deterministic_id,
        "paper_solved": {spec.name: row.paper_solved.get(spec.name) for spec in algorithms()},
        "paper_returns": dict(row.paper_returns),
        **_analysis(row),
        **_runs(data.runs.get(row.env_id), data.cross_validated),
        "pictures": _pictures(row) if pictures else [],
    }


def _analysis(row: EnvironmentRow) -> dict[str, Any]:
    a = row.analysis
    if a is None:
        return {"optimal": None}
    return {
        "optimal": a.optimal_return, "random": a.random_return, "states": a.num_states, "actions": a.num_actions,
        "min_k": a.min_k, "searched_k": a.searched_k, "approx_k": a.approx_min_k,
        "H": a.effective_horizon, "H_k": a.effective_horizon_k, "bound": row.bound,
        "greedy": [round(value, 6) for value in a.greedy_returns[:SHOWN_K]],
        "witness": str(a.witness) if a.witness else None,
    }  # fmt: skip


def _environment_runs(runs: EnvironmentRuns, data: ReportData) -> dict[str, Any]:
    """An environment that is not the paper's."""
    return {"id": runs.env_id, "title": runs.title, **_runs(runs, data.cross_validated)}


def _runs(runs: EnvironmentRuns | None, validated: Mapping[Case, CrossValidated | None]) -> dict[str, Any]:
    """Our runs on an environment by algorithm, and the lines in its figure of learning curves."""
    if runs is None:
        return {"runs": {}, "lines": {"optimal": None, "random": None}}
    return {
        "runs": {
            name: _outcome(outcome, runs.curves.get(name), validated.get((runs.env_id, name)))
            for name, outcome in runs.outcomes.items()
        },
        "lines": {"optimal": runs.optimal, "random": runs.random},
    }


def _outcome(o: Outcome, curve: LearningCurve | None, validated: CrossValidated | None) -> dict[str, Any]:
    return {
        "setting": o.setting, "variant": o.variant, "steps": o.complexity, "open": is_open(o), "return": o.best_return,
        "exact": _range(o.steps_to_optimal), "validated": _range(None if validated is None else validated.steps),
        "seeds": len(o.records), "settings": o.num_settings, "from": o.records[0].played_from,
        "curve": None if curve is None else _curve(curve.thinned(CURVE_POINTS)),
    }  # fmt: skip


def _range(found: StepRange | None) -> list[float | None] | None:
    """[low, high], with None for no limit."""
    return None if found is None else [_finite(found.low), _finite(found.high)]


def _curve(curve: LearningCurve) -> Mapping[str, list[float]]:
    return {
        "steps": curve.steps.tolist(),
        "median": curve.median.tolist(),
        "low": curve.low.tolist(),
        "high": curve.high.tolist(),
    }


def _pictures(row: EnvironmentRow) -> list[dict[str, str]]:
    analysis = row.analysis
    # The analysis counts (state, previous action) pairs: an MDP with far too many of them is not opened at all
    if analysis is None or analysis.num_states >= 4 * LARGEST_FOR_PICTURES:
        return []
    mdp = stored_mdp(row.catalogue_row.env_id)
    return pictures_of(mdp, analysis) if mdp is not None and mdp.num_states < LARGEST_FOR_PICTURES else []
