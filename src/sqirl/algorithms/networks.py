"""Networks: feature extractors as Stable-Baselines3 takes them, and a population of Q-networks as one module.

A population holds P networks of one architecture, their weights stacked along a leading dimension. The gradient step of deep
SQIRL (`sqirl/gradient_step.py`) works on populations; one run is a population of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch as th
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn
from torch.func import functional_call, stack_module_state

Weights = dict[str, th.Tensor]

#: MiniGrid's codes: kinds of objects, colours, and states or directions.
_OBJECTS, _COLOURS, _STATES = 11, 6, 4


class MiniGridCNN(BaseFeaturesExtractor):
    """A small CNN for MiniGrid's grids: codes as one-hot planes, the time as one more, two convolutions, one dense layer."""

    codes: th.Tensor

    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 256) -> None:
        super().__init__(observation_space, features_dim)
        _, width, height = observation_space.shape
        self.register_buffer("codes", th.arange(max(_OBJECTS, _COLOURS, _STATES)), persistent=False)
        self.convolutions = nn.Sequential(
            nn.Conv2d(_OBJECTS + _COLOURS + _STATES + 1, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        size = 64 * -(-width // 2) * -(-height // 2)
        self.dense = nn.Sequential(nn.Linear(size, features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """(B, 4, W, H) in [0, 1], as Stable-Baselines3 scales images → (B, features_dim)."""
        codes = (255 * observations[:, :3]).round()
        planes = [
            (codes[:, plane, None] == self.codes[:count, None, None]).to(observations.dtype)
            for plane, count in enumerate((_OBJECTS, _COLOURS, _STATES))
        ]
        features: th.Tensor = self.dense(self.convolutions(th.cat([*planes, observations[:, 3:]], dim=1)))
        return features


class MiniGridPaperCNN(BaseFeaturesExtractor):
    """The network of the authors' code for MiniGrid: three convolutions of 2×2 over codes divided by 255, one dense layer.

    A grid with a side below 4 is padded with zeros to 4, so that the third convolution fits.
    """

    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 512) -> None:
        super().__init__(observation_space, features_dim)
        planes, width, height = observation_space.shape
        wide, high = max(width, 4), max(height, 4)
        self.convolutions = nn.Sequential(
            nn.ZeroPad2d((0, high - height, 0, wide - width)), nn.Conv2d(planes, 16, 2), nn.ReLU(),
            nn.Conv2d(16, 32, 2), nn.ReLU(), nn.Conv2d(32, 64, 2), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.dense = nn.Sequential(nn.Linear(64 * (wide - 3) * (high - 3), features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """(B, 4, W, H) codes and time, divided by 255 by Stable-Baselines3 → (B, features_dim)."""
        features: th.Tensor = self.dense(self.convolutions(observations))
        return features


class ImpalaCNN(BaseFeaturesExtractor):
    """The residual network of IMPALA: three sections of 16, 32 and 32 channels, two residual blocks each, one dense layer."""

    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 256) -> None:
        super().__init__(observation_space, features_dim)
        channels, height, width = observation_space.shape
        sections: list[nn.Module] = []
        for wider in (16, 32, 32):
            sections += [nn.Conv2d(channels, wider, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            sections += [Residual(wider), Residual(wider)]
            channels, height, width = wider, -(-height // 2), -(-width // 2)
        self.sections = nn.Sequential(*sections, nn.ReLU(), nn.Flatten())
        self.dense = nn.Sequential(nn.Linear(channels * height * width, features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        features: th.Tensor = self.dense(self.sections(observations))
        return features


class ImpalaPaperCNN(ImpalaCNN):
    """IMPALA as in the authors' code: no ReLU on its features, on which dense layers with ReLU follow."""

    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 256) -> None:
        super().__init__(observation_space, features_dim)
        self.dense = nn.Sequential(self.dense[0])


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: th.Tensor) -> th.Tensor:
        result: th.Tensor = x + self.block(x)
        return result


def policy_arguments(network: str, *, actor_critic: bool = False) -> dict[str, Any]:
    """`policy` and `policy_kwargs` of a network's name, for Stable-Baselines3's algorithms and ours.

    Our networks for images are linear on their features. By default Stable-Baselines3 puts two layers of 64 on the features of
    a network that is not its own, with tanh for PPO. The features of IMPALA are so large at first that most of these units
    are saturated, and PPO then takes the same action in every state. The networks of the variant PAPER have dense layers
    with ReLU, as the authors' code has them.

    :param actor_critic: for PPO, whose policy and value have dense layers of their own
    """
    if network == "mlp":
        return {"policy": "MlpPolicy"}
    # The feature extractor, and the dense layers between the features and the outputs
    networks: dict[str, tuple[type[BaseFeaturesExtractor], list[int]]] = {
        "minigrid": (MiniGridCNN, []),
        "minigrid-paper": (MiniGridPaperCNN, [64, 64]),
        "impala": (ImpalaCNN, []),
        "impala-paper": (ImpalaPaperCNN, [256, 256]),
    }
    if network not in networks:
        return {"policy": "CnnPolicy"}
    extractor, hidden = networks[network]
    kwargs: dict[str, Any] = {"features_extractor_class": extractor, "net_arch": hidden}
    if hidden and actor_critic:
        kwargs |= {"net_arch": {"pi": hidden, "vf": hidden}, "activation_fn": nn.ReLU}
    return {"policy": "CnnPolicy", "policy_kwargs": kwargs}


class QNetwork(nn.Module):
    """Q^1..Q^k for every action: (B, …) preprocessed observations → (B, k, A)."""

    def __init__(self, extractor: BaseFeaturesExtractor, *, hidden: tuple[int, ...], k: int, num_actions: int) -> None:
        super().__init__()
        self.k, self.num_actions = k, num_actions
        sizes = [extractor.features_dim, *hidden]
        dense = [layer for a, b in zip(sizes, hidden, strict=False) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.layers = nn.Sequential(extractor, *dense, nn.Linear(sizes[-1], k * num_actions))

    def forward(self, observations: th.Tensor) -> th.Tensor:
        body, head = self.layers[:-1], self.layers[-1]
        assert isinstance(body, nn.Sequential) and isinstance(head, nn.Linear)
        for layer in body:
            observations = layer(observations)
        # The head may be in float32 where the rest is in bfloat16: the values of two actions often differ in the third digit
        values: th.Tensor = head(observations.to(head.weight.dtype))
        return values.view(-1, self.k, self.num_actions)


class Population(nn.Module):
    """P networks made by `make`, stacked; calling it evaluates all of them, each on observations of its own."""

    def __init__(self, make: Callable[[], nn.Module], size: int = 1) -> None:
        super().__init__()
        members = [make() for _ in range(size)]
        weights, buffers = stack_module_state(members)
        self.size = size
        # The architecture without weights of its own; in a tuple, so that it is no submodule
        self._shape: tuple[Any] = (members[0].to("meta"),)
        self.names = list(weights)
        self.stacked = nn.ParameterList([nn.Parameter(w.detach()) for w in weights.values()])
        self._buffer_names = list(buffers)
        for place, buffer in enumerate(buffers.values()):
            self.register_buffer(f"constant_{place}", buffer, persistent=False)

    @property
    def member(self) -> nn.Module:
        """The network without weights of its own, for `functional_call`."""
        network: nn.Module = self._shape[0]
        return network

    @property
    def weights(self) -> Weights:
        return dict(zip(self.names, self.stacked, strict=True))

    def forward(self, observations: th.Tensor, weights: Weights | None = None) -> th.Tensor:
        """(P, B, …) → (P, B, …), with the population's own weights or those given, which have the same shapes."""
        constants = {name: getattr(self, f"constant_{place}") for place, name in enumerate(self._buffer_names)}
        state = {**(self.weights if weights is None else weights), **constants}
        if self.size == 1:  # a population of one needs no batching rule, and convolutions are faster without
            single = {name: tensor[0] for name, tensor in state.items()}
            alone: th.Tensor = functional_call(self._shape[0], single, (observations[0],))
            return alone[None]

        def one(member: Weights, x: th.Tensor) -> th.Tensor:
            values: th.Tensor = functional_call(self._shape[0], member, (x,))
            return values

        together: th.Tensor = th.vmap(one)(state, observations)
        return together

    def snapshot(self) -> th.Tensor:
        """(P, n) all weights as one block."""
        return th.cat([w.detach().reshape(self.size, -1) for w in self.stacked], dim=1)

    def unpack(self, block: th.Tensor) -> Weights:
        """The inverse of `snapshot`, as views."""
        sizes = [w[0].numel() for w in self.stacked]
        parts = th.split(block, sizes, dim=1)
        return {n: part.view_as(w) for n, part, w in zip(self.names, parts, self.stacked, strict=True)}
