"""A minibatch for each of P members, and the state and settings of their gradient steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch as th

from sqirl.algorithms.sqirl.hyperparameters import PAPER

#: (P, B, outputs) of the members' networks -> (P,) their losses.
Loss = Callable[[th.Tensor], th.Tensor]


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """B samples (s, a, s', r, y) for each of P members, with keys in the place of observations.

    The rows of `keys` are those of s and then, if they are needed, those of s': R = B or 2·B rows.
    """

    keys: th.Tensor  # (P, R, K) int32
    actions: th.Tensor  # (P, B) int32
    rewards: th.Tensor  # (P, B) float32
    returns: th.Tensor  # (P, B) float32: y, the reward-to-go
    goes_on: th.Tensor  # (P, B) float32: 0 where s' is the end

    @staticmethod
    def empty(members: int, size: int, *, key_length: int, with_next: bool, device: th.device | str) -> DeviceBatch:
        shape = (members, size)
        return DeviceBatch(
            th.zeros(members, size * (1 + with_next), key_length, dtype=th.int32, device=device),
            th.zeros(shape, dtype=th.int32, device=device),
            *(th.zeros(shape, device=device) for _ in range(3)),
        )

    @property
    def size(self) -> int:
        """B."""
        return self.actions.shape[1]


@dataclass(frozen=True)
class Heads:
    """The outputs of a population's networks: Q^1..Q^k for A actions, k being the largest of the members'.

    A member with a smaller k has outputs that are neither trained nor read: `Learner.k` holds the k of each member.
    """

    k: int
    num_actions: int

    @property
    def num_outputs(self) -> int:
        return self.k * self.num_actions


@dataclass(frozen=True)
class AdamSettings:
    """The arguments of torch.optim.Adam; `max_norm` limits the norm of each member's gradient (None: no limit)."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    max_norm: float | None = None


@dataclass(frozen=True)
class LossSettings:
    """The discount, and how slowly the average of each loss forgets."""

    gamma: float = 1.0
    smoothing: float = PAPER.loss_smoothing


@dataclass(eq=False)
class Learner:
    """What gradient steps change, for P members: weights, Adam's moments, averages of losses, and counts.

    Members whose `running` is 0 are not changed by a gradient step.
    """

    flat: th.Tensor  # (P, n) float32 weights
    first: th.Tensor  # (P, n) Adam's average of gradients
    second: th.Tensor  # (P, n) Adam's average of their squares
    averages: th.Tensor  # (P, k) of the losses, with the bias of their start at zero
    losses: th.Tensor  # (P, k) of the last step
    steps: th.Tensor  # (P,) int64: gradient steps so far
    average_steps: th.Tensor  # (P,) int64: losses averaged so far
    running: th.Tensor  # (P,) int32
    rates: th.Tensor  # (P,) float32: learning rates
    k: th.Tensor  # (P,) int32: heads in use

    @staticmethod
    def start(flat: th.Tensor, heads: Heads | None = None, *, rate: float, k: list[int] | None = None) -> Learner:
        """The state before the first step. PPO and DQN have no heads."""
        members, device, largest = len(flat), flat.device, heads.k if heads is not None else 1
        steps = th.zeros(members, dtype=th.int64, device=device)
        return Learner(
            flat, th.zeros_like(flat), th.zeros_like(flat),
            th.zeros(members, largest, device=device), th.zeros(members, largest, device=device),
            steps, steps.clone(),
            th.ones(members, dtype=th.int32, device=device), th.full((members,), rate, device=device),
            th.tensor(k or [largest] * members, dtype=th.int32, device=device),
        )  # fmt: skip

    def tensors(self) -> list[th.Tensor]:
        """What a gradient step changes."""
        return [
            self.flat, self.first, self.second, self.averages, self.losses, self.steps, self.average_steps,
        ]  # fmt: skip
