"""How much memory a run will need, before it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.sources import frames_kept, frames_stacked
from sqirl.algorithms.sqirl import SQIRL
from sqirl.algorithms.table_vec_env import TableVecEnv
from sqirl.errors import SqirlError

#: Of the memory that is free, a run may plan to use this share.
SHARE = 0.9
#: What Python, torch and the emulators take before anything is learned.
BASE_BYTES = 500 << 20


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes, by what takes them."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in self.parts.items() if size > 5e7)
        return f"{self.total / 1e9:.1f} GB ({listed})"


def memory_need(model: BaseAlgorithm, timesteps: int) -> MemoryNeed:
    """What the run holds at its largest: buffer, frames, frozen networks."""
    assert model.env is not None
    space = model.observation_space
    picture = int(np.prod(space.shape or (1,))) * np.dtype(space.dtype or np.uint8).itemsize
    on_table = isinstance(model.env.unwrapped, TableVecEnv)
    parts = {"Python and torch": BASE_BYTES}
    if isinstance(model, SQIRL):
        rows = min(model.buffer_size, timesteps)
        parts["transitions"] = 2 * rows * 60  # twice: a buffer that grows is copied
        if not on_table:
            parts["frames"] = frames_kept(rows) * picture // frames_stacked(model.env)
        block = 4 * sum(p.numel() for p in model.policy.parameters())
        parts["frozen networks"] = block * most_iterations(model, timesteps)
        parts["gradients and optimizer"] = 3 * block
    elif (rollout := getattr(model, "n_steps", None)) is not None:
        parts["rollout"] = rollout * model.env.num_envs * picture * 2
    elif hasattr(model, "replay_buffer"):
        parts["replay"] = 0 if on_table else 2 * picture * min(model.buffer_size, timesteps)  # type: ignore[attr-defined]
    return MemoryNeed(parts)


def most_iterations(model: SQIRL, timesteps: int) -> int:
    """Iterations that the budget allows at most; without a horizon, with episodes of a thousand steps."""
    if model.horizon is not None:
        return model.horizon
    return max(1, timesteps // (model.m * 1000))


def available_memory() -> int:
    """Bytes that are free now, as far as the system tells."""
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def check_memory(model: BaseAlgorithm, timesteps: int) -> MemoryNeed:
    """Refuse a run that cannot fit, with advice."""
    need, free = memory_need(model, timesteps), available_memory()
    if need.total > SHARE * free:
        raise SqirlError(
            f"this run would need {need}, but {free / 1e9:.1f} GB are free; take fewer --timesteps, "
            "build the game and play from its table, or use a machine with more memory"
        )
    return need
