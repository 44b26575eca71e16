"""The environments of the page as plain values: the paper's rows and the user's own, with their runs and learning curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqirl.algorithms.registry import algorithms
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.mdp.store import stored_mdp
from sqirl.report.curve_axes import return_range, step_range
from sqirl.report.data import EnvironmentRuns, ReportData
from sqirl.report.environments import EnvironmentRow
from sqirl.report.learning_curve import LearningCurve
from sqirl.report.page_values import finite, short_list, step_limits
from sqirl.report.picture_cache import Picture, cached_pictures
from sqirl.report.pictures import pictures_of
from sqirl.results.agreement import is_open
from sqirl.results.censoring import median_range, steps_to_solve
from sqirl.results.cross_validation import CrossValidated
from sqirl.results.outcomes import Case, Outcome

#: (rows that are done, all of them) -> None
OnRow = Callable[[int, int], None]
#: A curve on the page has at most twice as many points; of longer ones every n-th point is shown.
CURVE_POINTS = 60
#: With very many curves each has fewer points, but not fewer than LEAST_POINTS: the page stays small.
ALL_POINTS, LEAST_POINTS = 150_000, 8
#: MDPs with more states (with the previous action) are not opened for pictures.
LARGEST_FOR_PICTURES = 300_000
#: The card of an environment shows the returns of greedy on Q^1 to Q^k up to this k.
SHOWN_K = 5


def page_rows(data: ReportData, *, pictures: bool, on_row: OnRow = lambda done, of: None) -> list[dict[str, Any]]:
    """The paper's environments in its order, then the user's own. `on_row` is told how many of the paper's are done."""
    paper = []
    for row in data.rows:
        paper.append(_paper_row(row, data, pictures))
        on_row(len(paper), len(data.rows))
    own = sorted({runs.env_id for runs in data.others} | data.own_analyses.keys())
    return paper + [_own_row(env, data) for env in own]


def full_length_rows(data: ReportData) -> list[dict[str, Any]]:
    """The full-length games that were run."""
    return [{"id": runs.env_id, "title": runs.title, **_runs(runs, data, log=False)} for runs in data.full_length]


def _paper_row(row: EnvironmentRow, data: ReportData, pictures: bool) -> dict[str, Any]:
    return {
        "id": row.env_id,
        "title": row.title,
        "suite": row.suite,
        "own": False,
        "horizon": row.horizon,
        "state": row.state,
        "build_id": row.deterministic_id,
        "paper_solved": {spec.name: row.paper_solved.get(spec.name) for spec in algorithms()},
        "paper_returns": dict(row.paper_returns),
        **_analysis(row.analysis),
        "bound": finite(row.bound),
        **_runs(data.runs.get(row.env_id), data),
        "pictures": _pictures(row) if pictures else [],
    }


def _own_row(env: str, data: ReportData) -> dict[str, Any]:
    """An environment that is not the paper's: the same keys, without the paper's results."""
    analysis, runs = data.own_analyses.get(env), data.runs.get(env)
    found = {
        "id": env,
        "title": data.title_of(env),
        "suite": data.suite_of(env).name,
        "own": True,
        "horizon": None if analysis is None else analysis.horizon,
        "state": "not analysed" if analysis is None else "built",
        "build_id": env,
        "paper_solved": {},
        "paper_returns": {},
        **_analysis(analysis),
        "bound": None,
        **_runs(runs, data),
        "pictures": [],
    }
    if analysis is None and runs is not None:
        found["optimal"] = finite(runs.optimal)
    return found


def _analysis(a: Analysis | None) -> dict[str, Any]:
    if a is None:
        return {"optimal": None, "analysed": False}
    within = a.tolerant_horizon(TOLERANCES[0])
    return {
        "analysed": True,
        "optimal": a.optimal_return, "random": a.random_return, "states": a.num_states, "actions": a.num_actions,
        "min_k": a.min_k, "searched_k": a.searched_k, "approx_k": a.approx_min_k,
        "H": finite(a.effective_horizon), "H_k": a.effective_horizon_k, "settled": a.settled,
        "caveat": _caveat(a),
        "H_within": None if within is None else finite(within.horizon),
        "greedy": short_list(a.greedy_returns[:SHOWN_K]),
        "witness": str(a.witness) if a.witness else None,
    }  # fmt: skip


def _caveat(a: Analysis) -> str:
    """What the analysis is not: empty if it is exact and of the whole environment."""
    rounded = (
        "" if a.exact else "ties between actions are decided by rounding: min k and effective horizons may be wrong"
    )
    return "; ".join(part for part in (a.scope, rounded) if part)


def _runs(runs: EnvironmentRuns | None, data: ReportData, *, log: bool = True) -> dict[str, Any]:
    """Our runs on an environment by algorithm, the lines in its figure of learning curves, and the ends of its axes."""
    if runs is None:
        return {"runs": {}}
    points = curve_points(sum(len(found.curves) for found in data.runs.values()))
    return {
        "runs": {
            name: _outcome(outcome, runs.curves.get(name), points, data.cross_validated)
            for name, outcome in runs.outcomes.items()
        },
        "lines": {"optimal": finite(runs.optimal), "random": finite(runs.random)},
        "axes": {"steps": short_list(step_range(runs, log=log)), "returns": short_list(return_range(runs))},
    }


def curve_points(num_curves: int) -> int:
    """The points of a curve that the page holds, of so many curves."""
    return min(CURVE_POINTS, max(LEAST_POINTS, ALL_POINTS // max(1, num_curves)))


def _outcome(
    o: Outcome, curve: LearningCurve | None, points: int, validated: Mapping[Case, CrossValidated | None]
) -> dict[str, Any]:
    found = validated.get((o.env_id, o.algorithm))
    return {
        "setting": o.setting, "variant": o.variant, "steps": o.complexity, "open": is_open(o),
        "return": finite(o.best_return), "target": o.records[0].optimal_return is not None,
        "exact": step_limits(o.steps_to_optimal), "validated": step_limits(None if found is None else found.steps),
        "seeds": len(o.records), "settings": o.num_settings,
        "needed": step_limits(median_range([steps_to_solve(record) for record in o.records])),
        "curve": None if curve is None else _curve(curve.thinned(points)),
    }  # fmt: skip


def _curve(curve: LearningCurve) -> Mapping[str, list[float]]:
    found = {"steps": curve.steps.tolist(), "median": short_list(curve.median)}
    if (curve.low == curve.high).all():
        return found  # one seed, or all equal: the range is the median
    return found | {"low": short_list(curve.low), "high": short_list(curve.high)}


def _pictures(row: EnvironmentRow) -> list[Picture]:
    analysis = row.analysis
    if analysis is None or analysis.num_states > LARGEST_FOR_PICTURES:
        return []
    return cached_pictures(("row", row.env_id, repr(analysis.witness)), lambda: _drawn_pictures(row, analysis))


def _drawn_pictures(row: EnvironmentRow, analysis: Analysis) -> list[Picture]:
    mdp = stored_mdp(row.catalogue_row.env_id)
    return [] if mdp is None else pictures_of(mdp, analysis)
