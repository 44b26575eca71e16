"""A fifth algorithm, in one module: random search over sequences of actions.

Each iteration plays `tries` random sequences for a few episodes and keeps the best one seen so far. It is a Stable-Baselines3
algorithm because that is what a run trains, evaluates and saves.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sqirl.algorithms.gorp.algorithm import GORP
from sqirl.algorithms.gorp.policy import table_policy_of
from sqirl.algorithms.gorp.sequences import follow
from sqirl.algorithms.iterated import PlayEpisodes
from sqirl.algorithms.registry import register
from sqirl.algorithms.spec import AlgorithmSpec, Option, Options
from sqirl.envs.description import EnvDescription
from sqirl.evaluation.returns import TablePolicy
from sqirl.play.table import Table

EPISODES = 4


class RandomSearch(GORP):
    """`m` random sequences in each iteration; the best mean return of all iterations wins."""

    best_return = -np.inf

    def iterate(self, play: PlayEpisodes) -> bool:
        rng = self.generator(1)
        sequences = rng.integers(self.policy.num_actions, size=(self.m, self.horizon))
        plans = np.repeat(sequences, EPISODES, axis=0)
        episodes = play(follow(plans, self.policy.num_actions, rng), len(plans))
        if episodes is None:
            return False
        means = episodes.returns().reshape(self.m, EPISODES).mean(axis=1)
        if means.max() > self.best_return:
            self.best_return = float(means.max())
            self.policy.actions = th.as_tensor(sequences[means.argmax()])
        return True


class RandomSearchSpec(AlgorithmSpec):
    name: ClassVar[str] = "random-search"
    label: ClassVar[str] = "Random search"
    colour: ClassVar[str] = "#808000"
    dark_colour: ClassVar[str] = "#c0c040"
    options: ClassVar[tuple[Option, ...]] = (Option("tries", "sequences in each iteration", (5, 20), plural="tries"),)
    depends_on_budget: ClassVar[bool] = False

    def presets(self, env: EnvDescription) -> dict[str, int]:
        return {"tries": 10}

    def make_model(
        self, env: VecEnv, description: EnvDescription, options: Options, *, timesteps: int, seed: int, device: str
    ) -> BaseAlgorithm:
        return RandomSearch(env=env, m=options["tries"], seed=seed, device=device)

    def table_policy(self, model: Any, table: Table) -> TablePolicy:
        return table_policy_of(model.policy)

    def state(self, model: Any) -> dict[str, Any]:
        return {
            "steps": model.num_timesteps, "iteration": model.iteration, "best": model.best_return,
            "policy": model.policy.state_dict(), "rng": model.policy.rng.bit_generator.state,
        }  # fmt: skip

    def restore(self, model: Any, state: dict[str, Any]) -> None:
        model.num_timesteps, model.iteration, model.best_return = state["steps"], state["iteration"], state["best"]
        model.policy.load_state_dict(state["policy"])
        model.policy.rng.bit_generator.state = state["rng"]


RANDOM_SEARCH = register(RandomSearchSpec())
