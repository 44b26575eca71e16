"""Sampled features of the paper's 155 environments, from their live games: src/sqirl/data/features.json.

    python scripts/make_features.py --raw FOLDER [--seconds 20] [--suite NAME] [--summarise]

The samples of each environment are kept as one JSON file in FOLDER. A row that has a file is not sampled again, so the script can
be stopped and continued. Time is the processor's, so that other work on the machine does not change the result. At the end the
models are fitted, those of our own runs (scripts/make_our_runs.py) too, and their leave-one-game-out errors are printed.
`--summarise` does only that, with the features that are already in the file for rows without samples.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

from sqirl.diagnosis.features import features_path, sampled_features, sampled_horizon
from sqirl.diagnosis.our_runs import read_our_runs
from sqirl.diagnosis.predict import fitted_models, fitted_to_our_runs, quality_table, shipped_features
from sqirl.diagnosis.sampling import Samples, sample
from sqirl.diagnosis.simulator import simulator_of
from sqirl.envs.catalogue import catalogue
from sqirl.envs.description import describe
from sqirl.envs.ids import EnvId
from sqirl.runtime.files import write_atomically


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raw", type=Path, required=True, help="folder of the samples")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of sampling for each environment")
    parser.add_argument("--suite", help="only the environments of this suite: atari, procgen or minigrid")
    parser.add_argument("--summarise", action="store_true", help="sample nothing; only write the file of features")
    options = parser.parse_args()
    options.raw.mkdir(parents=True, exist_ok=True)
    for row in catalogue():
        wanted = options.suite in (None, row.env_id.suite) and not options.summarise
        if wanted and not _file(options.raw, row.env_id).exists():
            _sample(row.env_id, options.raw, options.seconds)
    _summarise(options.raw)


def _file(folder: Path, env_id: EnvId) -> Path:
    return folder / f"{env_id.stem}.json"


def _sample(env_id: EnvId, folder: Path, seconds: float) -> None:
    found = sample(simulator_of(describe(env_id)), seconds=seconds, clock=time.process_time)
    write_atomically(_file(folder, env_id), json.dumps(found.to_dict()).encode())
    print(f"{env_id}: {found.steps:,} steps in {found.seconds:.1f} s", flush=True)


def _summarise(folder: Path) -> None:
    """Write the features of all rows that are sampled, and the models that are fitted to them and to our own runs."""
    rows = dict(shipped_features())
    for row in catalogue():
        path = _file(folder, row.env_id)
        if path.exists():
            samples = Samples.from_dict(json.loads(path.read_text()))
            values = {**sampled_features(samples).values, **not_chosen(samples)}
            rows[str(row.env_id)] = {name: round(value, 4) for name, value in values.items() if name != "pictures"}
    models, ours = fitted_models(rows), fitted_to_our_runs(rows, read_our_runs())
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(found)}" for name, found in rows.items())
    fitted = {kind: {name: model.to_dict() for name, model in found.items()} for kind, found in models.items()}
    own = json.dumps({kind: model.to_dict() for kind, model in ours.items()})
    text = f'{{"rows":{{\n{lines}}},\n"models":{json.dumps(fitted)},\n"ours":{own}}}\n'
    write_atomically(features_path(), text.encode())
    print(f"{len(rows)} environments in {features_path()}")
    print(quality_table(models, ours))


def not_chosen(samples: Samples) -> dict[str, float]:
    """Numbers that scripts/choose_features.py could choose and has not.

    log_decisions   log of the mean length of an episode of random play times log A
    log_rewards     log of the mean number of rewards in such an episode
    margin          log A times the sampled effective horizon
    """
    random, log_actions = samples.random, math.log(samples.num_actions)
    return {
        "log_decisions": math.log(float(random.lengths.mean()) * log_actions),
        "log_rewards": math.log(float(random.rewards.mean()) + 1 / (2 * len(random.rewards))),
        "margin": log_actions * sampled_horizon(samples).horizon,
    }


if __name__ == "__main__":
    main()
