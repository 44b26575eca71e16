"""What the specs of Stable-Baselines3's own algorithms share: their policy on a table, and their checkpoint."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import HumanOutputFormat, Logger

from sqirl.evaluation.returns import TablePolicy
from sqirl.mdp.arrays import distinct_rows
from sqirl.play.table import Table
from sqirl.play.vec_env import TableVecEnv

#: Observations that a network evaluates at a time.
MAX_BATCH = 1024

#: Attributes of PPO and DQN that last from one rollout to the next.
_FIELDS = (
    "_n_updates", "_episode_num", "_last_obs", "_last_episode_starts", "_last_original_obs", "_n_calls",
    "_current_progress_remaining", "exploration_rate", "ep_info_buffer", "ep_success_buffer",
)  # fmt: skip


def quiet_logger(verbose: int = 0) -> Logger:
    """A logger that leaves no folder in /tmp, as the default one of Stable-Baselines3 does; if verbose, it prints."""
    return Logger(folder=None, output_formats=[HumanOutputFormat(sys.stdout)] if verbose else [])


def channels_last_on_cpu(model: BaseAlgorithm) -> BaseAlgorithm:
    """The model with its weights in the memory layout that is a quarter faster on a CPU."""
    if model.device.type == "cpu":
        model.policy.to(memory_format=th.channels_last)  # type: ignore[call-overload]
    return model


def predicting_policy(model: BaseAlgorithm, table: Table) -> TablePolicy:
    """`model.predict` over keys; equal observations are evaluated once."""

    def act(t: NDArray[np.integer], keys: NDArray[np.int32]) -> NDArray[np.integer]:
        distinct, _, place = distinct_rows(keys)
        parts = range(0, len(distinct), MAX_BATCH)
        seen = (table.observations(distinct[first : first + MAX_BATCH]) for first in parts)
        actions: NDArray[np.integer] = np.concatenate([model.predict(part, deterministic=True)[0] for part in seen])[
            place
        ]
        return actions

    return TablePolicy.of_keys(act)


def plays_table(model: BaseAlgorithm) -> bool:
    return model.env is not None and isinstance(model.env.unwrapped, TableVecEnv)


def bytes_of_observation(model: BaseAlgorithm) -> int:
    space = model.observation_space
    return int(np.prod(space.shape or (1,))) * np.dtype(space.dtype or np.uint8).itemsize


def model_state(model: BaseAlgorithm) -> dict[str, Any]:
    """Policy, optimizer, counters, random generators, and the lanes of a table."""
    state: dict[str, Any] = {
        "num_timesteps": model.num_timesteps,
        "policy": model.policy.state_dict(),
        "optimizer": model.policy.optimizer.state_dict(),
        "fields": {name: getattr(model, name) for name in _FIELDS if hasattr(model, name)},
        "rng": _generators(model),
    }
    assert model.env is not None
    if isinstance(model.env.unwrapped, TableVecEnv):
        state["env"] = model.env.unwrapped.state()
    return state


def restore_model(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    model.num_timesteps = state["num_timesteps"]
    model.policy.load_state_dict(state["policy"])
    model.policy.optimizer.load_state_dict(state["optimizer"])
    assert model.env is not None
    fields = dict(state["fields"])
    if isinstance(model.env.unwrapped, TableVecEnv):
        model.env.unwrapped.restore(state["env"])
    else:  # a live game cannot be put back: it starts new episodes
        fields["_last_obs"] = None
    for name, value in fields.items():
        setattr(model, name, value)
    _restore_generators(model, state["rng"])


def _generators(model: BaseAlgorithm) -> dict[str, Any]:
    """The states of all generators that Stable-Baselines3 draws from."""
    states = {"numpy": np.random.get_state(), "torch": th.get_rng_state()}
    if model.device.type == "cuda":
        states["cuda"] = th.cuda.get_rng_state(model.device)
    return {**states, "actions": model.action_space.np_random.bit_generator.state}


def _restore_generators(model: BaseAlgorithm, states: dict[str, Any]) -> None:
    np.random.set_state(states["numpy"])
    th.set_rng_state(states["torch"])
    if "cuda" in states and model.device.type == "cuda":
        th.cuda.set_rng_state(states["cuda"], model.device)
    model.action_space.np_random.bit_generator.state = states["actions"]
