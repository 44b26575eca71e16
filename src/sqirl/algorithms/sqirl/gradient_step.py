"""The training step of deep SQIRL, over a leading population dimension P: targets, losses and the gradient step.

A minibatch drawn from a table holds many equal observations. Each distinct one is evaluated once and its values are used for
all samples that share it: the same gradient for less work.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch as th

from sqirl.algorithms.networks import Population
from sqirl.algorithms.sqirl.hyperparameters import LEAST_LOSS


@dataclass(frozen=True, eq=False)
class Batch:
    """B samples (s, a, s', r, y) for each of P members.

    The observations are U distinct ones, of which the first `learned` are those of some s, and the others only of some s'.
    """

    observations: th.Tensor  # (P, U, …)
    learned: int
    place: th.Tensor  # (P, B) int64: which observation is s
    next_place: th.Tensor  # (P, B) int64: which is s'; anything where the episode is over
    continues: th.Tensor  # (P, B) float: 0 where s' is the end
    actions: th.Tensor  # (P, B) int64
    rewards: th.Tensor  # (P, B)
    returns: th.Tensor  # (P, B) y, the reward-to-go


@dataclass(eq=False)
class LossAverages:
    """The exponentially weighted average of each of the k losses of each member."""

    smoothing: float
    mean: th.Tensor  # (P, k)
    count: int = 0

    def update(self, losses: th.Tensor) -> th.Tensor:
        """(P, k) the averages, the newest losses included, without the bias of their start at zero."""
        self.count += 1
        self.mean = self.smoothing * self.mean + (1 - self.smoothing) * losses.detach()
        return self.mean / (1 - self.smoothing**self.count)


def q_values(population: Population, batch: Batch) -> tuple[th.Tensor, th.Tensor]:
    """(P, learned, k, A) Q of the observations to learn, and (P, U, k, A) Q of all of them, without gradient."""
    learned = population(batch.observations[:, : batch.learned])
    if batch.observations.shape[1] == batch.learned:
        return learned, learned.detach()
    with th.no_grad():
        others = population(batch.observations[:, batch.learned :])
    return learned, th.cat([learned.detach(), others], dim=1)


def targets(batch: Batch, q: th.Tensor, gamma: float) -> th.Tensor:
    """(P, B, k): y for Q^1, and r + γ max_a Q^{j-1}(s', a) for Q^j, by the current network (there is no target network)."""
    best = q[:, :, :-1].amax(dim=-1)  # (P, U, k - 1)
    ahead = th.gather(best, 1, batch.next_place[..., None].expand(-1, -1, best.shape[-1]))
    bootstrapped = batch.rewards[..., None] + gamma * batch.continues[..., None] * ahead
    return th.cat([batch.returns[..., None], bootstrapped], dim=-1)


def losses(batch: Batch, population: Population, gamma: float) -> th.Tensor:
    """(P, k) the mean squared error of each of Q^1..Q^k."""
    learned, everything = q_values(population, batch)
    member = th.arange(len(learned), device=learned.device)[:, None]
    predicted = learned[member, batch.place, :, batch.actions]  # (P, B, k)
    return (predicted - targets(batch, everything, gamma)).square().mean(dim=1)


def gradient_step(
    population: Population, optimizer: th.optim.Optimizer, averages: LossAverages, batch: Batch, gamma: float,
    max_grad_norm: float | None = None,
) -> th.Tensor:  # fmt: skip
    """One step on the mean over j of each loss divided by its average; returns the (P, k) losses.

    Members do not touch each other's weights, so the gradient of the sum is every member's own. `max_grad_norm` limits the
    norm of the gradient of a population of one.
    """
    found = losses(batch, population, gamma)
    weighted = found / averages.update(found).clamp(min=LEAST_LOSS)
    optimizer.zero_grad(set_to_none=True)
    th.autograd.backward(weighted.mean(dim=1).sum())
    if max_grad_norm is not None:
        assert population.size == 1
        th.nn.utils.clip_grad_norm_(population.parameters(), max_grad_norm)
    optimizer.step()
    return found.detach()
