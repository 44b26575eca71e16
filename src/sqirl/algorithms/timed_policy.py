"""A policy that depends on the timestep, for Stable-Baselines3: the timestep travels in `state`."""

from __future__ import annotations

import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs

State = tuple[np.ndarray, ...]


class TimedPolicy(BasePolicy):
    """A policy that depends on the timestep: `predict` counts it in `state`, and starts anew where an episode starts."""

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: State | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, State | None]:
        """(actions, the state to hand in with the next observations)."""
        tensor, vectorized = self.obs_to_tensor(observation)
        assert isinstance(tensor, th.Tensor)
        t = np.zeros(len(tensor), np.int64) if state is None else np.array(state[0])
        if episode_start is not None:
            t[np.asarray(episode_start, bool)] = 0
        actions = self.act(t, tensor) + int(getattr(self.action_space, "start", 0))
        return (actions if vectorized else actions[0]), (t + 1,)

    def act(self, t: np.ndarray, observations: th.Tensor) -> np.ndarray:
        """(n,) actions at the timesteps (n,)."""
        raise NotImplementedError

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        """At the first timestep, for callers that keep no time."""
        assert isinstance(observation, th.Tensor)
        return th.as_tensor(self.act(np.zeros(len(observation), np.int64), observation))
