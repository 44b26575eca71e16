"""How good a policy is: the paper's mean over episodes, and on a table the exact return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sqirl.errors import WorkFailed
from sqirl.evaluation.exact import NodePolicy, exact_return
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.sampling import KeyPolicy, sampled_return
from sqirl.play.table import Table

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True)
class TablePolicy:
    """A policy on a table: `act` for sampled episodes, `node_policy` for the exact return.

    `observes` is False for a policy that looks at nothing, such as a fixed sequence of actions: then situations with
    different observations need not be told apart.
    """

    act: KeyPolicy
    node_policy: NodePolicy
    observes: bool = True

    @classmethod
    def of_keys(cls, act: KeyPolicy) -> TablePolicy:
        """The policy that takes the action of `act` in every situation."""
        return cls(act, lambda t, nodes: act(np.full(len(nodes.states), t), nodes.keys))


@dataclass(frozen=True)
class Evaluation:
    """Returns in the units of the game; `exact` is None where there is no table, or where it would take too much memory."""

    mean: float
    exact: float | None


def evaluate_on_table(
    policy: TablePolicy, table: Table, *, episodes: int, rng: np.random.Generator, exact: bool = True
) -> Evaluation:
    """The mean return over `episodes` episodes and the expected return."""
    mean = sampled_return(table, policy.act, episodes, rng)
    if not exact:
        return Evaluation(mean, None)
    played: Table | TabularMDP = table if policy.observes else table.mdp
    try:
        return Evaluation(mean, exact_return(played, policy.node_policy))
    except WorkFailed:  # a policy with too many histories: the mean has to do
        return Evaluation(mean, None)


def evaluate_live(model: BaseAlgorithm, env: VecEnv, *, episodes: int, seed: int) -> Evaluation:
    """The mean over episodes of the live env as its Monitor reports them, so in the units of the game."""
    from stable_baselines3.common.evaluation import evaluate_policy

    env.seed(seed)
    returns: Any
    returns, _ = evaluate_policy(
        model, env, n_eval_episodes=episodes, deterministic=True, warn=False, return_episode_rewards=True
    )
    return Evaluation(float(np.mean(returns, dtype=np.float64)), None)
