"""Compares the use of all sampled features with choices among them.

    python scripts/choose_features.py

All `FEATURES` ship, and none is chosen. Two choices are tried beside that. Each adds one feature at a time, as long as it helps.
The first looks at no run of deep RL: it makes the error of an estimate of log A · H̄_ε small, on left-out games among those whose
H̄_ε is known; values above `CAP` count as "at least `CAP`". The second makes the AUC of "PPO solves it" on left-out games
larger by `GAIN`. It is made again without each game, which then is predicted with the choice of the others: the nested AUC. The
inner left-out games are taken in `FOLDS` groups, to save time. It takes about ten minutes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from sqirl.algorithms.registry import PPO
from sqirl.diagnosis.features import FEATURES, SAMPLED
from sqirl.diagnosis.model import LAST, TrainingData, Values, centers_without, left_out_predictions
from sqirl.diagnosis.predict import exact_rows, game_of, shipped_features, training_data
from sqirl.envs.ids import parse_id
from sqirl.results.statistics import area_under_curve, spearman

#: Larger values of log A · H̄_ε are not told apart: none of these environments can be learned.
CAP = 30.0
GAIN, FOLDS = 0.003, 8


def main() -> None:
    rows = shipped_features()
    known, paper = difficulties(rows), training_data(SAMPLED, PPO.name, rows)
    chosen = choose(known, error)
    for title, names in (("all", FEATURES[SAMPLED]), ("chosen by H̄_ε", chosen)):
        center, _ = left_out_predictions(of(known, names))
        rank = float(spearman(center, known.low))
        print(f"{title}: {', '.join(names)}")
        print(
            f"  rank correlation with log A · H̄_ε of {len(center)} rows {rank:.2f}, error {error(of(known, names)):.2f}"
        )
        print(
            f"  AUC of PPO {area(paper, left_out_predictions(of(paper, names))[0]):.3f} on {len(paper.x)} rows",
            flush=True,
        )
    games, centers, found = np.array(paper.games), np.empty(len(paper.x)), Counter[tuple[str, ...]]()
    for game in sorted(set(paper.games)):
        out = games == game
        names = choose(paper.where(~out), in_folds, gain=GAIN)
        found[names] += 1
        data = of(paper, names)
        centers[out] = centers_without(data, game, data.x[out])
    print(f"chosen by the AUC of the others: nested AUC {area(paper, centers):.3f}")
    for names, count in found.most_common():
        print(f"  {count:3d} times {', '.join(names)}")


def difficulties(rows: dict[str, dict[str, float]]) -> TrainingData:
    """The sampled features of the environments whose H̄_ε is archived, beside log A · H̄_ε."""
    exact = exact_rows(rows)
    values = np.array([exact[env_id]["difficulty"] for env_id in exact])
    x = np.array([[rows[env_id][name] for name in FEATURES[SAMPLED]] for env_id in exact])
    games = tuple(game_of(parse_id(env_id)) for env_id in exact)
    high = np.where(values < CAP, values, math.inf)
    return TrainingData(FEATURES[SAMPLED], x, np.minimum(values, CAP), high, games)


def choose(data: TrainingData, loss: Callable[[TrainingData], float], *, gain: float = 0.0) -> tuple[str, ...]:
    """The features, in the order in which they were added."""
    chosen: tuple[str, ...] = ()
    best = math.inf
    while len(chosen) < len(data.features):
        found = {name: loss(of(data, (*chosen, name))) for name in data.features if name not in chosen}
        name = min(found, key=lambda each: found[each])
        if found[name] >= best - gain:
            break
        chosen, best = (*chosen, name), found[name]
    return chosen


def of(data: TrainingData, names: tuple[str, ...]) -> TrainingData:
    """The same rows with these features."""
    places = [data.features.index(name) for name in names]
    return TrainingData(names, data.x[:, places], data.low, data.high, data.games)


def error(data: TrainingData) -> float:
    """The root of the mean squared error on left-out games."""
    center, _ = left_out_predictions(data)
    return float(np.sqrt(np.mean((center - np.clip(center, data.low, data.high)) ** 2)))


def in_folds(data: TrainingData) -> float:
    """1 less the AUC on left-out groups of games."""
    fold = {game: str(place % FOLDS) for place, game in enumerate(sorted(set(data.games)))}
    grouped = TrainingData(data.features, data.x, data.low, data.high, tuple(fold[game] for game in data.games))
    return 1 - area(data, left_out_predictions(grouped)[0])


def area(paper: TrainingData, centers: Values) -> float:
    """The AUC of "PPO solves it"."""
    return float(area_under_curve(centers, np.where(paper.low < LAST, 1.0, math.inf)))


if __name__ == "__main__":
    main()
