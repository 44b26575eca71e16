"""Checkpoints of deep SQIRL: the whole state of learning between two iterations, written in one step."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch as th

from sqirl.algorithms.sources import LiveSource
from sqirl.errors import SqirlError
from sqirl.mdp.files import write_atomically

if TYPE_CHECKING:
    from sqirl.algorithms.sqirl import SQIRL

#: A file, or something to write to and read from.
Target = Path | io.BytesIO


def save_checkpoint(model: SQIRL, target: Target) -> None:
    source = model.source
    state: dict[str, Any] = {
        "identity": _identity(model),
        "iteration": model.iteration,
        "num_timesteps": model.num_timesteps,
        "n_updates": model.n_updates,
        "policy": model.policy.state_dict(),
        "optimizer": model.policy.optimizer.state_dict(),
        "averages": (model.averages.mean, model.averages.count),
        "replay": model.replay.state(),
        "frames": source.memory.state() if isinstance(source, LiveSource) else None,
    }
    buffer = io.BytesIO() if isinstance(target, Path) else target
    th.save(state, buffer)
    if isinstance(target, Path):
        write_atomically(target, buffer.getvalue())


def load_checkpoint(model: SQIRL, target: Target) -> None:
    name_of = f"'{target}'" if isinstance(target, Path) else "the checkpoint"
    try:
        state = th.load(target, map_location=model.device, weights_only=False)
        identity = state["identity"]
    except Exception as error:
        raise SqirlError(f"{name_of} is not a checkpoint: {str(error).splitlines()[0]}") from error
    for name, value in _identity(model).items():
        if identity.get(name) != value:
            raise SqirlError(f"{name_of} is of a run with {name} = {identity.get(name)}, not {value}")
    model.iteration, model.num_timesteps = state["iteration"], state["num_timesteps"]
    model.n_updates = state["n_updates"]
    model.policy.load_state_dict(state["policy"])
    model.policy.optimizer.load_state_dict(state["optimizer"])
    model.averages.mean, model.averages.count = state["averages"]
    model.replay.restore(state["replay"])
    if isinstance(model.source, LiveSource):
        model.source.memory.restore(state["frames"])


def _identity(model: SQIRL) -> dict[str, Any]:
    """What two runs must share for one to go on from the other."""
    names = ("k", "m", "horizon", "gamma", "seed", "buffer_size", "batch_size", "n_epochs", "learning_rate")
    shapes = {"observations": str(model.observation_space), "actions": str(model.action_space)}
    return {**{name: getattr(model, name) for name in names}, **shapes}
