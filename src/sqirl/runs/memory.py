"""How much memory a run will need, before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.errors import SqirlError
from sqirl.runtime.memory import available_memory

#: A run may plan to use this share of the memory that is free.
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


def memory_need(spec: AlgorithmSpec, model: BaseAlgorithm, timesteps: int) -> MemoryNeed:
    """What the run holds at its largest."""
    return MemoryNeed({"Python and torch": BASE_BYTES, **spec.memory(model, timesteps)})


def check_memory(spec: AlgorithmSpec, model: BaseAlgorithm, timesteps: int) -> MemoryNeed:
    """Refuse a run that cannot fit, with advice."""
    need, free = memory_need(spec, model, timesteps), available_memory()
    if free is not None and need.total > SHARE * free:
        raise SqirlError(
            f"this run would need {need}, but {free / 1e9:.1f} GB are free; take fewer --timesteps, "
            "build the game and play from its table, or use a machine with more memory"
        )
    return need
