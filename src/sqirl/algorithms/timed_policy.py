"""A policy that depends on the timestep, for Stable-Baselines3: the timestep travels in `state`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs

State = tuple[NDArray[Any], ...]


class TimedPolicy(BasePolicy):
    """A policy that depends on the timestep: `predict` counts it in `state`, and starts anew where an episode starts."""

    def predict(
        self,
        observation: NDArray[Any] | dict[str, NDArray[Any]],
        state: State | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], State | None]:
        """(actions, the state to pass in with the next observations)."""
        tensor, vectorized = self.obs_to_tensor(observation)
        assert isinstance(tensor, th.Tensor)
        t = np.zeros(len(tensor), np.int64) if state is None else np.array(state[0])
        if episode_start is not None:
            t[np.asarray(episode_start, bool)] = 0
        actions = self.act(t, tensor) + int(getattr(self.action_space, "start", 0))
        return (actions if vectorized else actions[0]), (t + 1,)

    def act(self, t: NDArray[np.integer], observations: th.Tensor) -> NDArray[np.integer]:
        """(n,) actions at the timesteps (n,)."""
        raise NotImplementedError

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        """At the first timestep, for callers that keep no time."""
        assert isinstance(observation, th.Tensor)
        return th.as_tensor(self.act(np.zeros(len(observation), np.int64), observation))
