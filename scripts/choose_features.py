"""Chooses the sampled features, and says how good the choice is on games that took no part in it.

    python scripts/choose_features.py

Features of data/features.json are added one at a time, as long as one makes the AUC of "PPO solves it" on left-out games larger
by `GAIN`. This is done once with all games, which gives the choice, and once without each game, which then is predicted with the
choice of the others: the nested AUC. The inner left-out games are taken in `FOLDS` groups, to save time. What ships is the set of
`FEATURES`, which was chosen earlier on other rows: the nested choice is not better.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from sqirl.algorithms.registry import PPO
from sqirl.diagnosis.features import SAMPLED, derived
from sqirl.diagnosis.model import LAST, TrainingData, centers_without, left_out_predictions
from sqirl.diagnosis.predict import shipped_features, training_data
from sqirl.results.statistics import area_under_curve

#: The features that may be chosen; `sampled_features` and `derived` say what they are.
POOL = ("rarity", "log_decisions", "variety", "log_length", "flat", "rarity_decisions")
GAIN, MOST, FOLDS = 0.003, 4, 8


def main() -> None:
    rows = {env_id: derived(values) for env_id, values in shipped_features().items()}
    data = training_data(SAMPLED, PPO.name, rows, features=POOL)
    everything = choose(data)
    print(
        f"chosen with all games: {', '.join(everything)}; AUC {auc(data, left_out_predictions(of(data, everything))[0]):.3f}"
    )
    games, centers, chosen = np.array(data.games), np.empty(len(data.x)), Counter[tuple[str, ...]]()
    for game in sorted(set(data.games)):
        out = games == game
        names = choose(data.where(~out))
        chosen[names] += 1
        centers[out] = centers_without(of(data, names), game, of(data, names).x[out])
    print(f"nested AUC {auc(data, centers):.3f} over {len(set(data.games))} games")
    for names, count in chosen.most_common():
        print(f"  {count:3d} times {', '.join(names)}")


def choose(data: TrainingData) -> tuple[str, ...]:
    """The features, in the order in which they were added."""
    chosen: tuple[str, ...] = ()
    best = 0.5
    while len(chosen) < MOST:
        found = {name: in_folds(of(data, (*chosen, name))) for name in data.features if name not in chosen}
        name = max(found, key=lambda each: found[each])
        if found[name] < best + GAIN:
            break
        chosen, best = (*chosen, name), found[name]
    return chosen


def of(data: TrainingData, names: tuple[str, ...]) -> TrainingData:
    """The same rows with these features."""
    places = [data.features.index(name) for name in names]
    return TrainingData(names, data.x[:, places], data.low, data.high, data.games)


def in_folds(data: TrainingData) -> float:
    """The AUC on left-out groups of games."""
    fold = {game: str(place % FOLDS) for place, game in enumerate(sorted(set(data.games)))}
    grouped = TrainingData(data.features, data.x, data.low, data.high, tuple(fold[game] for game in data.games))
    return auc(data, left_out_predictions(grouped)[0])


def auc(data: TrainingData, centers: NDArray[np.float64]) -> float:
    return float(area_under_curve(centers, np.where(data.low < LAST, 1.0, math.inf)))


if __name__ == "__main__":
    main()
