"""SQIRL, PPO and DQN of populations: gradients against the formulas of Stable-Baselines3, and learning on a corridor."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch as th
from torch import nn
from torch.nn import functional as F

from population_cases import (
    DQN_SETTINGS,
    PPO_SETTINGS,
    Reference,
    corridor,
    means_of,
    one_update,
    reference_of,
    relative,
    some_dqn,
    some_ppo,
)
from sqirl.algorithms.dqn import hyperparameters as dqn_numbers
from sqirl.algorithms.population.batch import Learner
from sqirl.algorithms.population.dqn import DQNSettings, make_dqn
from sqirl.algorithms.population.layout import ATARI, Layout, orthogonal_weights, unpack
from sqirl.algorithms.population.plain import observations
from sqirl.algorithms.population.ppo import (
    ADAM_EPSILON,
    PPOPopulation,
    PPOSettings,
    advantages,
    draw_actions,
    make_ppo,
)
from sqirl.algorithms.population.sqirl import Member, SQIRLPopulation, SQIRLSettings
from sqirl.algorithms.population.table import device_table
from sqirl.algorithms.population.trainer import EVALUATION_GRID
from sqirl.algorithms.ppo import hyperparameters as ppo_numbers
from sqirl.algorithms.sqirl import hyperparameters as sqirl_numbers
from sqirl.errors import SqirlError


def compare_gradients(learner: Learner, layout: Layout, nets: list[Reference], tolerance: float) -> None:
    """After one step the first moment of Adam is a tenth of the gradient."""
    found = unpack(layout, 10 * learner.first)
    for member, net in enumerate(nets):
        for name, w in net.named_parameters():
            error = relative(found[name][member].cpu(), w.grad)
            assert error < tolerance, (name, error)


def test_ppo_gradient_equals_the_formulas_of_stable_baselines3() -> None:
    ppo = some_ppo()
    start = ppo.learner.flat.clone()
    one_update(ppo)
    nets = []
    for member in range(2):
        net = reference_of(ppo.networks.layout, start, member)
        index = ppo.order[member, : PPO_SETTINGS.hyperparameters.batch_size]
        out = net(observations(ppo.networks.screens, ppo.samples.keys[member, index][None], ATARI)[0])
        distribution = th.distributions.Categorical(logits=out[:, :-1])
        advantage = ppo.samples.advantages[member, index]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = th.exp(distribution.log_prob(ppo.samples.actions[member, index]) - ppo.samples.log[member, index])
        clipped = th.clamp(ratio, 1 - 0.1, 1 + 0.1)
        policy_loss = -th.min(advantage * ratio, advantage * clipped).mean()
        value_loss = F.mse_loss(ppo.samples.returns[member, index], out[:, -1])
        (policy_loss - 0.01 * distribution.entropy().mean() + 0.5 * value_loss).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        nets.append(net)
    compare_gradients(ppo.learner, ppo.networks.layout, nets, 1e-4)


def test_dqn_gradient_equals_the_formulas_of_stable_baselines3() -> None:
    dqn = some_dqn()
    for _ in range(5):
        dqn.act()
    start = dqn.learner.flat.clone()
    dqn.descend()
    nets = []
    for member in range(2):
        net, target = (reference_of(dqn.networks.layout, start, member) for _ in range(2))
        seen = observations(dqn.networks.screens, dqn.batch.keys, ATARI)[member]
        with th.no_grad():
            next_values = target(seen[8:]).max(dim=1).values
            wanted = dqn.batch.rewards[member] + dqn.batch.goes_on[member] * 0.9 * next_values
        current = th.gather(net(seen[:8]), 1, dqn.batch.actions[member].long()[:, None])[:, 0]
        F.smooth_l1_loss(current, wanted).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10)
        nets.append(net)
    compare_gradients(dqn.learner, dqn.networks.layout, nets, 1e-4)


def test_advantages_equal_a_loop() -> None:
    th.manual_seed(0)
    rewards, values, ends, last = th.randn(7, 2), th.randn(7, 2), th.rand(7, 2) < 0.3, th.randn(2)
    found = advantages(rewards, values, ends, last, PPO_SETTINGS)
    for lane in range(2):
        expected = 0.0
        for t in reversed(range(7)):
            going = 1.0 - float(ends[t, lane])
            next_value = float(values[t + 1, lane]) if t < 6 else float(last[lane])
            delta = float(rewards[t, lane]) + 0.9 * next_value * going - float(values[t, lane])
            expected = delta + 0.9 * 0.95 * going * expected
            assert abs(expected - float(found[t, lane])) < 1e-4


def test_actions_are_drawn_with_their_probabilities() -> None:
    logits = th.tensor([0.0, 1.0, -1.0]).expand(1, 30_000, 3)
    actions, log = draw_actions(logits, th.rand(1, 30_000, generator=th.Generator().manual_seed(0)))
    shares = th.bincount(actions[0].long(), minlength=3) / 30_000
    assert th.allclose(shares, logits[0, 0].softmax(0), atol=0.01)
    assert th.allclose(log[0], logits[0].log_softmax(-1).gather(1, actions[0].long()[:, None])[:, 0])


def test_a_rollout_that_is_no_multiple_of_the_batch_is_refused() -> None:
    ppo = some_ppo()
    with pytest.raises(SqirlError, match="no multiple of batch_size = 8"):
        PPOPopulation(replace(PPO_SETTINGS, rollout=7), ppo.networks, ppo.learner, ppo.lanes)


def test_epsilon_and_target_follow_their_schedules() -> None:
    settings = DQNSettings(epsilon_steps=100)
    found = settings.epsilons(th.tensor([0, 50, 100, 1000]))
    assert th.allclose(found, th.tensor([1.0, 0.505, 0.01, 0.01]), atol=1e-6)
    dqn = some_dqn()
    dqn.settings = replace(DQN_SETTINGS, hyperparameters=replace(dqn_numbers.PAPER, target_update_interval=8))
    dqn.round()
    assert not th.equal(dqn.target_flat, dqn.learner.flat)
    before = dqn.learner.flat.clone()
    dqn.round()
    assert th.equal(dqn.target_flat, before)  # copied after the second step of four lanes, before its gradient step


def test_a_round_of_the_authors_dqn_is_four_steps_and_a_gradient_step() -> None:
    """One lane, four steps, one gradient step; the target follows every 1,000 steps."""
    table = device_table(corridor())
    paper = replace(dqn_numbers.AUTHORS_CODE, batch_size=8, buffer_size=100, target_update_interval=8)
    dqn = make_dqn(table, [0, 1], DQNSettings(hyperparameters=paper), num_lanes=1, dtype=th.float32)
    start = dqn.learner.flat.clone()
    dqn.round()
    assert dqn.steps() == [4, 4] and dqn.lanes.counts.tolist() == [4, 4] and dqn.learner.steps.tolist() == [1, 1]
    assert th.equal(dqn.target_flat, start)
    first = dqn.learner.flat.clone()
    dqn.round()
    assert dqn.replay.sizes.tolist() == [8, 8] and th.equal(dqn.target_flat, first)


def test_dqn_plays_blocks_of_steps() -> None:
    """`play` ends with the first whole round at or after another thousand steps."""
    table, paper = device_table(corridor()), replace(dqn_numbers.PAPER, batch_size=1, buffer_size=10)
    dqn = make_dqn(table, [0], DQNSettings(hyperparameters=paper), num_lanes=300, dtype=th.float32)
    found = []
    for _ in range(3):
        dqn.play()
        dqn.learn()
        found += dqn.steps()
    assert found == [1200, 2100, 3000] and EVALUATION_GRID == 1000 and not dqn.is_finished


def test_the_weights_of_ppo_start_as_in_stable_baselines3() -> None:
    layers = {"dense": nn.Linear(40, 30), "head": nn.Linear(30, 4)}
    orthogonal_weights(layers)
    assert th.allclose(layers["dense"].weight @ layers["dense"].weight.T, 2 * th.eye(30), atol=1e-5)
    logits, value = layers["head"].weight[:-1], layers["head"].weight[-1]
    assert th.allclose(logits @ logits.T, 1e-4 * th.eye(3), atol=1e-7) and abs(value.norm().item() - 1) < 1e-5
    assert not layers["head"].bias.any()


def test_the_specs_use_the_numbers_of_the_paper() -> None:
    """Appendix C, and the defaults of Stable-Baselines3 that the populations repeat."""
    ppo, dqn, sqirl = ppo_numbers.PAPER, dqn_numbers.PAPER, sqirl_numbers.PAPER
    assert list(asdict(ppo).values()) == [256, 4, 2.5e-4, 0.95, 0.01, 0.1, 0.5, 0.5]
    assert list(asdict(dqn).values()) == [0, 100_000, 8_000, 0.01, 32, 1, 1e-4, 10.0]
    assert list(asdict(sqirl).values()) == [1e-4, 1_000_000, 128, 10, 0.99, None, False]
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", device="cpu")
    assert model.policy.optimizer.defaults["eps"] == ADAM_EPSILON and model.max_grad_norm == ppo.max_grad_norm
    assert stable_baselines3.DQN("MlpPolicy", "CartPole-v1", device="cpu").max_grad_norm == dqn.max_grad_norm


def test_sqirl_solves_a_corridor() -> None:
    paper = replace(sqirl_numbers.PAPER, learning_rate=1e-3, batch_size=32, buffer_size=500)
    members = [Member(0, 1, 40), Member(1, 2, 20)]
    population = SQIRLPopulation(
        device_table(corridor(), reward_factor=10.0), members, SQIRLSettings(hyperparameters=paper), dtype=th.float32
    )
    for _ in range(3):
        assert not population.is_finished
        population.play()
        population.learn()
    assert population.is_finished and means_of(population, corridor()) == [10.0, 10.0]
    assert population.learner.steps.tolist() == [3 * 38, 3 * 19]  # ⌈10·m·T / 32⌉ in each iteration
    assert int(population.replay.sizes[1]) < int(population.replay.sizes[0]) <= 500


def test_ppo_solves_a_corridor() -> None:
    table, paper = device_table(corridor(), reward_factor=10.0), replace(ppo_numbers.PAPER, batch_size=64)
    settings = PPOSettings(rollout=16, hyperparameters=paper)
    ppo = make_ppo(table, [0, 1], settings, num_lanes=8, dtype=th.float32)
    for _ in range(12):
        ppo.play()
        ppo.learn()
    assert means_of(ppo, corridor()) == [10.0, 10.0] and ppo.steps() == [12 * 16 * 8] * 2
    assert ppo.lanes.counts.tolist() == [12 * 16] * 2 and ppo.learner.steps.tolist() == [12 * 4 * 2] * 2


def test_dqn_solves_a_corridor() -> None:
    table = device_table(corridor(), reward_factor=10.0)
    paper = replace(dqn_numbers.PAPER, learning_rate=5e-4, target_update_interval=80, buffer_size=1000)
    settings = DQNSettings(epsilon_steps=500, hyperparameters=paper)
    dqn = make_dqn(table, [0, 1], settings, num_lanes=8, dtype=th.float32)
    for _ in range(80):
        dqn.round()
    assert means_of(dqn, corridor()) == [10.0, 10.0]
    assert dqn.learner.steps.tolist() == [160, 160] and dqn.steps() == [640, 640]
