"""The report: one HTML file that carries its data, its style and its script, and asks no host for anything."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from sqirl.analysis.archive import archived_analyses, growth_notes
from sqirl.analysis.result import Analysis
from sqirl.envs.catalogue import CatalogueRow, catalogue
from sqirl.envs.ids import is_full_atari
from sqirl.mdp.store import stored_mdp
from sqirl.report.pictures import pictures_of
from sqirl.results.frame import Outcome, our_tables, outcomes, paper_tables
from sqirl.results.records import ALGORITHMS, RunRecord
from sqirl.results.statistics import Comparison, Estimate, Table, compare, num_solved, share_solved_where

PAIRS = (("sqirl", "ppo"), ("sqirl", "dqn"), ("ppo", "dqn"))
#: The page's scripts, in the order in which they need each other.
SCRIPTS = ("words.js", "charts.js", "page.js")
#: Points that a curve on the page has at most, and larger MDPs than this are not opened for pictures.
CURVE_POINTS, LARGEST_FOR_PICTURES = 60, 120_000


def report_page(records: Sequence[RunRecord], *, pictures: bool = True) -> str:
    """The whole page."""
    data = json.dumps(report_data(records, pictures=pictures), separators=(",", ":"), allow_nan=False)
    web = resources.files("sqirl.report").joinpath("web")
    parts = {
        "/*STYLE*/": web.joinpath("style.css").read_text(),
        "/*SCRIPT*/": "\n".join(web.joinpath(name).read_text() for name in SCRIPTS),
        "/*DATA*/null": data.replace("</", "<\\/"),  # last: what it holds is not looked through
    }
    page = web.joinpath("page.html").read_text()
    for place, text in parts.items():
        page = page.replace(place, text, 1)
    return page


def report_data(records: Sequence[RunRecord], *, pictures: bool = True) -> dict[str, Any]:
    found, analyses = outcomes(records), archived_analyses()
    rows = [_row(row, analyses.get(str(row.env_id)), found, pictures) for row in catalogue()]
    known = {str(row.env_id) for row in catalogue()}
    others: list[dict[str, Any]] = [
        {"id": env, "runs": _runs(env, found)} for env in sorted({env for env, _ in found} - known)
    ]
    return {
        "algorithms": list(ALGORITHMS),
        "rows": rows,
        "others": [other for other in others if not is_full_atari(other["id"])],
        "full_length": [other for other in others if is_full_atari(other["id"])],
        "paper": _summary(paper_tables()),
        "ours": _summary(our_tables(found)),
        "agreement": _agreement(our_tables(found), paper_tables()),
        "counts": {"built": len([row for row in rows if row["optimal"] is not None]), "runs": len(records),
                   "failed": sum(record.error is not None for record in records)},
    }  # fmt: skip


def _summary(tables: Mapping[str, Table]) -> dict[str, Any]:
    """The paper's two tables, and its two shares, of these complexities."""
    ppo, dqn = tables["ppo"], tables["dqn"]
    shared = [env for env in tables["sqirl"] if env in ppo and env in dqn]
    sqirl = {env: tables["sqirl"][env] for env in shared}
    both = share_solved_where(sqirl, lambda env: ppo[env] is not None and dqn[env] is not None)
    neither = share_solved_where(sqirl, lambda env: ppo[env] is None and dqn[env] is None)
    return {
        "solved": {name: [num_solved(table), len(table)] for name, table in tables.items()},
        "pairs": [_comparison(compare(a, b, tables)) for a, b in PAIRS],
        "sqirl_where_both": _finite(both),
        "sqirl_where_neither": _finite(neither),
    }


def _agreement(ours: Mapping[str, Table], paper: Mapping[str, Table]) -> list[dict[str, Any]]:
    """For each algorithm, our sample complexities against the paper's."""
    found = []
    for name in ALGORITHMS:
        tables = {"ours": ours[name], "paper": paper[name]}
        within = sum((mine or math.inf) <= 3 * (paper[name].get(env) or 0) for env, mine in ours[name].items())
        found.append({"algorithm": name, **_comparison(compare("ours", "paper", tables)), "within_three": within})
    return found


def _comparison(c: Comparison) -> dict[str, Any]:
    counts = {"both": c.both, "only_first": c.only_first, "only_second": c.only_second, "neither": c.neither}
    return {"first": c.first, "second": c.second, "correlation": _interval(c.correlation),
            "ratio": _interval(c.median_ratio), **counts}  # fmt: skip


def _interval(e: Estimate | None) -> list[float | None] | None:
    return None if e is None else [_finite(e.value), _finite(e.low), _finite(e.high)]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _row(
    row: CatalogueRow, analysis: Analysis | None, found: Mapping[tuple[str, str], Outcome], pictures: bool
) -> dict[str, Any]:
    env = str(row.env_id)
    growth = growth_notes().get(str(row.env_id.deterministic()))
    return {
        "id": env,
        "suite": row.env_id.suite,
        "horizon": row.env_id.horizon,
        "state": "built" if analysis else ("partly enumerated" if growth else "not built"),
        "paper": {name: row.paper_steps[name] for name in ALGORITHMS},
        "paper_returns": {name: row.paper_returns.get(name) for name in ("optimal", "ppo", "dqn", "sqirl")},
        **_analysis(analysis),
        "runs": _runs(env, found),
        "pictures": _pictures(row, analysis) if pictures and analysis else [],
    }


def _analysis(a: Analysis | None) -> dict[str, Any]:
    if a is None:
        return {"optimal": None}
    bound = a.bounds.sqirl if a.bounds else None
    return {
        "optimal": a.optimal_return, "random": a.random_return, "states": a.num_states, "actions": a.num_actions,
        "min_k": a.min_k, "searched_k": a.searched_k, "approx_k": a.approx_min_k,
        "H": a.effective_horizon, "H_k": a.effective_horizon_k,
        "greedy": [round(value, 6) for value in a.greedy_returns[:5]],
        "bound": bound if bound and math.isfinite(bound) else None,
        "witness": str(a.witness) if a.witness else None,
    }  # fmt: skip


def _runs(env: str, found: Mapping[tuple[str, str], Outcome]) -> dict[str, Any]:
    return {name: _outcome(found[env, name]) for name in ALGORITHMS if (env, name) in found}


def _outcome(o: Outcome) -> dict[str, Any]:
    return {
        "setting": o.setting, "steps": o.complexity, "exact": o.exact_complexity, "return": o.best_return,
        "seeds": len(o.records), "settings": o.num_settings, "from": o.records[0].played_from,
        "curves": [_curve(record) for record in o.records],
    }  # fmt: skip


def _curve(record: RunRecord) -> list[list[float]]:
    """Points at the steps when they were due, so that seeds lie above each other; the last word on each counts."""
    by_steps = {record.due(place): round(point.mean, 5) for place, point in enumerate(record.curve)}
    points = [[steps, mean] for steps, mean in by_steps.items()]
    every = max(1, len(points) // CURVE_POINTS)
    return [*points[:-1][::every], points[-1]] if points else []


def _pictures(row: CatalogueRow, analysis: Analysis) -> list[dict[str, str]]:
    mdp = stored_mdp(row.env_id) if analysis.num_states < LARGEST_FOR_PICTURES * 4 else None
    return pictures_of(mdp, analysis) if mdp is not None and mdp.num_states < LARGEST_FOR_PICTURES else []
