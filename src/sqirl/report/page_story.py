"""The figures and the story of the page as plain values: the answer, the effective horizon, two games, algorithms compared."""

from __future__ import annotations

from typing import Any

from sqirl.algorithms.registry import SQIRL
from sqirl.analysis.result import Witness
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.envs.suites import OWN, SUITES
from sqirl.report.answer import SUBJECT, answer_of
from sqirl.report.contrast import contrast, frames, loss, names_of_actions
from sqirl.report.data import DRAWN_PAIRS, LeastK, ReportData
from sqirl.report.environments import EnvironmentRow
from sqirl.report.marks import (
    LANES,
    LEAST_STEPS,
    RAIL,
    Mark,
    bound_marks,
    horizon_marks,
    num_neither,
    pair_marks,
    rail_height,
    value_range,
)
from sqirl.report.page_values import finite, interval, short_list, shortened
from sqirl.report.predictors import DRAWN


def answer_values(data: ReportData) -> dict[str, Any] | None:
    """The sentence at the top, and the numbers of the line below it."""
    found = answer_of(data)
    if found is None:
        return None
    return {
        "sentence": found.sentence,
        "algorithm": SUBJECT.name,
        "area": interval(found.area),
        "simpler": [{"label": label, "area": interval(area)} for label, area in found.simpler],
    }


def horizon_values(data: ReportData) -> dict[str, Any]:
    """The first figure, for every effective horizon; `shown` is the one that is drawn first."""
    horizons = [(found, found.tolerance) for found in data.predictors if found.tolerance is not None]
    return {
        "algorithms": [spec.name for spec in DRAWN],
        "rows": data.leading_horizon.rows,
        "tolerance": f"{100 * TOLERANCES[0]:g} %",
        "shown": data.leading_horizon.label,
        "panels": {found.label: _panels(data, tolerance) for found, tolerance in horizons},
        "estimates": [
            {
                "label": found.label,
                "is_horizon": found.tolerance is not None,
                "found": {spec.name: [interval(e) for e in found.found[spec.label]] for spec in DRAWN},
            }
            for found in data.predictors
        ],
    }


def _panels(data: ReportData, tolerance: float) -> dict[str, Any]:
    """The marks and the line of each algorithm, and the ends of the axis that they share."""
    marks = {spec.name: horizon_marks(data, tolerance, spec) for spec in DRAWN}
    return {
        "range": short_list(value_range([mark for found in marks.values() for mark in found])),
        "marks": {name: mark_values(found) for name, found in marks.items()},
        "trend": {spec.name: _trend(data, tolerance, spec.name) for spec in DRAWN},
    }


def _trend(data: ReportData, tolerance: float, name: str) -> dict[str, list[float]] | None:
    line = data.trends[tolerance, name]
    if line is None:
        return None
    return {key: short_list(getattr(line, key)) for key in ("x", "steps", "low", "high")}


def steps_axis() -> dict[str, Any]:
    """The axis of steps that all scatter plots share: its least value, its rail and the heights of the rail's lanes."""
    return {"least": LEAST_STEPS, "rail": RAIL, "lanes": short_list(rail_height(lane) for lane in range(LANES))}


def suite_labels() -> dict[str, str]:
    return {name: suite.label for name, suite in (*SUITES.items(), (OWN.name, OWN))}


def mark_values(marks: list[Mark]) -> list[list[Any]]:
    """[env, x, y, ours, lane], with None on a rail; the page knows the rest from the environment."""
    return [[mark.env_id, finite(mark.x), finite(mark.y), int(mark.ours), mark.lane] for mark in marks]


def pair_values(data: ReportData) -> list[dict[str, Any]]:
    """Figure 3: the marks of each pair, and how many environments neither solves (the paper's runs, ours)."""
    found = []
    for y, x in DRAWN_PAIRS:
        marks = pair_marks(data, y, x)
        shown = [mark for mark in marks if mark.x is not None or mark.y is not None]
        neither = [num_neither(marks, ours=ours) for ours in (False, True)]
        found.append({"y": y.name, "x": x.name, "marks": mark_values(shown), "neither": neither})
    return found


def bound_values(data: ReportData) -> dict[str, Any]:
    marks = bound_marks(data)
    return {"algorithm": SQIRL.name, "marks": mark_values(marks), "range": short_list(value_range(marks))}


def least_k_values(data: ReportData) -> dict[str, Any]:
    """Figure 2, and the same for exactly optimal returns."""
    return {
        "algorithm": SUBJECT.name,
        "approximate": [_least_k(group) for group in data.least_k(lambda row: row.approx_min_k)],
        "exact": [_least_k(group) for group in data.least_k(lambda row: row.min_k)],
    }


def _least_k(group: LeastK) -> dict[str, Any]:
    solved, unsolved = ([row.env_id for row in rows] for rows in (group.solved, group.unsolved))
    return {"label": group.label, "solved": solved, "unsolved": unsolved}


def contrast_values(data: ReportData, *, pictures: bool) -> list[dict[str, Any]]:
    """The two games, the easy one first; empty if there is no pair."""
    found = contrast(data.rows)
    return [] if found is None else [_game(row, pictures) for row in (found.easy, found.hard)]


def _game(row: EnvironmentRow, pictures: bool) -> dict[str, Any]:
    a = row.analysis
    assert a is not None
    return {
        "id": row.env_id,
        "frames": frames(row) if pictures else [],
        "decision": None if a.witness is None else _decision(a.witness, names_of_actions(row)),
    }


def _decision(witness: Witness, names: tuple[str, ...]) -> dict[str, Any]:
    """The wrong decision: Q^k and Q* of every action there."""
    return {
        "k": witness.k,
        "t": witness.t,
        "loss": shortened(loss(witness)),
        "actions": [
            {
                "name": name,
                "q": shortened(witness.q[action]),
                "optimal_q": shortened(witness.optimal_q[action]),
                "greedy": action in witness.greedy_actions,
                "optimal": action in witness.optimal_actions,
            }
            for action, name in enumerate(names)
        ],
    }
