"""DQN for a population over one table: the algorithm of Stable-Baselines3 for P runs at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch as th
from torch.nn import functional as F

from sqirl.algorithms.dqn.hyperparameters import PAPER, DQNHyperparameters, gradient_steps_of
from sqirl.algorithms.population import draws
from sqirl.algorithms.population.batch import AdamSettings, DeviceBatch, Learner
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.evaluation import Policies
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.lanes import DeviceLanes
from sqirl.algorithms.population.layout import initial_weights
from sqirl.algorithms.population.networks import Networks, layout_of, make_networks
from sqirl.algorithms.population.replay import DeviceReplay
from sqirl.algorithms.population.table import DeviceTable
from sqirl.algorithms.population.trainer import (
    EVALUATION_GRID,
    MemberState,
    copy_tensors,
    named_tensors,
    precision_of,
    tensors_of,
)


@dataclass(frozen=True)
class DQNSettings:
    """The settings that all members share."""

    gamma: float = 1.0
    epsilon_steps: int = 500_000
    hyperparameters: DQNHyperparameters = PAPER

    @property
    def adam(self) -> AdamSettings:
        return AdamSettings(max_norm=self.hyperparameters.max_grad_norm)

    def epsilons(self, steps: th.Tensor) -> th.Tensor:
        """(P,) the probability of a random action after so many env steps (P,) of each member."""
        done = (steps / self.epsilon_steps).clamp(max=1.0)
        return 1.0 + done * (self.hyperparameters.exploration_final_eps - 1.0)


def dqn_losses(out: th.Tensor, next_values: th.Tensor, batch: DeviceBatch, gamma: float) -> th.Tensor:
    """(P,) Huber losses of Q(s, a) against r + γ max_a Q'(s', a): `out` (P, B, A) is Q(s), `next_values` (P, B, A) Q'(s')."""
    chosen = out.gather(2, batch.actions.long()[..., None])[..., 0]
    target = batch.rewards + gamma * batch.goes_on * next_values.amax(dim=-1)
    return F.smooth_l1_loss(chosen, target, reduction="none").mean(1)


class DQNPopulation:
    """P runs of DQN: a `Trainer`. `play` makes rounds of steps and gradient steps; `act` and `descend` are the parts of a round.

    The parts change tensors in place and do not wait for the device, so that they can be CUDA graphs.
    """

    def __init__(
        self, settings: DQNSettings, networks: Networks, learner: Learner, lanes: DeviceLanes, replay: DeviceReplay
    ) -> None:
        self.settings, self.networks, self.learner = settings, networks, learner
        self.lanes, self.replay = lanes, replay
        self.table, self.seeds, self.precision = lanes.table, lanes.seeds, precision_of(networks)
        networks.load(learner.flat)
        self.acting = networks.acting(lanes.num)
        paper = settings.hyperparameters
        self.target_flat = learner.flat.clone()
        self.target = networks.separate(paper.batch_size, self.target_flat)
        self.batch = DeviceBatch.empty(
            len(lanes.seeds), paper.batch_size, key_length=lanes.table.key_length, with_next=True,
            device=lanes.seeds.device,
        )  # fmt: skip
        self.calls = 0  # steps of all lanes
        self._act, self._descend = self._acts, self._descents

    def capture(self) -> None:
        """Capture the parts of a round as CUDA graphs. To be called before the first one."""
        kept = [*self.learner.tensors(), *self.lanes.tensors(), self.replay.sizes, self.replay.places]
        self._act = captured(self._acts, kept=kept)
        self.networks.load(self.learner.flat)
        self._descend = captured(self._descents, kept=kept)
        self.networks.load(self.learner.flat)

    def play(self) -> None:
        """Rounds until an evaluation may be due."""
        end = (self.calls * self.lanes.num // EVALUATION_GRID + 1) * EVALUATION_GRID
        while self.calls * self.lanes.num < end:
            self.round()

    def learn(self) -> None:
        """Nothing: a round learns, too."""

    def round(self) -> None:
        """Steps of all lanes, and gradient steps, in the order of Stable-Baselines3."""
        paper = self.settings.hyperparameters
        self._act()
        self.calls += paper.train_freq
        # With several lanes the interval counts steps of all of them; it is a multiple of a round
        if self.calls % max(1, paper.target_update_interval // self.lanes.num) == 0:
            self.copy_target()
        self._descend()

    def steps(self) -> list[int]:
        return [self.calls * self.lanes.num] * len(self.seeds)

    @property
    def is_finished(self) -> bool:
        return False

    def _acts(self) -> None:
        for _ in range(self.settings.hyperparameters.train_freq):
            self.act()

    def _descents(self) -> None:
        for _ in range(gradient_steps_of(self.lanes.num)):
            self.descend()

    def act(self) -> None:
        """One step of all lanes, ε-greedy by the current networks, into the replay."""
        lanes = self.lanes
        keys = lanes.keys.clone()
        actions = self._chosen(self.acting.outputs(keys))
        rewards, ends, after = lanes.step(actions)
        self.replay.append(keys, after, actions, rewards, ~ends | lanes.cut)

    def _chosen(self, values: th.Tensor) -> th.Tensor:
        """(P, L) int32 ε-greedy actions for the values (P, L, A)."""
        lanes, s = self.lanes, self.settings
        if has_triton(values.device):
            from sqirl.algorithms.population.lane_kernels import draw_exploring

            return draw_exploring(lanes, values, s.epsilon_steps, s.hyperparameters.exploration_final_eps)
        epsilons = s.epsilons(lanes.counts * lanes.num)
        explores = draws.uniforms(lanes.seeds, draws.EXPLORES, lanes.counts, lanes.num) < epsilons[:, None]
        return th.where(explores, lanes.random_actions(), values.argmax(dim=-1).int())

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

    def policies(self, rows: int) -> Policies:
        """The greedy policies."""
        networks = self.networks.acting(rows)
        return Policies(lambda t: None, lambda keys: networks.outputs(keys).argmax(dim=-1).int())

    def state(self) -> tuple[MemberState, dict[str, int]]:
        members = {
            **named_tensors("learner", self.learner.tensors()), **named_tensors("lanes", self.lanes.tensors()),
            **named_tensors("replay", self.replay.used()), **named_tensors("target", [self.target_flat]),
        }  # fmt: skip
        return members, {"calls": self.calls}

    def restore(self, members: MemberState, shared: dict[str, int]) -> None:
        copy_tensors(members, "learner", self.learner.tensors())
        copy_tensors(members, "lanes", self.lanes.tensors())
        self.replay.refill(tensors_of(members, "replay"))
        copy_tensors(members, "target", [self.target_flat])
        self.target.load(self.target_flat)
        self.calls = shared["calls"]
        self.networks.load(self.learner.flat)


def make_dqn(
    table: DeviceTable, seeds: list[int], settings: DQNSettings, *, num_lanes: int, dtype: th.dtype = th.bfloat16,
    kernels: bool | None = None,
) -> DQNPopulation:  # fmt: skip
    """A population before its first step; see `make_networks` for `dtype` and `kernels`."""
    paper, layout = settings.hyperparameters, layout_of(table, table.num_actions)
    networks = make_networks(
        layout, table.screens, members=len(seeds), batch_size=paper.batch_size, key_length=table.key_length,
        dtype=dtype, kernels=kernels, inputs=table.inputs,
    )  # fmt: skip
    flat, device = initial_weights(layout, seeds, device=table.device), table.device
    lanes = DeviceLanes(table, th.tensor(seeds, device=device), num_lanes)
    replay = DeviceReplay(len(seeds), paper.buffer_size, key_length=table.key_length, device=device)
    population = DQNPopulation(settings, networks, Learner.start(flat, rate=paper.learning_rate), lanes, replay)
    if device.type == "cuda":
        population.capture()
    return population
