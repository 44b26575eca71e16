"""DQN for a population over one table: the algorithm of Stable-Baselines3 for P runs at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch as th
from torch.nn import functional as F

from sqirl.algorithms.dqn.hyperparameters import PAPER, DQNHyperparameters, gradient_steps_of
from sqirl.algorithms.population import draws
from sqirl.algorithms.population.batch import AdamSettings, DeviceBatch, Learner
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.lanes import DeviceLanes, mean_returns
from sqirl.algorithms.population.networks import Networks
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions


@dataclass(frozen=True)
class DQNSettings:
    """The settings that all members share."""

    gamma: float = 1.0
    epsilon_steps: int = 500_000
    hyperparameters: DQNHyperparameters = PAPER

    @property
    def adam(self) -> AdamSettings:
        return AdamSettings(max_norm=self.hyperparameters.max_grad_norm)

    def epsilon(self, steps: int) -> float:
        """The probability of a random action after so many env steps of a member."""
        done = min(1.0, steps / self.epsilon_steps)
        return 1.0 + done * (self.hyperparameters.exploration_final_eps - 1.0)


def dqn_losses(out: th.Tensor, next_values: th.Tensor, batch: DeviceBatch, gamma: float) -> th.Tensor:
    """(P,) Huber losses of Q(s, a) against r + γ max_a Q'(s', a): `out` (P, B, A) is Q(s), `next_values` (P, B, A) Q'(s')."""
    chosen = out.gather(2, batch.actions.long()[..., None])[..., 0]
    target = batch.rewards + gamma * batch.goes_on * next_values.amax(dim=-1)
    return F.smooth_l1_loss(chosen, target, reduction="none").mean(1)


class DQNPopulation:
    """P runs of DQN. `step` plays one step of all lanes and trains; `act`, `descend` and `copy_target` are its parts.

    The parts change tensors in place and do not wait for the device, so that they can be CUDA graphs (`capture`).
    """

    def __init__(
        self, settings: DQNSettings, networks: Networks, learner: Learner, lanes: DeviceLanes, replay: DeviceReplay
    ) -> None:
        self.settings, self.networks, self.learner = settings, networks, learner
        self.lanes, self.replay = lanes, replay
        networks.load(learner.flat)
        self.acting = networks.acting(lanes.num)
        batch_size = settings.hyperparameters.batch_size
        self.target_flat = learner.flat.clone()
        self.target = networks.separate(batch_size, self.target_flat)
        self.batch = DeviceBatch.empty(
            len(lanes.seeds), batch_size, key_length=lanes.table.key_length, with_next=True, device=lanes.seeds.device
        )
        self.epsilons = th.ones(len(lanes.seeds), device=lanes.seeds.device)  # probability of a random action
        self.calls = 0
        self._parts = {name: getattr(self, name) for name in ("act", "descend")}

    def capture(self) -> None:
        """Capture the parts of `step` as CUDA graphs. To be called before the first step."""
        kept = [*self.learner.tensors(), *self.lanes.tensors(), self.replay.sizes, self.replay.places]
        for name in self._parts:
            self._parts[name] = captured(getattr(self, name), kept=kept)
            self.networks.load(self.learner.flat)

    def step(self) -> None:
        """One step of all lanes, and gradient steps, in the order of Stable-Baselines3."""
        num, paper = self.lanes.num, self.settings.hyperparameters
        self._parts["act"]()
        self.calls += 1
        if self.calls % max(1, paper.target_update_interval // num) == 0:
            self.copy_target()
        self.epsilons.fill_(self.settings.epsilon(self.calls * num))
        for _ in range(gradient_steps_of(num)):
            self._parts["descend"]()

    def act(self) -> None:
        """One step of all lanes, ε-greedy by the current networks, into the replay."""
        lanes = self.lanes
        keys, random = lanes.keys.clone(), lanes.random_actions()
        greedy = self.acting.outputs(keys).argmax(dim=-1).int()
        explores = draws.uniforms(lanes.seeds, draws.EXPLORES, lanes.counts, lanes.num) < self.epsilons[:, None]
        actions = th.where(explores, random, greedy)
        rewards, ends, after = lanes.step(actions)
        valid = th.ones_like(ends)
        self.replay.extend(DeviceTransitions(keys, after, actions, rewards, th.zeros_like(rewards), ~ends, valid))

    def descend(self) -> None:
        """One gradient step of each running member on a minibatch of its replay."""
        self.replay.sample(self.batch, self.lanes.seeds, self.learner.steps)
        size = self.batch.size
        next_values = self.target.outputs(self.batch.keys[:, size:].contiguous())
        self.networks.descend(
            self.learner, self.batch.keys[:, :size].contiguous(),
            lambda out: dqn_losses(out, next_values, self.batch, self.settings.gamma), self.settings.adam,
        )  # fmt: skip

    def copy_target(self) -> None:
        """Copy the weights of the networks to the target networks."""
        self.target_flat.copy_(self.learner.flat)
        self.target.load(self.target_flat)

    def returns(self, seed: int, episodes: int) -> th.Tensor:
        """(P,) mean returns of the greedy policies, in the units of the game."""
        networks = self.networks.acting(episodes)
        return mean_returns(
            self.lanes.table, self.lanes.seeds + seed, episodes,
            lambda t, keys: networks.outputs(keys).argmax(dim=-1).int(),
        )  # fmt: skip
