"""PPO for a population over one table: the algorithm of Stable-Baselines3 for P runs at once.

Networks have A + 1 outputs: the logits of the A actions, and the value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch as th
from torch import nn
from torch.nn import functional as F

from sqirl.algorithms.population import draws
from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.lanes import DeviceLanes, mean_returns
from sqirl.algorithms.population.networks import Networks
from sqirl.algorithms.ppo.hyperparameters import PAPER, PPOHyperparameters
from sqirl.errors import SqirlError

#: ε of Adam, as Stable-Baselines3 sets it for PPO.
ADAM_EPSILON = 1e-5


@dataclass(frozen=True)
class PPOSettings:
    """The settings that all members share."""

    gamma: float = 1.0
    rollout: int = 128
    hyperparameters: PPOHyperparameters = PAPER

    @property
    def adam(self) -> AdamSettings:
        return AdamSettings(epsilon=ADAM_EPSILON, max_norm=self.hyperparameters.max_grad_norm)


@th.no_grad()
def orthogonal_weights(layers: dict[str, nn.Conv2d | nn.Linear]) -> None:
    """Set orthogonal weights, as Stable-Baselines3 does: small ones for the logits, and zero biases."""
    *hidden, head = layers.values()
    for layer in layers.values():
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    for layer in hidden:
        nn.init.orthogonal_(layer.weight, math.sqrt(2))
    nn.init.orthogonal_(head.weight[:-1], 0.01)
    nn.init.orthogonal_(head.weight[-1:], 1.0)


def advantages(
    rewards: th.Tensor, values: th.Tensor, ends: th.Tensor, last_values: th.Tensor, settings: PPOSettings
) -> th.Tensor:
    """(T, …) generalised advantage estimates, from rewards, values and ends (T, …) and the values after the last step."""
    found, following, next_values = th.empty_like(rewards), th.zeros_like(last_values), last_values
    decay = settings.gamma * settings.hyperparameters.gae_lambda
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - ends[t].float()
        delta = rewards[t] + settings.gamma * goes_on * next_values - values[t]
        following = delta + decay * goes_on * following
        found[t], next_values = following, values[t]
    return found


@dataclass(frozen=True, eq=False)
class Samples:
    """B samples of a rollout for each of P members."""

    keys: th.Tensor  # (P, B, K) int32
    actions: th.Tensor  # (P, B) int32
    log: th.Tensor  # (P, B) log-probabilities of the actions when they were taken
    advantages: th.Tensor  # (P, B)
    returns: th.Tensor  # (P, B)

    def pick(self, index: th.Tensor) -> Samples:
        """The samples of the index (P, b)."""
        keys = self.keys.gather(1, index[..., None].expand(-1, -1, self.keys.shape[-1]))
        rest = (self.actions, self.log, self.advantages, self.returns)
        return Samples(keys.contiguous(), *(column.gather(1, index) for column in rest))


def ppo_losses(out: th.Tensor, samples: Samples, paper: PPOHyperparameters) -> th.Tensor:
    """(P,) the loss of each member on its samples, from the outputs (P, B, A + 1) for them."""
    logs = F.log_softmax(out[..., :-1], dim=-1)
    chosen = logs.gather(2, samples.actions.long()[..., None])[..., 0]
    advantage = samples.advantages - samples.advantages.mean(1, keepdim=True)
    advantage = advantage / (samples.advantages.std(1, keepdim=True) + 1e-8)
    ratio = (chosen - samples.log).exp()
    clipped = ratio.clamp(1 - paper.clip_range, 1 + paper.clip_range)
    policy = -th.minimum(advantage * ratio, advantage * clipped).mean(1)
    value = (samples.returns - out[..., -1]).square().mean(1)
    entropy = -(logs.exp() * logs).sum(-1).mean(1)
    return policy - paper.ent_coef * entropy + paper.vf_coef * value


def draw_actions(logits: th.Tensor, chance: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """((P, L) int32 actions, their log-probabilities), from logits (P, L, A) and uniform numbers (P, L)."""
    logs = F.log_softmax(logits, dim=-1)
    below = logs.exp().cumsum(-1)
    actions = (below < chance[..., None] * below[..., -1:]).sum(-1).clamp(max=logits.shape[-1] - 1)
    return actions.int(), logs.gather(2, actions[..., None])[..., 0]


class PPOPopulation:
    """P runs of PPO. `update` plays one rollout and trains on it; `act`, `finish`, `shuffle` and `descend` are its parts.

    The parts change tensors in place and do not wait for the device, so that each can be a CUDA graph (`capture`).
    """

    def __init__(self, settings: PPOSettings, networks: Networks, learner: Learner, lanes: DeviceLanes) -> None:
        samples, batch_size = settings.rollout * lanes.num, settings.hyperparameters.batch_size
        if samples % batch_size:
            raise SqirlError(f"{samples} samples of a rollout are no multiple of batch_size = {batch_size}")
        self.settings, self.networks, self.learner, self.lanes = settings, networks, learner, lanes
        networks.load(learner.flat)
        self.acting = networks.acting(lanes.num)
        members, device, key_length = len(lanes.seeds), lanes.seeds.device, lanes.table.key_length
        shape = (settings.rollout, members, lanes.num)
        self.keys = th.zeros(*shape, key_length, dtype=th.int32, device=device)
        self.actions = th.zeros(shape, dtype=th.int32, device=device)
        self.log, self.values, self.rewards = (th.zeros(shape, device=device) for _ in range(3))
        self.ends = th.zeros(shape, dtype=th.bool, device=device)
        self.samples = Samples(
            th.zeros(members, samples, key_length, dtype=th.int32, device=device),
            th.zeros(members, samples, dtype=th.int32, device=device),
            *(th.zeros(members, samples, device=device) for _ in range(3)),
        )
        self.order = th.arange(samples, device=device).repeat(members, 1)  # of the samples in this epoch
        self.t, self.shuffles, self.place = (th.zeros(1, dtype=th.int64, device=device) for _ in range(3))
        self._parts = {name: getattr(self, name) for name in ("act", "finish", "shuffle", "descend")}

    def capture(self) -> None:
        """Capture the parts of `update` as CUDA graphs. To be called before the first update."""
        kept = [*self.learner.tensors(), *self.lanes.tensors(), self.order, self.t, self.shuffles, self.place]
        for name in self._parts:
            self._parts[name] = captured(getattr(self, name), kept=kept)
            self.networks.load(self.learner.flat)

    def update(self) -> None:
        """One rollout, and the epochs of gradient steps on it."""
        paper = self.settings.hyperparameters
        for _ in range(self.settings.rollout):
            self._parts["act"]()
        self._parts["finish"]()
        for _ in range(paper.n_epochs):
            self._parts["shuffle"]()
            for _ in range(self.order.shape[1] // paper.batch_size):
                self._parts["descend"]()

    def act(self) -> None:
        """One step of all lanes by the current policies, recorded at time `t` of the rollout."""
        lanes = self.lanes
        out = self.acting.outputs(lanes.keys)
        chance = draws.uniforms(lanes.seeds, draws.ACTIONS, lanes.counts, lanes.num)
        actions, log = draw_actions(out[..., :-1], chance)
        keys = lanes.keys.clone()
        rewards, ends, _ = lanes.step(actions)
        kept = ((self.keys, keys), (self.actions, actions), (self.log, log), (self.values, out[..., -1]),
                (self.rewards, rewards), (self.ends, ends))  # fmt: skip
        for buffer, value in kept:
            buffer.index_copy_(0, self.t, value[None].to(buffer.dtype))
        self.t.copy_((self.t + 1) % self.settings.rollout)

    def finish(self) -> None:
        """Compute advantages and returns of the rollout, and copy it to `samples`."""
        last = self.acting.outputs(self.lanes.keys)[..., -1]
        found = advantages(self.rewards, self.values, self.ends, last, self.settings)
        to = self.samples
        rows = ((to.keys, self.keys), (to.actions, self.actions), (to.log, self.log), (to.advantages, found),
                (to.returns, found + self.values))  # fmt: skip
        for row, value in rows:
            row.copy_(value.transpose(0, 1).reshape(row.shape))

    def shuffle(self) -> None:
        """Draw a new order of the samples of each member."""
        bits = draws.bits(self.lanes.seeds, draws.SHUFFLES, self.shuffles, self.order.shape[1])
        self.order.copy_(bits.argsort(dim=1))
        self.shuffles += 1
        self.place.zero_()

    def descend(self) -> None:
        """One gradient step on the next minibatch of each member, which starts at `place` of the order."""
        paper = self.settings.hyperparameters
        offsets = self.place + th.arange(paper.batch_size, device=self.place.device)
        batch = self.samples.pick(self.order.gather(1, offsets.expand(len(self.order), -1)))
        self.networks.descend(self.learner, batch.keys, lambda out: ppo_losses(out, batch, paper), self.settings.adam)
        self.place.copy_((self.place + paper.batch_size) % self.order.shape[1])

    def returns(self, seed: int, episodes: int) -> th.Tensor:
        """(P,) mean returns of the policies that take the most probable action, in the units of the game."""
        networks = self.networks.acting(episodes)
        return mean_returns(
            self.lanes.table, self.lanes.seeds + seed, episodes,
            lambda t, keys: networks.outputs(keys)[..., :-1].argmax(dim=-1).int(),
        )  # fmt: skip
