"""Checkpoints of deep SQIRL: the whole state of learning between two iterations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqirl.algorithms.checkpoints import read_checkpoint, write_checkpoint
from sqirl.errors import SqirlError
from sqirl.play.live import LivePlayer

if TYPE_CHECKING:
    from sqirl.algorithms.sqirl.algorithm import SQIRL


def save_checkpoint(model: SQIRL, path: Path) -> None:
    write_checkpoint(path, learning_state(model))


def load_checkpoint(model: SQIRL, path: Path) -> None:
    state = read_checkpoint(path)
    identity = state["identity"] if isinstance(state, dict) and isinstance(state.get("identity"), dict) else {}
    for name, value in _identity(model).items():
        if identity.get(name) != value:
            raise SqirlError(f"'{path}' is of a run with {name} = {identity.get(name)}, not {value}")
    restore_learning(model, state)


def learning_state(model: SQIRL) -> dict[str, Any]:
    """Everything needed to resume."""
    player = model.player
    return {
        "identity": _identity(model),
        "iteration": model.iteration,
        "num_timesteps": model.num_timesteps,
        "n_updates": model.n_updates,
        "policy": model.policy.state_dict(),
        "optimizer": model.policy.optimizer.state_dict(),
        "averages": (model.averages.mean, model.averages.count),
        "replay": model.replay.state(),
        "frames": player.memory.state() if isinstance(player, LivePlayer) else None,
    }


def restore_learning(model: SQIRL, state: dict[str, Any]) -> None:
    model.reset_learning()
    model.iteration, model.num_timesteps = state["iteration"], state["num_timesteps"]
    model.n_updates = state["n_updates"]
    model.policy.load_state_dict(state["policy"])
    model.policy.optimizer.load_state_dict(state["optimizer"])
    mean, model.averages.count = state["averages"]
    model.averages.mean = mean.to(model.device)
    model.replay.restore(state["replay"])
    if isinstance(model.player, LivePlayer):
        model.player.memory.restore(state["frames"])


def _identity(model: SQIRL) -> dict[str, Any]:
    """What two runs must share for one to resume from the other."""
    names = ("k", "m", "horizon", "gamma", "seed", "buffer_size", "batch_size", "n_epochs", "learning_rate")
    shapes = {"observations": str(model.observation_space), "actions": str(model.action_space)}
    return {**{name: getattr(model, name) for name in names}, **shapes}
