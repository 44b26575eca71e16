"""The policy of deep SQIRL for Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor, NatureCNN
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from sqirl.algorithms.networks import MiniGridCNN, Population, QNetwork
from sqirl.algorithms.sb3 import MAX_BATCH
from sqirl.algorithms.timed_policy import TimedPolicy
from sqirl.errors import SqirlError

#: Pixels below which NatureCNN's filters do not fit.
SMALLEST_FOR_NATURE = 36


class FrozenWeights(nn.Module):
    """The network's weights as they were at the end of each iteration: what acts at that timestep from then on.

    They travel in the module's state, so that saving and loading a policy keeps them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[th.Tensor] = []  # each (P, n)

    def __len__(self) -> int:
        return len(self.blocks)

    def append(self, block: th.Tensor) -> None:
        self.blocks.append(block.cpu())

    def get_extra_state(self) -> th.Tensor:
        return th.stack(self.blocks) if self.blocks else th.empty(0)

    def set_extra_state(self, state: th.Tensor) -> None:
        self.blocks = list(state.unbind())


class SQIRLPolicy(TimedPolicy):
    """One Q-network with k·A outputs, and its weights as they were frozen after each iteration.

    At a timestep whose iteration is over, the weights frozen then act; at the others the current ones. Weights have a leading
    population dimension of `population` members; the first of them acts.
    """

    def __init__(
        self,
        observation_space: gym.spaces.Space[Any],
        action_space: gym.spaces.Discrete,
        lr_schedule: Schedule,
        *,
        k: int = 1,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        net_arch: tuple[int, ...] | list[int] = (64, 64),
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        population: int = 1,
    ) -> None:
        kwargs = features_extractor_kwargs or {}
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        self.num_actions = int(action_space.n)

        def make() -> QNetwork:
            extractor = features_extractor_class(observation_space, **kwargs)
            return QNetwork(extractor, hidden=tuple(net_arch), k=k, num_actions=self.num_actions)

        self.networks = Population(make, population)
        self.frozen = FrozenWeights()
        self.optimizer = optimizer_class(
            self.networks.parameters(),
            lr=lr_schedule(1),  # type: ignore[call-arg]
            **self.optimizer_kwargs,
        )

    def preprocess(self, observations: th.Tensor) -> th.Tensor:
        """(n, …) observations as they come from the env → what the network takes."""
        if isinstance(self.observation_space, gym.spaces.Discrete):
            observations = observations - int(self.observation_space.start)  # Stable-Baselines3 assumes that start is 0
        ready = preprocess_obs(observations, self.observation_space, normalize_images=self.normalize_images)
        assert isinstance(ready, th.Tensor)
        if ready.ndim == 4 and ready.device.type == "cpu":
            ready = ready.contiguous(memory_format=th.channels_last)  # a quarter faster there
        return ready

    def freeze(self) -> None:
        """From now on the current weights act at the first timestep that is not frozen yet."""
        self.frozen.append(self.networks.snapshot())

    def act(self, t: NDArray[np.integer], observations: th.Tensor) -> NDArray[np.integer]:
        actions = np.empty(len(t), np.int64)
        generation = np.minimum(t, len(self.frozen))  # all later timesteps share the current weights
        for number in np.unique(generation).tolist():
            mine = np.flatnonzero(generation == number)
            actions[mine] = self.greedy(number, observations[th.as_tensor(mine, device=observations.device)])
        return actions

    @th.no_grad()
    def greedy(self, generation: int, observations: th.Tensor) -> NDArray[np.int64]:
        """(n,) argmax_a Q^k(s, a) by the weights frozen at that timestep, or by the current ones beyond the last."""
        weights = None
        if generation < len(self.frozen):
            weights = self.networks.unpack(self.frozen.blocks[generation].to(self.device))
        members = self.networks.size
        best = []
        for part in th.split(observations.to(self.device), MAX_BATCH):
            ready = self.preprocess(part)
            values = self.networks(ready[None].expand(members, *ready.shape), weights)
            best.append(values[0, :, -1].argmax(-1))
        return np.concatenate([actions.cpu().numpy() for actions in best])


class SQIRLCnnPolicy(SQIRLPolicy):
    """For images: NatureCNN, or MiniGridCNN if the image is too small for it; features go straight to the outputs."""

    def __init__(self, observation_space: Any, *args: Any, **kwargs: Any) -> None:
        if len(observation_space.shape or ()) != 3:
            raise SqirlError(f"CnnPolicy needs pictures, not {observation_space}; take MlpPolicy")
        extractor = NatureCNN if min(observation_space.shape[1:]) >= SMALLEST_FOR_NATURE else MiniGridCNN
        kwargs = {"features_extractor_class": extractor, "net_arch": (), **kwargs}
        super().__init__(observation_space, *args, **kwargs)
