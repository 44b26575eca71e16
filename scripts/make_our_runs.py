"""Steps of PPO with our presets until it has 90 % of the gain on random play: src/sqirl/data/our_runs.json.

    python scripts/make_our_runs.py [--seconds 150] [--only TEXT] [--seed 0]

The runs that the prediction "with our presets" is fitted to. Each is trained with one seed until the mean of an evaluation
reaches the return that counts as good, to `STEPS`, or for so many seconds of the processor. What was run is kept and not run
again, so the script can be stopped and continued. The PPO runs of variant "ours" on pictures that ship with the package are
summarised in the same way. `python scripts/make_features.py --summarise --raw FOLDER` then fits the models.

The environments of scripts/verify_predictions.py are not trained here, nor any MiniGrid-Empty: they test the model.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from sqirl.algorithms.registry import PPO
from sqirl.diagnosis.features import GRID, NUMBER, PICTURES, allowed_loss
from sqirl.diagnosis.our_runs import OurRun, our_runs_path, read_our_runs, write_our_runs
from sqirl.diagnosis.table import analysed, table_features
from sqirl.diagnosis.verify import train_until
from sqirl.envs.description import describe
from sqirl.envs.suites import OURS
from sqirl.experiments.protocol import planned_run
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.runs.record import RunRecord
from sqirl.runs.store import shipped_records

#: Steps of a run, at most.
STEPS = 500_000
#: Seconds that an analysis may take.
ANALYSIS_SECONDS = 30.0


class StateNumbers(gym.Env[int, int]):
    """A stored game that is seen as the number of its state, as the small environments of Gymnasium are.

    :param table: the id of the game
    """

    def __init__(self, table: str) -> None:
        self.mdp = open_table_of(table)
        assert self.mdp.transitions is not None and self.mdp.horizon is not None and len(self.mdp.start_states) == 1
        self.observation_space = gym.spaces.Discrete(self.mdp.num_states)
        self.action_space = gym.spaces.Discrete(self.mdp.num_actions)
        self.max_steps = self.mdp.horizon

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.t, self.previous = int(self.mdp.start_states[0]), 0, -1
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.mdp.transitions is not None
        if self.previous >= 0 and self.mdp.stickiness and self.np_random.random() < self.mdp.stickiness:
            action = self.previous
        reward, state = float(self.mdp.rewards[self.state, action]), int(self.mdp.transitions[self.state, action])
        self.previous, self.t = int(action), self.t + 1
        over = state == END
        self.state = self.state if over else state
        return self.state, reward, over, self.t >= self.max_steps, {}


@dataclass(frozen=True)
class Case:
    """A game of the catalogue, sticky or not, and how the agent sees it."""

    table: str
    seen_as: str

    @property
    def env(self) -> str:
        if self.seen_as == NUMBER:
            return f"scripts/make_our_runs.py:StateNumbers {json.dumps({'table': self.table})}"
        return self.table


def _named(names: str, seen_as: str) -> tuple[Case, ...]:
    return tuple(Case(f"BRIDGE/{name}-v0", seen_as) for name in names.split())


CASES = (
    *_named("MiniGrid-LavaGapS5-Sticky MiniGrid-LavaGapS5 MiniGrid-SimpleCrossingS9N3-Sticky", GRID),
    *_named("MiniGrid-LavaGapS5-Sticky MiniGrid-MultiRoom-N2-S4 maze_easy_l0_30_fs1 freeway_10_fs30-Sticky", NUMBER),
    *_named("MiniGrid-DoorKey-5x5 MiniGrid-KeyCorridorS3R1 MiniGrid-LavaCrossingS9N1", GRID),
    *_named("MiniGrid-DoorKey-5x5-Sticky MiniGrid-SimpleCrossingS9N1-Sticky MiniGrid-LavaCrossingS9N3-Sticky", NUMBER),
    *_named("MiniGrid-LavaGapS7-Sticky freeway_20_fs30 maze_easy_l2_30_fs1-Sticky MiniGrid-Unlock", NUMBER),
    *_named("MiniGrid-MultiRoom-N2-S4-Sticky MiniGrid-SimpleCrossingS11N5 MiniGrid-LavaCrossingS11N5-Sticky", NUMBER),
    *_named("MiniGrid-FourRooms", NUMBER),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150.0, help="seconds of the processor for each run")
    parser.add_argument("--only", default="", help="only the environments whose name contains this text")
    parser.add_argument("--seed", type=int, default=0, help="of the runs")
    options = parser.parse_args()
    runs = [run for run in read_our_runs() if run.seen_as != PICTURES]
    runs = [*shipped_runs(), *runs]
    known = {(run.env, run.seed) for run in runs}
    for case in CASES:
        if options.only in case.env and (case.env, options.seed) not in known:
            runs.append(trained(case, options.seed, options.seconds))
            print(runs[-1], flush=True)
            write_our_runs(runs)
    write_our_runs(runs)
    print(f"{len(runs)} runs in {our_runs_path()}")


def open_table_of(name: str) -> TabularMDP:
    """The stored MDP of an id."""
    mdp = stored_mdp(name)
    assert mdp is not None, f"{name} is not stored"
    return mdp


def _known(table: str) -> tuple[dict[str, float], float]:
    """The exact features of a game, and the return that counts as good."""
    mdp = open_table_of(table)
    assert mdp.horizon is not None
    analysis = analysed(mdp, mdp.horizon, ANALYSIS_SECONDS)
    assert analysis is not None, f"{table} takes too long to analyse"
    features = table_features(mdp, analysis)
    assert features is not None, f"no k is good enough in {table}"
    return dict(features.values), analysis.optimal_return - allowed_loss(analysis)


def trained(case: Case, seed: int, seconds: float) -> OurRun:
    """PPO on one case."""
    import torch

    torch.set_num_threads(1)
    features, target = _known(case.table)
    config = planned_run(PPO.name, case.env, seed=seed, timesteps=STEPS, keep_going=True)
    watch = train_until(config, target, seconds)
    return OurRun(case.env, case.table, case.seen_as, seed, watch.reached_at, watch.steps, features)


def shipped_runs() -> list[OurRun]:
    """The PPO runs of variant "ours" on pictures that ship with the package."""
    found = [record for record in shipped_records() if _is_wanted(record)]
    known = {table: _known(table) for table in sorted({record.config.env_id for record in found})}
    runs = []
    for record in found:
        table = record.config.env_id
        features, target = known[table]
        reached = next((point.steps for point in record.curve if point.mean >= target), None)
        runs.append(OurRun(table, table, PICTURES, record.config.seed, reached, record.steps, features))
    return runs


def _is_wanted(record: RunRecord) -> bool:
    config, env = record.config, describe(record.config.env_id)
    presets = {**PPO.presets(env)}
    return (
        config.algorithm == PPO.name and config.variant == OURS and env.bridge_id is not None
        and env.bridge_id.suite != "minigrid" and config.chosen == presets and record.error is None
    )  # fmt: skip


if __name__ == "__main__":
    main()
