"""Checkpoints of whole runs: the model with all its chance, and the curve so far."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.checkpoints import PICKLE_PROTOCOL, learning_state, restore_learning
from sqirl.algorithms.gorp import GORP
from sqirl.algorithms.sqirl import SQIRL
from sqirl.algorithms.table_replay import TableReplayBuffer
from sqirl.algorithms.table_vec_env import TableVecEnv
from sqirl.errors import WorkFailed
from sqirl.mdp.files import write_atomically
from sqirl.results.records import Point

#: What PPO and DQN remember from one rollout to the next.
_FIELDS = (
    "_n_updates", "_episode_num", "_last_obs", "_last_episode_starts", "_last_original_obs", "_n_calls",
    "_current_progress_remaining", "exploration_rate", "ep_info_buffer", "ep_success_buffer",
)  # fmt: skip


def save(path: Path, model: BaseAlgorithm, curve: list[Point], seconds: float) -> None:
    """Write everything that the run goes on from, in one step."""
    state = {"curve": curve, "seconds": seconds, "model": _model_state(model)}
    write_atomically(path, lambda file: th.save(state, file, pickle_protocol=PICKLE_PROTOCOL))


def load(path: Path, model: BaseAlgorithm) -> tuple[list[Point], float]:
    """Bring a freshly made model to where the checkpoint was; (curve, seconds) so far."""
    try:
        state = th.load(path, map_location="cpu", weights_only=False)
        curve, seconds = list(state["curve"]), float(state["seconds"])
        _restore_model(model, state["model"])
    except (OSError, RuntimeError, LookupError, EOFError, TypeError, AttributeError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
        raise WorkFailed(
            f"the checkpoint '{path}' cannot be used ({reason}); remove it to start the run anew"
        ) from error
    except pickle.UnpicklingError as error:
        raise WorkFailed(f"'{path}' is not a checkpoint; remove it to start the run anew") from error
    return curve, seconds


def _model_state(model: BaseAlgorithm) -> dict[str, Any]:
    if isinstance(model, SQIRL):
        return learning_state(model)
    state: dict[str, Any] = {"num_timesteps": model.num_timesteps, "policy": model.policy.state_dict()}
    if isinstance(model, GORP):
        return {**state, "iteration": model.iteration, "rng": model.policy.rng.bit_generator.state}
    state["optimizer"] = model.policy.optimizer.state_dict()
    state["fields"] = {name: getattr(model, name) for name in _FIELDS if hasattr(model, name)}
    state["chance"] = _chance(model)
    if isinstance(model, DQN):
        state["target"] = model.q_net_target.state_dict()
        if isinstance(model.replay_buffer, TableReplayBuffer):  # pictures of live games are not kept
            state["replay"] = model.replay_buffer.state()
    assert model.env is not None
    if isinstance(model.env.unwrapped, TableVecEnv):
        state["env"] = model.env.unwrapped.state()
    return state


def _restore_model(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    if isinstance(model, SQIRL):
        restore_learning(model, state)
        return
    model.num_timesteps = state["num_timesteps"]
    model.policy.load_state_dict(state["policy"])
    if isinstance(model, GORP):
        model.iteration = state["iteration"]
        model.policy.rng.bit_generator.state = state["rng"]
        return
    model.policy.optimizer.load_state_dict(state["optimizer"])
    if isinstance(model, DQN):
        model.q_net_target.load_state_dict(state["target"])
        if isinstance(model.replay_buffer, TableReplayBuffer):
            model.replay_buffer.restore(state["replay"])
    assert model.env is not None
    if isinstance(model.env.unwrapped, TableVecEnv):
        model.env.unwrapped.restore(state["env"])
    else:  # a live game starts its episodes anew
        state["fields"]["_last_obs"] = None
    for name, value in state["fields"].items():
        setattr(model, name, value)
    _restore_chance(model, state["chance"])


def _chance(model: BaseAlgorithm) -> dict[str, Any]:
    """The states of all generators that Stable-Baselines3 draws from."""
    states = {"numpy": np.random.get_state(), "torch": th.get_rng_state()}
    if model.device.type == "cuda":
        states["cuda"] = th.cuda.get_rng_state(model.device)
    return {**states, "actions": model.action_space.np_random.bit_generator.state}


def _restore_chance(model: BaseAlgorithm, states: dict[str, Any]) -> None:
    np.random.set_state(states["numpy"])
    th.set_rng_state(states["torch"])
    if "cuda" in states and model.device.type == "cuda":
        th.cuda.set_rng_state(states["cuda"], model.device)
    model.action_space.np_random.bit_generator.state = states["actions"]
