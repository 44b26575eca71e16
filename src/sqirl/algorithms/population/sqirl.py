"""Deep SQIRL for a population over one table: P runs of different seeds, k and m.

The algorithm is that of `sqirl.algorithms.sqirl.algorithm`. All members make the same iteration at the same time. A member with a
smaller m than others has lanes that are not used, and its weights do not change while others make their further gradient steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch as th

from sqirl.algorithms.population.batch import AdamSettings, Heads, Learner, LossSettings
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.lanes import DeviceLanes, greedy_actions, mean_returns, returns_to_go
from sqirl.algorithms.population.layout import Layout, initial_weights
from sqirl.algorithms.population.networks import Networks
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.table import DeviceTable
from sqirl.algorithms.sqirl.hyperparameters import PAPER, SQIRLHyperparameters

_ADAM = AdamSettings()


@dataclass(frozen=True)
class Member:
    """One run."""

    seed: int
    k: int
    m: int


@dataclass(frozen=True)
class SQIRLSettings:
    """The settings that all members share."""

    gamma: float = 1.0
    hyperparameters: SQIRLHyperparameters = PAPER
    adam: AdamSettings = _ADAM


class SQIRLPopulation:
    """P runs of deep SQIRL over one table. Call `iterate` once for every timestep of the horizon."""

    def __init__(
        self, table: DeviceTable, members: list[Member], settings: SQIRLSettings, *, dtype: th.dtype = th.bfloat16,
        kernels: bool | None = None,
    ) -> None:  # fmt: skip
        """Networks in `dtype`; see `make_networks` for `kernels`."""
        self.table, self.members, self.settings = table, members, settings
        device, paper = table.device, settings.hyperparameters
        heads = Heads(max(member.k for member in members), table.num_actions)
        loss = LossSettings(settings.gamma, paper.loss_smoothing)
        step = StepSettings(heads, paper.batch_size, table.picture, loss, settings.adam)
        self.seeds = th.tensor([member.seed for member in members], device=device)
        self.episodes = th.tensor([member.m for member in members], device=device)
        self.lanes = DeviceLanes(table, self.seeds, max(member.m for member in members))
        self.replay = DeviceReplay(len(members), paper.buffer_size, key_length=table.key_length, device=device)
        self.learner, self.step = self._make_step(step, dtype, kernels)
        networks: Networks = self.step.networks if self.step.kernels else self.step.plain
        networks.load(self.learner.flat)
        self.frozen: list[th.Tensor] = []  # weights (P, n) of π_0, π_1, …
        self.acting = networks.separate(self.lanes.num, self.learner.flat.clone())

    def _make_step(self, step: StepSettings, dtype: th.dtype, kernels: bool | None) -> tuple[Learner, SQIRLStep]:
        layout = Layout(step.heads.num_outputs, step.picture)
        flat = initial_weights(layout, [member.seed for member in self.members], device=self.table.device)
        rate = self.settings.hyperparameters.learning_rate
        learner = Learner.start(flat, step.heads, rate=rate, k=[member.k for member in self.members])
        return learner, SQIRLStep(
            step, learner, self.replay, self.table.screens, self.seeds, dtype=dtype, kernels=kernels
        )

    def iterate(self) -> None:
        """Play, learn, freeze."""
        self.lanes.reset(th.ones_like(self.lanes.t, dtype=th.bool))
        self.collect()
        self.learn()
        self.freeze()

    @property
    def iteration(self) -> int:
        return len(self.frozen)

    def collect(self) -> None:
        """Play m episodes of each member; steps at this iteration's timestep and later go into the replay."""
        members, lanes = len(self.members), self.lanes
        active = (th.arange(lanes.num, device=self.seeds.device) < self.episodes[:, None]).clone()
        columns: list[tuple[th.Tensor, ...]] = []
        for t in range(self.table.horizon):
            keys = lanes.keys.clone()
            actions = self._greedy(self.frozen[t], keys) if t < self.iteration else lanes.random_actions()
            rewards, ends, after = lanes.step(actions)
            if t >= self.iteration:
                columns.append((keys, after, actions, rewards, ends, active))
            active = active & ~ends
        keys, after, actions, rewards, ends, valid = (th.stack(column) for column in zip(*columns, strict=True))
        returns = returns_to_go(rewards, ends, self.settings.gamma)

        def rows(x: th.Tensor) -> th.Tensor:
            """(T, P, L, …) → (P, L·T, …): lane by lane in the order of time."""
            return x.movedim(0, 2).reshape(members, -1, *x.shape[3:])

        self.replay.extend(
            DeviceTransitions(*(rows(x) for x in (keys, after, actions, rewards, returns, ~ends, valid)))
        )

    def learn(self) -> None:
        """The epochs of each member over m·T samples from its replay."""
        s = self.settings.hyperparameters
        steps = [math.ceil(s.n_epochs * member.m * self.table.horizon / s.batch_size) for member in self.members]
        done = 0
        for until in sorted(set(steps)):
            running = [int(count >= until) for count in steps]
            self.learner.running.copy_(th.tensor(running, dtype=th.int32) * (self.replay.sizes.cpu() > 0))
            for _ in range(until - done):
                self.step()
            done = until

    def freeze(self) -> None:
        """Keep the current weights as those of π_i."""
        self.frozen.append(self.learner.flat.clone())

    def returns(self, seed: int) -> th.Tensor:
        """(P,) mean returns of as many episodes as there are lanes, in the units of the game.

        The policy is the frozen one, and the current network at timesteps that have none.
        """
        weights = [*self.frozen, *[self.learner.flat] * (self.table.horizon - self.iteration)]
        return mean_returns(
            self.table, self.seeds + seed, self.lanes.num, lambda t, keys: self._greedy(weights[t], keys)
        )

    def _greedy(self, weights: th.Tensor, keys: th.Tensor) -> th.Tensor:
        """(P, L) the greedy actions of the networks with the weights (P, n)."""
        self.acting.load(weights)
        return greedy_actions(self.acting.outputs(keys), self.learner.k, self.table.num_actions)
