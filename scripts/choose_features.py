"""Chooses the sampled features by how well they estimate log A · H̄_ε where that is known, and judges the choice.

    python scripts/choose_features.py

The choice looks at no run of deep RL. It adds one feature of `POOL` at a time, as long as that makes the error of an estimate of
log A · H̄_ε smaller, on left-out games among those whose H̄_ε is known; values above `CAP` count as "at least `CAP`". What is
chosen are `FEATURES` of `sqirl.diagnosis.features`.

For comparison features are chosen to make the AUC of "PPO solves it" on left-out games larger by `GAIN`; the inner left-out games
are taken in `FOLDS` groups, to save time. A nested AUC is that of games for which the choice was made again without them. It
takes about twenty minutes.
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

#: The features that may be chosen; `sampled_features` and `scripts/make_features.py` say what they are.
POOL = (*FEATURES[SAMPLED], "log_rewards", "log_decisions", "margin")
#: Larger values of log A · H̄_ε are not told apart: none of these environments can be learned.
CAP = 30.0
GAIN, FOLDS = 0.003, 8


def main() -> None:
    rows = shipped_features()
    known, paper = difficulties(rows), training_data(SAMPLED, PPO.name, rows, features=POOL)
    for title, names in (("all", POOL), ("chosen by H̄_ε", choose(known, error))):
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
    print("chosen by H̄_ε of the other games:", nested(paper, known, error), flush=True)
    print("chosen by the AUC on the other games:", nested(paper, paper, in_folds, gain=GAIN))


def nested(
    paper: TrainingData, guide: TrainingData, loss: Callable[[TrainingData], float], *, gain: float = 0.0
) -> str:
    """The nested AUC of a choice by `guide`, and how often each set was chosen."""
    games, centers, found = np.array(paper.games), np.empty(len(paper.x)), Counter[tuple[str, ...]]()
    of_all = choose(guide, loss, gain=gain)
    for game in sorted(set(paper.games)):
        without = guide.where(np.array(guide.games) != game)
        names = choose(without, loss, gain=gain) if game in guide.games else of_all
        found[names] += 1
        out, data = games == game, of(paper, names)
        centers[out] = centers_without(data, game, data.x[out])
    counts = [f"  {count:3d} times {', '.join(names)}" for names, count in found.most_common()]
    return "\n".join([f"nested AUC {area(paper, centers):.3f}", *counts])


def difficulties(rows: dict[str, dict[str, float]]) -> TrainingData:
    """The sampled features of the environments whose H̄_ε is archived, beside log A · H̄_ε."""
    exact = exact_rows(rows)
    values = np.array([exact[env_id]["difficulty"] for env_id in exact])
    x = np.array([[rows[env_id][name] for name in POOL] for env_id in exact])
    games = tuple(game_of(parse_id(env_id)) for env_id in exact)
    return TrainingData(POOL, x, np.minimum(values, CAP), np.where(values < CAP, values, math.inf), games)


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
