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
from sqirl.algorithms.table_vec_env import TableVecEnv
from sqirl.errors import WorkFailed
from sqirl.mdp.files import write_atomically
from sqirl.results.records import Point


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
    state["chance"] = np.random.get_state(), th.get_rng_state(), model.action_space.np_random.bit_generator.state
    if model.device.type == "cuda":
        state["cuda_chance"] = th.cuda.get_rng_state(model.device)
    names = ["_n_updates", "_episode_num", "_last_obs", "_last_episode_starts", "_last_original_obs", "_n_calls"]
    names += ["_current_progress_remaining", "exploration_rate", "ep_info_buffer", "ep_success_buffer"]
    state["fields"] = {name: getattr(model, name) for name in names if hasattr(model, name)}
    if isinstance(model, DQN):
        state["target"] = model.q_net_target.state_dict()
        rows = ("keys", "next_keys", "actions", "rewards", "dones", "pos", "full")
        replay = model.replay_buffer
        if hasattr(replay, "keys"):  # over a table; pictures of live games are not kept
            state["replay"] = {name: getattr(replay, name) for name in rows}
    assert model.env is not None
    base = model.env.unwrapped
    if isinstance(base, TableVecEnv):
        lanes = base.lanes
        state["lanes"] = {
            "where": (lanes.states, lanes.executed, lanes.t, lanes.keys, lanes.rng.bit_generator.state),
            "env": (base.keys, base.acted_keys, base.last_keys, base._totals),
        }
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
        for name, value in state.get("replay", {}).items():
            setattr(model.replay_buffer, name, value)
    assert model.env is not None
    base = model.env.unwrapped
    if isinstance(base, TableVecEnv):
        lanes = base.lanes
        lanes.states, lanes.executed, lanes.t, lanes.keys, lanes.rng.bit_generator.state = state["lanes"]["where"]
        base.keys, base.acted_keys, base.last_keys, base._totals = state["lanes"]["env"]
    else:  # a live game starts its episodes anew
        state["fields"]["_last_obs"] = None
    for name, value in state["fields"].items():
        setattr(model, name, value)
    numpy_state, torch_state, action_state = state["chance"]
    np.random.set_state(numpy_state)
    th.set_rng_state(torch_state)
    if "cuda_chance" in state and model.device.type == "cuda":
        th.cuda.set_rng_state(state["cuda_chance"], model.device)
    model.action_space.np_random.bit_generator.state = action_state
