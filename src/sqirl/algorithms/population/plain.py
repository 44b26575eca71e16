"""Networks, losses and Adam of P members in plain torch, on any device.

This path is used where there is no Triton, and the kernels are compared with it. The networks of all members are evaluated by
grouped convolutions and batched matrix products; gradients come from autograd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch as th
from torch.nn import functional as F

from sqirl.algorithms.population.batch import AdamSettings, DeviceBatch, Heads, Learner, Loss, LossSettings
from sqirl.algorithms.population.layout import FlatLayout, Layout, Picture, plain_screens, unpack
from sqirl.algorithms.sqirl.hyperparameters import LEAST_LOSS
from sqirl.errors import SqirlError


def observations(screens: th.Tensor, keys: th.Tensor, picture: Picture, dtype: th.dtype = th.float32) -> th.Tensor:
    """(P, R, inputs, S, S) in [0, 1]: the screens (N, planes, S/4, S/4, 16) that the keys (P, R, K) name."""
    pictures = plain_screens(screens[keys[..., : picture.stacked].reshape(-1)])
    return pictures.reshape(*keys.shape[:2], picture.inputs, picture.side, picture.side).to(dtype) / 255


def activations(layout: Layout, flat: th.Tensor, seen: th.Tensor) -> dict[str, th.Tensor]:
    """The output of each layer of the networks with weights (P, n), each on its own observations (P, R, inputs, S, S).

    Those of the convolutions are (R, P·channels, height, width), those of "dense" and "head" (P, R, outputs).
    """
    members, rows = seen.shape[:2]
    w = unpack(layout, flat)

    def convolve(x: th.Tensor, name: str, stride: int) -> th.Tensor:
        weight, bias = w[f"{name}.weight"].flatten(0, 1), w[f"{name}.bias"].flatten()
        return F.relu(F.conv2d(x, weight, bias, stride, groups=members))

    x = seen.transpose(0, 1).flatten(1, 2)  # (R, P·inputs, S, S)
    found = {}
    for name, stride in (("conv1", 4), ("conv2", 2), ("conv3", 1)):
        found[name] = x = convolve(x, name, stride)
    x = x.reshape(rows, members, -1).transpose(0, 1)  # (P, R, flat), ordered (channel, row, column)
    found["dense"] = F.relu(th.baddbmm(w["dense.bias"][:, None], x, w["dense.weight"].transpose(1, 2)))
    found["head"] = th.baddbmm(w["head.bias"][:, None], found["dense"], w["head.weight"].transpose(1, 2))
    return found


def evaluate(layout: Layout, flat: th.Tensor, seen: th.Tensor) -> th.Tensor:
    """(P, R, outputs) float32 of the networks with weights (P, n), each on its own observations (P, R, inputs, S, S)."""
    return activations(layout, flat, seen)["head"].float()


def targets(batch: DeviceBatch, ahead: th.Tensor, gamma: float) -> th.Tensor:
    """(P, B, k): y for Q^1, and r + γ max_a Q^{j-1}(s', a) for Q^j; `ahead` (P, B, k, A) is Q of s'."""
    best = ahead[:, :, :-1].amax(dim=-1)
    bootstrapped = batch.rewards[..., None] + gamma * batch.goes_on[..., None] * best
    return th.cat([batch.returns[..., None], bootstrapped], dim=-1)


def losses(heads: Heads, batch: DeviceBatch, q: th.Tensor, gamma: float) -> th.Tensor:
    """(P, k) the mean squared error of each of Q^1..Q^k, from the outputs (P, R, k·A) for s and then s'."""
    size = batch.size
    values = q.reshape(*q.shape[:2], heads.k, heads.num_actions)
    index = batch.actions.long()[..., None, None].expand(-1, -1, heads.k, 1)
    predicted = values[:, :size].gather(3, index)[..., 0]  # (P, B, k)
    if heads.k == 1:
        return (predicted - batch.returns[..., None]).square().mean(dim=1)
    return (predicted - targets(batch, values[:, size:].detach(), gamma)).square().mean(dim=1)


def weigh(learner: Learner, found: th.Tensor, settings: LossSettings) -> th.Tensor:
    """(P,) the mean over the k losses of a member, each divided by its average, the newest loss included."""
    keep = learner.running[:, None].bool()
    learner.average_steps += learner.running
    averages = settings.smoothing * learner.averages + (1 - settings.smoothing) * found.detach()
    learner.averages.copy_(th.where(keep, averages, learner.averages))
    learner.losses.copy_(found.detach())
    unbiased = learner.averages / (1 - settings.smoothing ** learner.average_steps.double())[:, None].float()
    used = th.arange(found.shape[1], device=found.device) < learner.k[:, None]
    weighted = th.where(used, found / unbiased.clamp(min=LEAST_LOSS), 0.0)
    return weighted.sum(dim=1) / learner.k


def clip(gradient: th.Tensor, max_norm: float) -> th.Tensor:
    """The gradients (P, n), each scaled down to `max_norm` if its norm is larger, as torch's clip_grad_norm_ does."""
    norms = th.linalg.vector_norm(gradient, dim=1, keepdim=True)
    scales: th.Tensor = (max_norm / (norms + 1e-6)).clamp(max=1.0)
    return gradient * scales


def adam(learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
    """One step of torch.optim.Adam for the members that are running, by the gradient (P, n)."""
    if settings.max_norm is not None:
        gradient = clip(gradient, settings.max_norm)
    keep = learner.running[:, None].bool()
    learner.steps += learner.running
    count = learner.steps.double()[:, None]
    first = th.lerp(learner.first, gradient, 1 - settings.beta1)
    second = settings.beta2 * learner.second + (1 - settings.beta2) * gradient.square()
    rate = learner.rates[:, None] / (1 - settings.beta1**count).float()
    scale = (1 - settings.beta2**count).sqrt().float()
    change = rate * first / (second.sqrt() / scale + settings.epsilon)
    learner.first.copy_(th.where(keep, first, learner.first))
    learner.second.copy_(th.where(keep, second, learner.second))
    learner.flat.sub_(th.where(keep, change, 0.0))


class TorchNetworks(ABC):
    """The networks of a population over one table, in plain torch; see the protocol `Networks`."""

    layout: FlatLayout

    def __init__(self, screens: th.Tensor, dtype: th.dtype = th.float32) -> None:
        self.screens, self.dtype = screens, dtype
        self.flat: th.Tensor | None = None

    @abstractmethod
    def observe(self, keys: th.Tensor) -> th.Tensor:
        """(P, R, …) what the networks see of the keys (P, R, K)."""

    @abstractmethod
    def evaluate(self, weights: th.Tensor, seen: th.Tensor) -> th.Tensor:
        """(P, R, outputs) float32 with the weights (P, n), each member on its own observations (P, R, …)."""

    @abstractmethod
    def copy(self) -> TorchNetworks:
        """Networks over the same table, without weights."""

    def load(self, flat: th.Tensor) -> None:
        """Read the weights (P, n) from now on."""
        if self.flat is None:
            self.flat = flat
        elif self.flat is not flat:
            self.flat.copy_(flat)

    def acting(self, rows: int) -> TorchNetworks:
        """Networks with the same weights. Here any number of rows can be evaluated."""
        return self

    def separate(self, rows: int, flat: th.Tensor) -> TorchNetworks:
        """Networks with the weights (P, n) given."""
        other = self.copy()
        other.load(flat)
        return other

    def outputs(self, keys: th.Tensor) -> th.Tensor:
        """(P, R, outputs) float32 with the weights loaded, without gradient."""
        if self.flat is None:
            raise SqirlError("the networks have no weights yet; call load(flat) first")
        return self.forward(self.flat, keys)

    def descend(self, learner: Learner, keys: th.Tensor, loss: Loss, settings: AdamSettings) -> None:
        """One step of Adam on the losses (P,) that `loss` computes from the outputs (P, B, outputs)."""
        leaf, out = self.learn(learner.flat, keys, keys.shape[1])
        self.optimize(learner, th.autograd.grad(loss(out).sum(), leaf)[0], settings)

    def optimize(self, learner: Learner, gradient: th.Tensor, settings: AdamSettings) -> None:
        """One step of Adam by the gradient (P, n)."""
        adam(learner, gradient, settings)

    @th.no_grad()
    def forward(self, flat: th.Tensor, keys: th.Tensor) -> th.Tensor:
        """(P, R, outputs) float32, without gradient."""
        return self.evaluate(flat.to(self.dtype), self.observe(keys))

    def learn(self, flat: th.Tensor, keys: th.Tensor, learned: int) -> tuple[th.Tensor, th.Tensor]:
        """(weights to differentiate by (P, n), outputs (P, R, outputs)); the first `learned` rows carry a gradient."""
        leaf = flat.detach().requires_grad_()
        q = self.evaluate(leaf.to(self.dtype), self.observe(keys[:, :learned]))
        if keys.shape[1] > learned:
            q = th.cat([q, self.forward(flat, keys[:, learned:])], dim=1)
        return leaf, q


class PlainNetworks(TorchNetworks):
    """NatureCNN for P members."""

    layout: Layout

    def __init__(self, layout: Layout, screens: th.Tensor, dtype: th.dtype = th.float32) -> None:
        super().__init__(screens, dtype)
        self.layout = layout

    def observe(self, keys: th.Tensor) -> th.Tensor:
        return observations(self.screens, keys, self.layout.picture, self.dtype)

    def evaluate(self, weights: th.Tensor, seen: th.Tensor) -> th.Tensor:
        return evaluate(self.layout, weights, seen)

    def copy(self) -> PlainNetworks:
        return PlainNetworks(self.layout, self.screens, self.dtype)


def sqirl_gradient(
    networks: TorchNetworks, learner: Learner, heads: Heads, batch: DeviceBatch, settings: LossSettings
) -> th.Tensor:
    """(P, n) the gradient of each member's weighted loss; the averages of the losses are updated."""
    leaf, q = networks.learn(learner.flat, batch.keys, batch.size)
    found = losses(heads, batch, q, settings.gamma)
    total = weigh(
        learner, found, settings
    ).sum()  # members share no weights, so the gradient of the sum is that of each
    return th.autograd.grad(total, leaf)[0]


def sqirl_step(
    networks: TorchNetworks,
    learner: Learner,
    heads: Heads,
    batch: DeviceBatch,
    settings: LossSettings,
    optimizer: AdamSettings,
) -> None:
    """One gradient step of every running member."""
    networks.optimize(learner, sqirl_gradient(networks, learner, heads, batch, settings), optimizer)
