"""Chooses the sampled features by how well they estimate log A · H̄_ε where that is known, and judges the choice.

    python scripts/choose_features.py

The choice does not look at any run of deep RL. Features are added one at a time, as long as one makes the error of the
estimate on left-out games smaller. Rows with more than `CAP` count as "at least `CAP`". What was chosen then predicts which
of the paper's 155 environments PPO solves, each game by the others: the AUC. For the nested AUC the choice itself is made again
without each game. The features that ship are `FEATURES` of `sqirl.diagnosis.features`.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from sqirl.algorithms.registry import PPO
from sqirl.diagnosis.features import FEATURES, SAMPLED
from sqirl.diagnosis.model import LAST, TrainingData, Values, centers_without, left_out_predictions
from sqirl.diagnosis.predict import exact_rows, game_of, shipped_features, training_data
from sqirl.envs.ids import parse_id
from sqirl.results.statistics import area_under_curve, spearman

#: The features that may be chosen; `sampled_features` and `scripts/make_features.py` say what they are.
POOL = ("lift", "log_rewards", "log_horizon", "log_length", "log_decisions", "greedy_share", "margin")
#: Larger values of log A · H̄_ε are not told apart: none of these environments can be learned.
CAP = 30.0


def main() -> None:
    rows = shipped_features()
    known, paper = difficulties(rows), training_data(SAMPLED, PPO.name, rows, features=POOL)
    print(f"estimates of log A · H̄_ε in {len(known.x)} environments, each game by the others:")
    chosen = choose(known)
    for names in dict.fromkeys((*((name,) for name in POOL), FEATURES[SAMPLED], chosen)):
        print(f"  {', '.join(names):40} {judged(of(known, names))}")
    print(f"chosen: {', '.join(chosen)}")
    print(
        f"AUC {area(paper, left_out_predictions(of(paper, chosen))[0]):.3f} of what PPO solves in {len(paper.x)} environments"
    )
    games, centers, found = np.array(paper.games), np.empty(len(paper.x)), Counter[tuple[str, ...]]()
    for game in sorted(set(paper.games)):
        names = choose(known.where(np.array(known.games) != game))
        found[names] += 1
        out, data = games == game, of(paper, names)
        centers[out] = centers_without(data, game, data.x[out])
    print(f"nested AUC {area(paper, centers):.3f}; over {found.total()} games these were chosen:")
    for names, count in found.most_common():
        print(f"  {count:3d} times {', '.join(names)}")


def difficulties(rows: dict[str, dict[str, float]]) -> TrainingData:
    """The sampled features of the environments whose H̄_ε is archived, beside log A · H̄_ε."""
    exact = exact_rows(rows)
    values = np.array([exact[env_id]["difficulty"] for env_id in exact])
    x = np.array([[rows[env_id][name] for name in POOL] for env_id in exact])
    high = np.where(values < CAP, values, math.inf)
    return TrainingData(POOL, x, np.minimum(values, CAP), high, tuple(game_of(parse_id(env_id)) for env_id in exact))


def choose(data: TrainingData) -> tuple[str, ...]:
    """The features, in the order in which they were added."""
    chosen: tuple[str, ...] = ()
    best = math.inf
    while len(chosen) < len(data.features):
        found = {name: error(of(data, (*chosen, name))) for name in data.features if name not in chosen}
        name = min(found, key=lambda each: found[each])
        if found[name] >= best:
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


def judged(data: TrainingData) -> str:
    """How well the features estimate log A · H̄_ε of left-out games."""
    center, _ = left_out_predictions(data)
    return f"rank correlation {float(spearman(center, data.low)):.2f}, error {error(data):.2f}"


def area(paper: TrainingData, centers: Values) -> float:
    """The AUC of "PPO solves it"."""
    return float(area_under_curve(centers, np.where(paper.low < LAST, 1.0, math.inf)))


if __name__ == "__main__":
    main()
