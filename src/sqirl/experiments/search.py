"""The search for the best setting of an algorithm on one environment, as a dialogue: configs out, records in.

For SQIRL and GORP the setting is (k, m): for each k the smallest m with which the median run solves, by doubling until it
does and bisecting after, all k side by side. For PPO and DQN it is one of two values. A search is a generator that yields
the runs it wants to see next; whoever conducts it runs them, in whatever order and wherever, and sends the records back.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cache

from sqirl.algorithms.worlds import live_env
from sqirl.analysis.archive import archived_analyses
from sqirl.envs.ids import is_bridge_id, is_full_atari, parse_id
from sqirl.errors import SqirlError
from sqirl.experiments.plan import planned_run
from sqirl.experiments.sweeps import Sweep
from sqirl.experiments.target import target_of
from sqirl.results.frame import rank
from sqirl.results.records import RunConfig, RunRecord
from sqirl.results.statistics import censored_median

#: Bisecting stops when the smallest solving m is within this factor of the largest that does not.
FINE_ENOUGH = 1.5

Search = Generator[list[RunConfig], list[RunRecord], "Finding"]


@dataclass(frozen=True)
class Finding:
    """The best setting that was found: its median sample complexity, None if no setting's median run solved."""

    env_id: str
    algorithm: str
    steps: float | None
    best: tuple[RunConfig, ...]  # its runs, one for each seed
    num_runs: int
    error: str | None = None  # of the first run that failed, which ends a search


def search(sweep: Sweep, env_id: str, algorithm: str) -> Search:
    """All runs of one algorithm on one environment."""
    if algorithm in ("sqirl", "gorp"):
        return _search_k_and_m(sweep, env_id, algorithm) if sweep.search else _try_all(sweep, env_id, algorithm)
    return _try_all(sweep, env_id, algorithm)


def settings(sweep: Sweep, env_id: str, algorithm: str) -> list[RunConfig]:
    """One config (of seed 0) for each setting that is tried without a search."""
    by_algorithm: dict[str, list[dict[str, int | None]]] = {
        "sqirl": [{"k": k} for k in sweep.ks],
        "gorp": [{}],
        "ppo": [{"rollout": rollout} for rollout in sweep.rollouts],
        "dqn": [{"epsilon_steps": steps} for steps in sweep.epsilon_steps],
    }
    return [_config(sweep, env_id, algorithm, choice) for choice in by_algorithm[algorithm]]


def _config(sweep: Sweep, env_id: str, algorithm: str, options: dict[str, int | None]) -> RunConfig:
    config = planned_run(algorithm, env_id, seed=0, timesteps=sweep.timesteps, live=sweep.live, options=options)
    return replace(config, stop="mean")


def _seeded(config: RunConfig, seeds: range) -> list[RunConfig]:
    return [replace(config, seed=seed) for seed in seeds]


def _try_all(sweep: Sweep, env_id: str, algorithm: str) -> Search:
    """Every setting with every seed; the one with the smallest median wins."""
    tried = [_seeded(config, sweep.seeds_of(algorithm)) for config in settings(sweep, env_id, algorithm)]
    records = yield [config for group in tried for config in group]
    by_config = {record.config: record for record in records}
    group = min(tried, key=lambda group: rank([by_config[config] for config in group]))
    steps = censored_median([by_config[config].complexity for config in group])
    return Finding(env_id, algorithm, steps, tuple(group), len(records), _first_error(records))


