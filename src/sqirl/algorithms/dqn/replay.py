"""DQN's replay buffer over a table: keys of observations, which become pictures only when they are sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sqirl.play.vec_env import TableVecEnv

_KEPT = ("keys", "next_keys", "actions", "rewards", "dones", "pos", "full")


def replay_arguments(env: VecEnv) -> dict[str, Any]:
    """The arguments that make DQN use this buffer, if the env plays a table."""
    base = env.unwrapped
    if not isinstance(base, TableVecEnv):
        return {}
    return {"replay_buffer_class": TableReplayBuffer, "replay_buffer_kwargs": {"env": base}}


class TableReplayBuffer(BaseBuffer):
    """As Stable-Baselines3's `ReplayBuffer`, with a few bytes for each observation."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        env: TableVecEnv,
    ) -> None:
        super().__init__(max(buffer_size // n_envs, 1), observation_space, action_space, device, n_envs)
        self.table, self._env = env.table, env
        shape = (self.buffer_size, n_envs)
        self.keys = np.zeros((*shape, env.table.key_length), np.int32)
        self.next_keys = np.zeros_like(self.keys)
        self.actions, self.rewards = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        self.dones = np.zeros(shape, np.float32)

    def add(
        self, obs: Any, next_obs: Any, action: NDArray[Any], reward: NDArray[Any], done: NDArray[Any], infos: Any
    ) -> None:
        """The pictures are ignored: the env knows their keys. Like Stable-Baselines3, a truncated episode counts as going on."""
        env = self._env
        self.keys[self.pos], self.next_keys[self.pos] = env.acted_keys, env.last_keys
        self.actions[self.pos], self.rewards[self.pos] = np.asarray(action).reshape(-1), reward
        truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        self.dones[self.pos] = np.asarray(done, bool) & ~truncated
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {name: getattr(self, name) for name in _KEPT}

    def restore(self, state: dict[str, Any]) -> None:
        for name in _KEPT:
            setattr(self, name, state[name])

    def _get_samples(self, batch_inds: NDArray[np.integer], env: VecNormalize | None = None) -> ReplayBufferSamples:
        # Stable-Baselines3 draws `batch_inds` and the lanes of its own buffer from numpy's global generator, which it seeds with
        # the seed of the model; a draw from another generator would make another run of the same seed
        lanes = np.random.randint(0, self.n_envs, size=len(batch_inds))
        at = batch_inds, lanes
        return ReplayBufferSamples(
            self._pictures(self.keys[at]),
            self.to_torch(self.actions[at][:, None]),
            self._pictures(self.next_keys[at]),
            self.to_torch(self.dones[at][:, None]),
            self.to_torch(self.rewards[at][:, None]),
        )

    def _pictures(self, keys: NDArray[np.int32]) -> th.Tensor:
        """Channels first, as Stable-Baselines3 passes images to networks."""
        return self.to_torch(np.moveaxis(self.table.observations(keys), -1, 1), copy=False)
