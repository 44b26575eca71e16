"""Small replays, tables and networks for the tests of populations."""

from __future__ import annotations

import numpy as np
import torch as th
from torch import nn

from sqirl.algorithms.dqn.hyperparameters import DQNHyperparameters
from sqirl.algorithms.population.batch import Learner
from sqirl.algorithms.population.dqn import DQNPopulation, DQNSettings
from sqirl.algorithms.population.evaluation import Evaluator
from sqirl.algorithms.population.lanes import DeviceLanes
from sqirl.algorithms.population.layout import (
    ATARI,
    Initialize,
    Layout,
    Picture,
    blocked_screens,
    default_weights,
    initial_weights,
    unpack,
)
from sqirl.algorithms.population.networks import Networks, make_networks
from sqirl.algorithms.population.ppo import PPOPopulation, PPOSettings
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.table import DeviceTable, device_table
from sqirl.algorithms.population.trainer import Trainer
from sqirl.algorithms.ppo.hyperparameters import PPOHyperparameters
from sqirl.envs.view import View, frames_as_channels
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.table import Table

NUM_SCREENS, NUM_ACTIONS, LANES = 7, 5, 4
PPO_SETTINGS = PPOSettings(gamma=0.9, rollout=6, hyperparameters=PPOHyperparameters(batch_size=8))
DQN_SETTINGS = DQNSettings(gamma=0.9, hyperparameters=DQNHyperparameters(batch_size=8))


def relative(found: th.Tensor, expected: th.Tensor) -> float:
    """‖found − expected‖ / ‖expected‖."""
    wanted = expected.detach().double()
    return float((found.detach().double() - wanted).norm() / wanted.norm().clamp(min=1e-30))


def some_screens(device: str = "cpu", picture: Picture = ATARI) -> th.Tensor:
    shape = (NUM_SCREENS, picture.side, picture.side, picture.planes)
    drawn = th.randint(0, 256, shape, dtype=th.uint8, generator=th.Generator().manual_seed(3))
    return blocked_screens(drawn).to(device)


def some_replay(members: int, device: str = "cpu", *, count: int = 60, capacity: int = 50) -> DeviceReplay:
    g = th.Generator().manual_seed(0)
    shape = (members, count)
    keys = [th.randint(0, NUM_SCREENS, (*shape, 5), generator=g) for _ in range(2)]
    replay = DeviceReplay(members, capacity, key_length=5, device=device)
    parts = [
        *keys, th.randint(0, NUM_ACTIONS, shape, generator=g), th.randn(shape, generator=g),
        th.randn(shape, generator=g), th.rand(shape, generator=g) < 0.7, th.rand(shape, generator=g) < 0.8,
    ]  # fmt: skip
    replay.extend(DeviceTransitions(*(part.to(device) for part in parts)))
    return replay


def some_table() -> Table:
    """12 states with random screens; episodes start in state 3."""
    rng = np.random.default_rng(1)
    mdp = TabularMDP.deterministic(
        rng.integers(-1, 12, size=(12, NUM_ACTIONS)), rng.normal(size=(12, NUM_ACTIONS)), horizon=6, stickiness=0.25,
        start_states=np.array([3], np.int32), screen_mapping=rng.integers(NUM_SCREENS, size=12),
    )  # fmt: skip
    frames = rng.integers(256, size=(NUM_SCREENS + 1, 84, 84), dtype=np.uint8)
    return Table(mdp, View((84, 84), (84, 84, 4), np.asarray, frames_as_channels, stacked=4), frames)


def corridor() -> Table:
    """Three steps; action 0 ends the episode and pays 1 in the last step, action 1 goes on and pays 10 in the last step."""
    mdp = TabularMDP.deterministic(
        [[-1, 1], [-1, 2], [-1, -1]], [[0.0, 0.0], [0.0, 0.0], [1.0, 10.0]], horizon=3, screen_mapping=np.arange(3)
    )
    frames = np.zeros((4, 36, 36), np.uint8)
    for state in range(3):
        frames[state, 12 * state : 12 * state + 12] = 255
    return Table(mdp, View((36, 36), (36, 36, 1), np.asarray, frames_as_channels), frames)


class Reference(nn.Module):
    """NatureCNN in torch.nn; with `k` its outputs are (B, k, A)."""

    def __init__(self, outputs: int, planes: int = 4, flat: int = 3136, k: int | None = None) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(planes, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3)
        self.dense, self.head = nn.Linear(flat, 512), nn.Linear(512, outputs)
        self.k = k

    def forward(self, x: th.Tensor) -> th.Tensor:
        x = self.conv3(self.conv2(self.conv1(x).relu()).relu()).relu()
        out = self.head(self.dense(x.flatten(1)).relu())
        return out if self.k is None else out.unflatten(1, (self.k, -1))


def reference_of(layout: Layout, flat: th.Tensor, member: int) -> Reference:
    """The network of one member."""
    net = Reference(layout.num_outputs, layout.picture.inputs, layout.picture.flat)
    net.load_state_dict({name: w[member].cpu() for name, w in unpack(layout, flat).items()})
    return net


def networks_over(
    table: DeviceTable, outputs: int, members: int, *, rate: float, batch_size: int, dtype: th.dtype = th.float32,
    kernels: bool = False, initialize: Initialize = default_weights,
) -> tuple[Networks, Learner]:  # fmt: skip
    layout = Layout(outputs, table.picture)
    flat = initial_weights(layout, list(range(members)), initialize=initialize, device=table.device)
    networks = make_networks(
        layout, table.screens, members=members, batch_size=batch_size, key_length=table.key_length, dtype=dtype,
        kernels=kernels,
    )  # fmt: skip
    return networks, Learner.start(flat, rate=rate)


def some_ppo(device: str = "cpu", dtype: th.dtype = th.float32, *, kernels: bool = False) -> PPOPopulation:
    table, paper = device_table(some_table(), reward_factor=2.0, device=device), PPO_SETTINGS.hyperparameters
    networks, learner = networks_over(
        table, NUM_ACTIONS + 1, 2, rate=paper.learning_rate, batch_size=paper.batch_size, dtype=dtype, kernels=kernels
    )
    return PPOPopulation(PPO_SETTINGS, networks, learner, DeviceLanes(table, th.arange(2, device=device), LANES))


def some_dqn(device: str = "cpu", dtype: th.dtype = th.float32, *, kernels: bool = False) -> DQNPopulation:
    table, paper = device_table(some_table(), reward_factor=2.0, device=device), DQN_SETTINGS.hyperparameters
    networks, learner = networks_over(
        table, NUM_ACTIONS, 2, rate=paper.learning_rate, batch_size=paper.batch_size, dtype=dtype, kernels=kernels
    )
    lanes = DeviceLanes(table, th.arange(2, device=device), LANES)
    return DQNPopulation(DQN_SETTINGS, networks, learner, lanes, DeviceReplay(2, 100, key_length=5, device=device))


def one_update(ppo: PPOPopulation) -> None:
    """A rollout and its first gradient step."""
    for _ in range(PPO_SETTINGS.rollout):
        ppo.act()
    ppo.finish()
    ppo.shuffle()
    ppo.descend()


def means_of(trainer: Trainer, table: Table, *, episodes: int = 5, number: int = 0) -> list[float]:
    """The mean returns of the members' policies in the units of the table."""
    rewards = th.tensor(table.mdp.rewards.reshape(-1), dtype=th.float64, device=trainer.seeds.device)
    evaluator = Evaluator(trainer.table, rewards, trainer.policies(episodes), trainer.seeds, episodes)
    return evaluator.sampled(number)[0].tolist()