def _search_k_and_m(sweep: Sweep, env_id: str, algorithm: str) -> Search:
    """Climb the ladders of all k side by side, always the cheapest next rung, as long as it can still win."""
    if target_of(env_id).optimal is None:
        raise SqirlError(
            f"nobody knows the optimal return of {env_id}, so no setting can be seen to solve it; `sqirl train` tries one setting"
        )
    best: float | None = None
    runs: tuple[RunConfig, ...] = ()
    count, cost = 0, Cost(env_id, algorithm)
    ladders = [_Ladder(k, sweep.smallest_m) for k in promising_ks(env_id, sweep.ks)]
    while ladders:
        # Of equals the first, which is the most promising
        ladder = min(ladders, key=lambda ladder: cost.of_an_iteration(ladder.k, ladder.m))
        config = _config(sweep, env_id, algorithm, {"k": ladder.k, "m": ladder.m})
        if best is not None:  # only a complexity of at least one evaluation less is better
            config = replace(config, timesteps=min(sweep.timesteps, int(best) - config.eval_every))
        if cost.of_an_iteration(ladder.k, ladder.m) >= config.timesteps:  # nothing would be learned in time
            ladders.remove(ladder)
            continue
        group = _seeded(config, sweep.seeds_of(algorithm))
        records = yield group
        count += len(records)
        if (error := _first_error(records)) is not None:
            return Finding(env_id, algorithm, best, runs or tuple(group), count, error)
        cost.learn(records)
        steps = censored_median([record.complexity for record in records])
        if steps is not None and (best is None or steps < best):
            best, runs = steps, tuple(group)
        runs = runs or tuple(group)
        if not ladder.climb(solved=steps is not None):
            ladders.remove(ladder)
    return Finding(env_id, algorithm, best, runs, count)


@dataclass
class _Ladder:
    """The m to try with one k: doubled until one solves, then bisected."""

    k: int
    m: int  # the next rung
    low: int = 0  # no run with an m up to this solves
    high: int | None = None  # runs with this do

    def climb(self, *, solved: bool) -> bool:
        """Take what came of the rung; is there another one?"""
        if solved:
            self.high = self.m
        else:
            self.low = self.m
        if self.high is None:
            self.m = 2 * self.low
            return True
        self.m = max(self.low + 1, round((max(self.low, 1) * self.high) ** 0.5))
        return self.high > max(FINE_ENOUGH * self.low, self.low + 1) and self.m < self.high


def _first_error(records: list[RunRecord]) -> str | None:
    return next((record.error for record in records if record.error is not None), None)


def promising_ks(env_id: str, ks: tuple[int, ...]) -> list[int]:
    """The k to try, in the order in which the analysis holds them likely to win: solvable ones by effective horizon first."""
    analysis = archived_analyses().get(env_id)
    if analysis is None:
        return [k for k in ks if not is_bridge_id(env_id) or k <= parse_id(env_id).horizon]

    def promise(k: int) -> tuple[bool, float, int]:
        known = k <= len(analysis.effective_horizons)
        horizon = analysis.effective_horizons[k - 1] if known else None
        return horizon is None, horizon or 0.0, k

    return sorted((k for k in ks if k <= analysis.horizon), key=promise)


class Cost:
    """The least steps that an iteration takes: known better with every record."""

    def __init__(self, env_id: str, algorithm: str) -> None:
        self.env_id = env_id
        self.horizon = parse_id(env_id).horizon if is_bridge_id(env_id) else 1
        self.of_sequences = algorithm == "gorp"
        # Episodes may be far shorter than the horizon; a tenth of it is the least that we reckon with
        self.episode = max(1.0, self.horizon / 10)

    def learn(self, records: list[RunRecord]) -> None:
        """Runs that went through all iterations tell how long episodes are; half of that is safe to reckon with."""
        for record in records:
            episodes = self.horizon * self.episodes(record.config.k or 1, record.config.m or 1)
            if record.error is None and record.steps < record.config.timesteps:
                self.episode = max(self.episode, record.steps / episodes / 2)

    def episodes(self, k: int, m: int) -> int:
        return m * _num_actions(self.env_id) ** k if self.of_sequences else m

    def of_an_iteration(self, k: int, m: int) -> float:
        return self.episodes(k, m) * self.episode


@cache
def _num_actions(env_id: str) -> int:
    """As the analysis of a game tells, or else the game itself."""
    analysis = archived_analyses().get(env_id)
    if analysis is not None:
        return analysis.num_actions
    if is_full_atari(env_id):
        from sqirl.algorithms.full_atari import num_actions_of  # which loads torch

        return num_actions_of(env_id)
    env = live_env(env_id)
    num_actions = int(getattr(env.action_space, "n", 1))
    env.close()
    return num_actions
