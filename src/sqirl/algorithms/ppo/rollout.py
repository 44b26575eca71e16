"""PPO's rollout buffer on a device: pictures, actions, values and the rest of every step, and minibatches of them by index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer


@dataclass(frozen=True, eq=False)
class Minibatch:
    """B steps; all tensors are on the device."""

    observations: th.Tensor  # (B, C, H, W) bytes
    actions: th.Tensor  # (B,) int64
    log_probs: th.Tensor  # (B,) when they were taken
    advantages: th.Tensor  # (B,)
    returns: th.Tensor  # (B,) the targets of values


class DeviceRollout(RolloutBuffer):
    """T steps of N envs as T·N rows: row t·N + n is step t of env n.

    Rewards and starts of episodes come from the envs, so they are on the CPU, and advantages are computed there by
    Stable-Baselines3. `step` is the number of the next step, on the device: a CUDA graph writes where it points.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._on_device: dict[str, th.Tensor] | None = None
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        shape = self.buffer_size, self.n_envs
        self.rewards, self.episode_starts = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.advantages = np.zeros(shape, np.float32)
        if self._on_device is None:
            self._allocate()
        self.step.zero_()
        self.pos, self.full = 0, False

    def _allocate(self) -> None:
        shape = self.buffer_size, self.n_envs
        numbers = {
            name: th.zeros(shape, device=self.device) for name in ("values", "log_probs", "advantages", "returns")
        }
        seen = th.zeros((*shape, *self.obs_shape), dtype=th.uint8, device=self.device)
        actions = th.zeros(shape, dtype=th.int64, device=self.device)
        self._on_device = {"observations": seen, "actions": actions, **numbers}
        self.step = th.zeros(1, dtype=th.int64, device=self.device)

    @property
    def stored(self) -> dict[str, th.Tensor]:
        """(T, N, …) tensors on the device, by name."""
        assert self._on_device is not None
        return self._on_device

    def write(self, **columns: th.Tensor) -> None:
        """What is known when the actions of the next step are chosen, (N, …) each; only the device does this."""
        for name, values in columns.items():
            self.stored[name].index_copy_(0, self.step, values[None])
        self.step.add_(1).remainder_(self.buffer_size)

    def outcome(self, rewards: NDArray[Any], episode_starts: NDArray[Any]) -> None:
        """The rewards of the step, and whether its observations were the first of an episode."""
        self.rewards[self.pos], self.episode_starts[self.pos] = rewards, episode_starts
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def compute_returns_and_advantage(self, last_values: th.Tensor, dones: NDArray[Any]) -> None:
        self.values = self.stored["values"].cpu().numpy()
        super().compute_returns_and_advantage(last_values, dones)
        for name in ("advantages", "returns"):
            self.stored[name].copy_(th.from_numpy(getattr(self, name)))

    def shuffled(self) -> NDArray[np.int64]:
        """(T·N,) the rows in the random order in which Stable-Baselines3 goes through them: it counts env by env."""
        order = np.random.permutation(self.buffer_size * self.n_envs)  # noqa: NPY002
        return order % self.buffer_size * self.n_envs + order // self.buffer_size

    def minibatch(self, rows: th.Tensor) -> Minibatch:
        names = ("observations", "actions", "log_probs", "advantages", "returns")
        return Minibatch(*(self.stored[name].flatten(0, 1).index_select(0, rows) for name in names))
