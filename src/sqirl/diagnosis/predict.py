"""Predictions of steps from the fitted models, which ship with the package in data/features.json."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from sqirl.algorithms.registry import DQN, PPO, SQIRL
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.tolerance import TOLERANCES
from sqirl.diagnosis.features import (
    EXACT,
    FEATURES,
    OUR_FEATURES,
    PICTURES,
    SAMPLED,
    Features,
    difficulty_of,
    exact_features,
    features_path,
)
from sqirl.diagnosis.model import Prediction, StepModel, TrainingData, centers_without, fit, step_range
from sqirl.diagnosis.our_runs import OurRun
from sqirl.envs.catalogue import catalogue
from sqirl.envs.ids import EnvId, parse_id
from sqirl.envs.suites import OURS
from sqirl.report.markdown import table

#: The algorithms that are predicted, with their names for readers.
ALGORITHMS = {spec.name: spec.label for spec in (PPO, DQN, SQIRL)}


def predict(features: Features) -> list[Prediction]:
    """The steps of PPO by our rule, then those of PPO, DQN and SQIRL by the paper's.

    No algorithm is expected to be done before random play would meet an episode that is half as good as the optimum.
    """
    paper = [models()[features.kind, algorithm].predict(features.values) for algorithm in ALGORITHMS]
    ours = our_models()[features.kind].predict({**features.values, "paper_center": paper[0].center})
    return [each.at_least(features.least_steps) for each in (ours, *paper)]


@cache
def _shipped() -> dict[str, Any]:
    path = features_path()
    found: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"rows": {}, "models": {}, "ours": {}}
    )
    return found


def shipped_features() -> dict[str, dict[str, float]]:
    """The sampled features of the paper's environments, by id."""
    return dict(_shipped()["rows"])


@cache
def our_models() -> dict[str, StepModel]:
    """Kind of features -> the model of PPO by our rule."""
    return {kind: StepModel.from_dict(record) for kind, record in _shipped()["ours"].items()}


@cache
def models() -> dict[tuple[str, str], StepModel]:
    """(kind of features, algorithm) -> the model by the paper's rule."""
    return {
        (kind, algorithm): StepModel.from_dict(record)
        for kind, by_algorithm in _shipped()["models"].items()
        for algorithm, record in by_algorithm.items()
    }


def fitted_models(sampled: dict[str, dict[str, float]]) -> dict[str, dict[str, StepModel]]:
    """The models of both kinds, fitted now; `sampled` are the sampled features of the paper's environments."""
    return {
        kind: {algorithm: fit(algorithm, training_data(kind, algorithm, sampled)) for algorithm in ALGORITHMS}
        for kind in (EXACT, SAMPLED)
    }


def training_data(
    kind: str, algorithm: str, sampled: dict[str, dict[str, float]], *, features: tuple[str, ...] | None = None
) -> TrainingData:
    """The features of the paper's environments beside the steps that the paper's run of an algorithm needed."""
    names = features or FEATURES[kind]
    found = exact_rows(sampled) if kind == EXACT else sampled
    rows = [row for row in catalogue() if str(row.env_id) in found]
    ranges = np.array([step_range(row.paper_steps[algorithm]) for row in rows])
    x = np.array([[found[str(row.env_id)][name] for name in names] for row in rows])
    return TrainingData(names, x, ranges[:, 0], ranges[:, 1], tuple(game_of(row.env_id) for row in rows))


def fitted_to_our_runs(sampled: dict[str, dict[str, float]], runs: Sequence[OurRun]) -> dict[str, StepModel]:
    """The models of PPO by our rule, one for each kind of features, fitted now."""
    return {kind: fit(PPO.name, our_training_data(kind, sampled, runs), rule=OURS) for kind in (EXACT, SAMPLED)}


def our_training_data(kind: str, sampled: dict[str, dict[str, float]], runs: Sequence[OurRun]) -> TrainingData:
    """The features of the games of our runs beside the steps of these runs.

    `paper_center` is predicted without the game that it is asked about, as it is when it is asked about a new environment.
    Sampled features are known of the 155 environments only.
    """
    paper = training_data(kind, PPO.name, sampled)
    games, x, ranges = [], [], []
    for run in runs:
        features = run.features if kind == EXACT else sampled.get(run.table)
        if features is not None:
            game = game_of(parse_id(run.table))
            center = centers_without(paper, game, np.array([[features[name] for name in paper.features]]))
            known = {**features, "paper_center": float(center[0]), "pictures": float(run.seen_as == PICTURES)}
            games.append(game)
            x.append([known[name] for name in OUR_FEATURES[kind]])
            ranges.append(run.step_range)
    low, high = np.array(ranges).T
    return TrainingData(OUR_FEATURES[kind], np.array(x), low, high, tuple(games))


def exact_rows(sampled: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The exact features of the paper's environments whose H̄_ε is archived. The length of random play is the sampled one."""
    analyses, rows = archived_analyses(), {}
    for row in catalogue():
        env_id = str(row.env_id)
        analysis = analyses.get(env_id)
        found = None if analysis is None else analysis.tolerant_horizon(TOLERANCES[0])
        difficulty = None if analysis is None or found is None else difficulty_of(found, analysis.num_actions)
        if difficulty is not None and env_id in sampled:
            rows[env_id] = dict(exact_features(difficulty, sampled[env_id]["log_length"]).values)
    return rows


def game_of(env_id: EnvId) -> str:
    """The game of an id. The sizes of a MiniGrid env are one game: DoorKey-5x5 and DoorKey-8x8."""
    if env_id.suite != "minigrid":
        return env_id.game
    found = re.match(r"[A-Za-z]+?(?=S\d|-|\d|$)", env_id.game)
    assert found is not None
    return found.group(0)


def quality_table(fitted: dict[str, dict[str, StepModel]], ours: dict[str, StepModel]) -> str:
    """The leave-one-game-out errors of all models as a table in Markdown."""
    header = ["rule", "features", "algorithm", "rows", "games", "AUC", "90 % intervals that hold", "median factor"]
    paper = [(kind, model) for kind, by_algorithm in fitted.items() for model in by_algorithm.values()]
    rows = []
    for kind, model in [*ours.items(), *paper]:
        q = model.quality
        auc = "" if q.auc is None else f"{q.auc:.3f}"
        errors = [auc, f"{100 * q.coverage:.0f} %", f"{q.median_factor:.1f}"]
        rows.append([model.rule, kind, ALGORITHMS[model.algorithm], str(q.rows), str(q.games), *errors])
    return "\n".join(table(header, rows, left=3)).rstrip()
