"""How good a trained model is: the paper's mean over episodes, and on a table its true return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from sqirl.algorithms.exact import Nodes, exact_return
from sqirl.algorithms.gorp import GORP
from sqirl.algorithms.policies import MOST_AT_ONCE
from sqirl.algorithms.sqirl import SQIRL
from sqirl.errors import WorkFailed
from sqirl.mdp.arrays import distinct_rows
from sqirl.mdp.play import SeenLanes, Table

#: (timesteps (n,), keys (n, K)) -> actions (n,), or (n, A) probabilities
KeyPolicy = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Evaluation:
    """Returns in the units of the game; `exact` is None where there is no table, or too much of it."""

    mean: float
    exact: float | None


def key_policy(model: BaseAlgorithm, table: Table) -> KeyPolicy:
    """The model's policy over keys of a table's observations, without exploration; equal observations are looked at once."""
    if isinstance(model, SQIRL):
        return model.act_by_keys
    if isinstance(model, GORP):
        return lambda t, keys: model.policy.act(t, th.empty(len(t)))

    def act(t: np.ndarray, keys: np.ndarray) -> np.ndarray:
        distinct, _, place = distinct_rows(keys)
        parts = range(0, len(distinct), MOST_AT_ONCE)
        seen = (table.observations(distinct[first : first + MOST_AT_ONCE]) for first in parts)
        return np.concatenate([model.predict(part, deterministic=True)[0] for part in seen])[place]

    return act


def evaluate_on_table(
    model: BaseAlgorithm, table: Table, *, episodes: int, rng: np.random.Generator, exact: bool = True
) -> Evaluation:
    """The mean over `episodes` episodes, and the expectation."""
    policy = key_policy(model, table)
    mean = sampled_return(table, policy, episodes, rng)
    if not exact:
        return Evaluation(mean, None)
    try:
        # GORP looks at nothing, so that what it might have seen need not be told apart
        world = table.mdp if isinstance(model, GORP) else table
        return Evaluation(mean, exact_return(world, _over_nodes(model, table, policy)))
    except WorkFailed:  # a policy with too many histories: the mean must do
        return Evaluation(mean, None)


def _over_nodes(model: BaseAlgorithm, table: Table, policy: KeyPolicy) -> Callable[[int, Nodes], np.ndarray]:
    A = table.mdp.num_actions

    def choose(t: int, nodes: Nodes) -> np.ndarray:
        if isinstance(model, GORP) and t >= len(model.policy.actions):
            return np.full((len(nodes.states), A), 1 / A)  # random play, in expectation too
        return policy(np.full(len(nodes.states), t), nodes.keys)

    return choose


def sampled_return(table: Table, policy: KeyPolicy, episodes: int, rng: np.random.Generator) -> float:
    """The mean total reward of so many episodes."""
    lanes = SeenLanes(table, episodes, rng)
    total, alive = np.zeros(episodes), np.ones(episodes, bool)
    while alive.any():
        actions = np.zeros(episodes, np.int64)
        actions[alive] = policy(lanes.t[alive], lanes.keys[alive])
        rewards, ends = lanes.step(actions)
        total += np.where(alive, rewards, 0.0)
        alive &= ~ends
        lanes.reset(~alive)  # the finished lanes idle somewhere
    return float(total.mean())


def evaluate_live(model: BaseAlgorithm, env: VecEnv, *, episodes: int, seed: int) -> Evaluation:
    """The mean over episodes of the live env, by its Monitor, so in the units of the game."""
    env.seed(seed)
    returns: Any
    returns, _ = evaluate_policy(
        model, env, n_eval_episodes=episodes, deterministic=True, warn=False, return_episode_rewards=True
    )
    return Evaluation(float(np.mean(returns, dtype=np.float64)), None)
