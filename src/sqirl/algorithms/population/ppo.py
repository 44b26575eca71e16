"""PPO for a population over one table: the algorithm of Stable-Baselines3 for P runs at once.

Networks have A + 1 outputs: the logits of the A actions, and the value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch as th
from torch.nn import functional as F

from sqirl.algorithms.population import draws
from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.evaluation import Policies
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.lanes import DeviceLanes
from sqirl.algorithms.population.layout import initial_weights, orthogonal_weights
from sqirl.algorithms.population.networks import Networks, layout_of, make_networks
from sqirl.algorithms.population.table import DeviceTable
from sqirl.algorithms.population.trainer import MemberState, copy_tensors, named_tensors, precision_of
from sqirl.algorithms.ppo.hyperparameters import PAPER, PPOHyperparameters
from sqirl.errors import SqirlError

#: Steps of a rollout that one CUDA graph makes.
ACTS_IN_A_GRAPH = 16
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
    """P runs of PPO: a `Trainer`. `play` is one rollout, `learn` trains on it.

    `act`, `finish`, `shuffle` and `descend` are their parts. They change tensors in place and do not wait for the device, so that
    each can be a CUDA graph.
    """

    def __init__(self, settings: PPOSettings, networks: Networks, learner: Learner, lanes: DeviceLanes) -> None:
        samples, batch_size = settings.rollout * lanes.num, settings.hyperparameters.batch_size
        if samples % batch_size:
            raise SqirlError(f"{samples} samples of a rollout are no multiple of batch_size = {batch_size}")
        self.settings, self.networks, self.learner, self.lanes = settings, networks, learner, lanes
        self.table, self.seeds, self.precision = lanes.table, lanes.seeds, precision_of(networks)
        networks.load(learner.flat)
        self.acting = networks.acting(lanes.num)
        members, device, key_length = len(lanes.seeds), lanes.seeds.device, lanes.table.key_length
        shape = (settings.rollout, members, lanes.num)
        self.keys = th.zeros(*shape, key_length, dtype=th.int32, device=device)
        self.actions = th.zeros(shape, dtype=th.int32, device=device)
        self.log, self.values, self.rewards = (th.zeros(shape, device=device) for _ in range(3))
        self.ends = th.zeros(shape, dtype=th.bool, device=device)
        self.cut, self.after = (
            self.ends.clone(),
            self.keys.clone(),
        )  # where the horizon cut an episode off, and at which key
        self.judging = networks.acting(samples) if self.table.truncates else None
        self.samples = Samples(
            th.zeros(members, samples, key_length, dtype=th.int32, device=device),
            th.zeros(members, samples, dtype=th.int32, device=device),
            *(th.zeros(members, samples, device=device) for _ in range(3)),
        )
        self.order = th.arange(samples, device=device).repeat(members, 1)  # of the samples in this epoch
        self.t, self.shuffles, self.place = (th.zeros(1, dtype=th.int64, device=device) for _ in range(3))
        self.rollouts = 0
        self._parts = {name: getattr(self, name) for name in ("act", "finish", "shuffle", "descend")}
        self.acts_at_once = 1

    def capture(self) -> None:
        """Capture the parts as CUDA graphs. To be called before the first rollout."""
        kept = [*self.learner.tensors(), *self.lanes.tensors(), self.order, self.t, self.shuffles, self.place]
        self.acts_at_once = math.gcd(self.settings.rollout, ACTS_IN_A_GRAPH)
        self._parts["act"] = self._acts
        for name, part in self._parts.items():
            self._parts[name] = captured(part, kept=kept)
            self.networks.load(self.learner.flat)

    def play(self) -> None:
        """One rollout."""
        for _ in range(self.settings.rollout // self.acts_at_once):
            self._parts["act"]()
        self.rollouts += 1

    def learn(self) -> None:
        """The epochs of gradient steps on the rollout."""
        paper = self.settings.hyperparameters
        self._parts["finish"]()
        for _ in range(paper.n_epochs):
            self._parts["shuffle"]()
            for _ in range(self.order.shape[1] // paper.batch_size):
                self._parts["descend"]()

    def steps(self) -> list[int]:
        return [self.rollouts * self.settings.rollout * self.lanes.num] * len(self.seeds)

    @property
    def is_finished(self) -> bool:
        return False

    def _acts(self) -> None:
        for _ in range(self.acts_at_once):
            self.act()

    def act(self) -> None:
        """One step of all lanes by the current policies, recorded at time `t` of the rollout."""
        lanes = self.lanes
        out = self.acting.outputs(lanes.keys)
        actions, log = self._drawn(out)
        keys, values = lanes.keys.clone(), out[..., -1].clone()
        rewards, ends, after = lanes.step(actions)
        kept = [(self.keys, keys), (self.actions, actions), (self.log, log), (self.values, values),
                (self.rewards, rewards), (self.ends, ends)]  # fmt: skip
        if self.judging is not None:
            kept += [(self.cut, lanes.cut), (self.after, after)]
        for buffer, value in kept:
            buffer.index_copy_(0, self.t, value[None].to(buffer.dtype))
        self.t.copy_((self.t + 1) % self.settings.rollout)

    def _drawn(self, out: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """((P, L) int32 actions of the policies with the outputs (P, L, A + 1), their log-probabilities)."""
        lanes = self.lanes
        if has_triton(out.device):
            from sqirl.algorithms.population.lane_kernels import draw_softmax

            return draw_softmax(lanes, out)
        chance = draws.uniforms(lanes.seeds, draws.ACTIONS, lanes.counts, lanes.num)
        return draw_actions(out[..., :-1], chance)

    def finish(self) -> None:
        """Compute advantages and returns of the rollout, and copy it to `samples`."""
        if self.judging is not None:  # where the horizon cut an episode off, the value of what would follow is added
            values = self.judging.outputs(self.after.transpose(0, 1).flatten(1, 2).contiguous())[..., -1]
            values = values.reshape(len(self.seeds), self.settings.rollout, -1).transpose(0, 1)
            self.rewards += self.settings.gamma * self.cut * values
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

    def policies(self, rows: int) -> Policies:
        """The policies that take the most probable action."""
        networks = self.networks.acting(rows)
        return Policies(lambda t: None, lambda keys: networks.outputs(keys)[..., :-1].argmax(dim=-1).int())

    def _rollout(self) -> list[th.Tensor]:
        """What `play` leaves for `learn`."""
        return [self.keys, self.actions, self.log, self.values, self.rewards, self.ends, self.cut, self.after]

    def state(self) -> tuple[MemberState, dict[str, int]]:
        members = {
            **named_tensors("learner", self.learner.tensors()),
            **named_tensors("lanes", self.lanes.tensors()),
            **named_tensors("rollout", [part.transpose(0, 1) for part in self._rollout()]),
        }
        return members, {"rollouts": self.rollouts, "shuffles": int(self.shuffles)}

    def restore(self, members: MemberState, shared: dict[str, int]) -> None:
        copy_tensors(members, "learner", self.learner.tensors())
        copy_tensors(members, "lanes", self.lanes.tensors())
        copy_tensors(members, "rollout", [part.transpose(0, 1) for part in self._rollout()])
        self.rollouts = shared["rollouts"]
        self.shuffles.fill_(shared["shuffles"])
        self.networks.load(self.learner.flat)


def make_ppo(
    table: DeviceTable, seeds: list[int], settings: PPOSettings, *, num_lanes: int, dtype: th.dtype = th.bfloat16,
    kernels: bool | None = None,
) -> PPOPopulation:  # fmt: skip
    """A population before its first rollout; see `make_networks` for `dtype` and `kernels`."""
    paper, layout = settings.hyperparameters, layout_of(table, table.num_actions + 1, actor_critic=True)
    networks = make_networks(
        layout, table.screens, members=len(seeds), batch_size=paper.batch_size, key_length=table.key_length,
        dtype=dtype, kernels=kernels, inputs=table.inputs,
    )  # fmt: skip
    flat = initial_weights(layout, seeds, initialize=orthogonal_weights, device=table.device)
    lanes = DeviceLanes(table, th.tensor(seeds, device=table.device), num_lanes)
    population = PPOPopulation(settings, networks, Learner.start(flat, rate=paper.learning_rate), lanes)
    if table.device.type == "cuda":
        population.capture()
    return population
