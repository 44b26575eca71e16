"""MiniGrid on the device and its variant "paper": networks against the CPU path, clocks, truncated episodes, learning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.policies import ActorCriticCnnPolicy
from stable_baselines3.dqn.policies import CnnPolicy
from torch import nn
from torch.nn import functional as F

from population_cases import means_of, relative
from sqirl.algorithms.dqn.replay import TableReplayBuffer
from sqirl.algorithms.networks import MiniGridCNN, MiniGridPaperCNN, Population, QNetwork, policy_arguments
from sqirl.algorithms.population.batch import DeviceBatch, Heads, Learner, LossSettings
from sqirl.algorithms.population.dqn import dqn_losses
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.grid_layout import Grid, GridLayout
from sqirl.algorithms.population.grid_networks import GridNetworks
from sqirl.algorithms.population.lanes import DeviceLanes
from sqirl.algorithms.population.layout import FlatLayout, initial_weights, orthogonal_weights, pack, unpack
from sqirl.algorithms.population.networks import layout_of, make_networks, torch_networks
from sqirl.algorithms.population.ppo import Samples, ppo_losses
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.sqirl import Member, SQIRLPopulation, SQIRLSettings
from sqirl.algorithms.population.table import device_table
from sqirl.algorithms.ppo.hyperparameters import PAPER as PPO_PAPER
from sqirl.algorithms.sqirl import gradient_step as deep
from sqirl.algorithms.sqirl import hyperparameters as sqirl_numbers
from sqirl.envs.description import describe
from sqirl.envs.suites import OURS, PAPER
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import END
from sqirl.play.table import Table, load_table
from sqirl.play.training_env import training_env

EMPTY, KEYS = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", "BRIDGE/MiniGrid-KeyCorridorS3R1-Sticky-v0"
#: (level, variant); the grids of KEYS are 7×3, too small for three convolutions of 2×2
CASES = [(EMPTY, OURS), (KEYS, OURS), (EMPTY, PAPER), (KEYS, PAPER)]
BATCH = 12


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads are slow while another process holds a core."""
    before = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(before)


@pytest.fixture(params=["written out", "autograd"])
def gradients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How networks on a CPU compute gradients: as on CPUs, or as on GPUs."""
    if request.param == "autograd":
        monkeypatch.setattr("sqirl.algorithms.population.networks.CpuGridNetworks", GridNetworks)
    return request.param


def loaded(name: str, variant: str) -> Table:
    table = load_table(describe(name, variant=variant))
    assert table is not None
    return table


def network_of(variant: str) -> str:
    return "minigrid" if variant == OURS else "minigrid-paper"


def some_keys(table: Table, *shape: int, seed: int = 0) -> th.Tensor:
    """Random screens, the blank one included, and times; a third of the keys has time 0."""
    g = th.Generator().manual_seed(seed)
    times = th.randint(-table.horizon // 2, table.horizon + 1, shape, generator=g).clamp(min=0)
    return th.stack([th.randint(0, len(table.frames), shape, generator=g), times], dim=-1).int()


def pictures(table: Table, keys: th.Tensor) -> th.Tensor:
    """(…, 4, W, H) uint8: the observations of the CPU path."""
    seen = table.observations(keys.flatten(0, -2).numpy())
    return th.from_numpy(np.moveaxis(seen, -1, 1).copy()).unflatten(0, keys.shape[:-1])


def member_weights(layout: FlatLayout, flat: th.Tensor, member: int) -> list[th.Tensor]:
    """Weights and biases in the order in which torch.nn and Stable-Baselines3 list them; the head of PPO is split."""
    found = [tensor[member] for tensor in unpack(layout, flat).values()]
    if not (isinstance(layout, GridLayout) and layout.actor_critic) or layout.has_towers:
        return found
    weight, bias = found[-2:]
    return [*found[:-2], weight[:-1], bias[:-1], weight[-1:], bias[-1:]]


def set_weights(module: nn.Module, weights: list[th.Tensor]) -> None:
    with th.no_grad():
        for parameter, weight in zip(module.parameters(), weights, strict=True):
            parameter.copy_(weight)


def compare(found: list[th.Tensor], module: nn.Module) -> None:
    for gradient, parameter in zip(found, module.parameters(), strict=True):
        assert relative(gradient, parameter.grad) < 1e-4


# Weights and tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["minigrid", "minigrid-paper"])
@pytest.mark.parametrize("actor_critic", [False, True])
def test_unpack_inverts_pack(network: str, actor_critic: bool) -> None:
    layout = GridLayout(7, Grid(7, 3, (255, 0), network), actor_critic)
    flat = initial_weights(layout, [0, 1])
    assert th.equal(pack(layout, unpack(layout, flat)), flat)
    names = {name.split(".")[0] for name in unpack(layout, flat)}
    assert ({"policy1", "value2", "policy_head", "value_head"} <= names) == layout.has_towers
    assert layout.has_towers == (actor_critic and network == "minigrid-paper")


def test_networks_that_do_not_fit_the_table_are_refused() -> None:
    table = loaded(EMPTY, OURS)
    with pytest.raises(SqirlError, match="has a clock, which the network 'nature' does not see"):
        device_table(table)
    with pytest.raises(SqirlError, match="the network 'impala'"):
        device_table(table, network="impala")
    with pytest.raises(SqirlError, match="no grids with a clock"):
        device_table(replace(table, view=replace(table.view, uses_clock=False)), network="minigrid")
    with pytest.raises(SqirlError, match="'nature' is not a network for grids"):
        Grid(5, 5, (0,), "nature")


def test_rows_are_evaluated_in_parts_if_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    table = loaded(EMPTY, OURS)
    on_device = device_table(table, network="minigrid")
    layout = layout_of(on_device, 3)
    networks = torch_networks(layout, on_device.screens)
    networks.load(initial_weights(layout, [0, 1]))
    keys = some_keys(table, 2, 9)
    whole = networks.outputs(keys)
    monkeypatch.setattr("sqirl.algorithms.population.grid_networks.MOST_CELLS", 2 * 25 * 4)
    assert th.allclose(networks.outputs(keys), whole, atol=1e-6)


# Outputs and gradients -----------------------------------------------------------------------------------------------


def random_replay(table: Table, members: int) -> DeviceReplay:
    g, shape = th.Generator().manual_seed(0), (members, 60)
    replay = DeviceReplay(members, 50, key_length=2, device="cpu")
    replay.extend(
        DeviceTransitions(
            some_keys(table, *shape, seed=1), some_keys(table, *shape, seed=2),
            th.randint(0, table.mdp.num_actions, shape, generator=g), th.randn(shape, generator=g),
            th.randn(shape, generator=g), th.rand(shape, generator=g) < 0.7, th.ones(shape, dtype=th.bool),
        )
    )  # fmt: skip
    return replay


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_steps_equal_those_of_deep_sqirl(name: str, variant: str) -> None:
    """Three steps of two members, k = 2: weights and losses are those of `sqirl.algorithms.sqirl.gradient_step`."""
    table, gamma = loaded(name, variant), 0.9
    on_device, heads = device_table(table, network=network_of(variant)), Heads(2, table.mdp.num_actions)
    layout = layout_of(on_device, heads.num_outputs)
    learner = Learner.start(initial_weights(layout, [4, 5]), heads, rate=1e-3)
    settings = StepSettings(heads, BATCH, on_device.picture, LossSettings(gamma))
    step = SQIRLStep(settings, learner, random_replay(table, 2), on_device.screens, th.tensor([8, 9]))
    space = gym.spaces.Box(0, 255, (4, *table.frames.shape[1:3]), np.uint8)
    extractor, hidden = (MiniGridCNN, ()) if variant == OURS else (MiniGridPaperCNN, (64, 64))
    population = Population(
        lambda: QNetwork(extractor(space), hidden=hidden, k=2, num_actions=table.mdp.num_actions), 2
    )
    set_weights(population, list(unpack(layout, learner.flat).values()))
    optimizer = th.optim.Adam(population.parameters(), lr=1e-3)
    averages = deep.LossAverages(settings.loss.smoothing, th.zeros(2, 2))
    place = th.arange(BATCH).expand(2, -1)
    for number in range(3):
        step()
        b = step.batch
        seen = pictures(table, b.keys).float() / 255
        batch = deep.Batch(seen, BATCH, place, place + BATCH, b.goes_on, b.actions.long(), b.rewards, b.returns)
        losses = deep.gradient_step(population, optimizer, averages, batch, gamma)
        assert th.allclose(learner.losses, losses, rtol=1e-3)
        if number == 0:  # the first moment of Adam is a tenth of the gradient
            compare(list(unpack(layout, 10 * learner.first).values()), population)
    found = unpack(layout, learner.flat).values()
    assert all(relative(a, b) < 1e-4 for a, b in zip(found, population.weights.values(), strict=True))


def sb3_policy(kind: type, table: Table, variant: str) -> nn.Module:
    """The policy that Stable-Baselines3 makes of our arguments."""
    space = gym.spaces.Box(0, 255, (4, *table.frames.shape[1:3]), np.uint8)
    arguments = policy_arguments(network_of(variant), actor_critic=kind is ActorCriticCnnPolicy)["policy_kwargs"]
    policy: nn.Module = kind(space, gym.spaces.Discrete(table.mdp.num_actions), lambda _: 1e-3, **arguments)
    return policy


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_ppo_equals_stable_baselines3(name: str, variant: str) -> None:
    """Values, log-probabilities and the gradient of PPO's loss, with the policy class that PPO uses."""
    table, g = loaded(name, variant), th.Generator().manual_seed(0)
    on_device, actions = device_table(table, network=network_of(variant)), table.mdp.num_actions
    layout = layout_of(on_device, actions + 1, actor_critic=True)
    flat = initial_weights(layout, [4, 5])
    networks = torch_networks(layout, on_device.screens)
    samples = Samples(
        some_keys(table, 2, BATCH), th.randint(0, actions, (2, BATCH), generator=g).int(),
        *(th.randn(2, BATCH, generator=g) for _ in range(3)),
    )  # fmt: skip
    leaf, out = networks.learn(flat, samples.keys, BATCH)
    (gradient,) = th.autograd.grad(ppo_losses(out, samples, PPO_PAPER).sum(), leaf)
    for member in range(2):
        policy = sb3_policy(ActorCriticCnnPolicy, table, variant)
        set_weights(policy, member_weights(layout, flat, member))
        seen, taken = pictures(table, samples.keys[member]), samples.actions[member].long()
        values, log, entropy = policy.evaluate_actions(seen, taken)
        assert relative(out[member, :, -1], values[:, 0]) < 1e-4
        assert relative(F.log_softmax(out[member, :, :-1], -1).gather(1, taken[:, None])[:, 0], log) < 1e-4
        advantage = samples.advantages[member]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = th.exp(log - samples.log[member])
        policy_loss = -th.min(advantage * ratio, advantage * th.clamp(ratio, 0.9, 1.1)).mean()
        value_loss = F.mse_loss(samples.returns[member], values.flatten())
        (policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss).backward()
        compare(member_weights(layout, gradient, member), policy)


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_dqn_equals_stable_baselines3(name: str, variant: str) -> None:
    table = loaded(name, variant)
    on_device, actions = device_table(table, network=network_of(variant)), table.mdp.num_actions
    layout = layout_of(on_device, actions)
    flat, target = initial_weights(layout, [4, 5]), initial_weights(layout, [6, 7])
    networks = make_networks(layout, on_device.screens, members=2, batch_size=BATCH, key_length=2)
    batch = DeviceBatch.empty(2, BATCH, key_length=2, with_next=True, device="cpu")
    replay = random_replay(table, 2)
    replay.sample(batch, th.tensor([8, 9]), th.zeros(2, dtype=th.int64))
    next_values = networks.separate(BATCH, target).outputs(batch.keys[:, BATCH:])
    leaf, out = networks.learn(flat, batch.keys[:, :BATCH], BATCH)
    (gradient,) = th.autograd.grad(dqn_losses(out, next_values, batch, 0.99).sum(), leaf)
    for member in range(2):
        policy = sb3_policy(CnnPolicy, table, variant)
        set_weights(policy.q_net, member_weights(layout, flat, member))
        set_weights(policy.q_net_target, member_weights(layout, target, member))
        seen = pictures(table, batch.keys[member])
        with th.no_grad():
            best = policy.q_net_target(seen[BATCH:]).max(dim=1).values
        wanted = batch.rewards[member] + 0.99 * batch.goes_on[member] * best
        values = policy.q_net(seen[:BATCH])
        assert relative(out[member], values) < 1e-4
        F.smooth_l1_loss(values.gather(1, batch.actions[member].long()[:, None])[:, 0], wanted).backward()
        compare(member_weights(layout, gradient, member), policy.q_net)


@pytest.mark.parametrize("variant", [OURS, PAPER])
def test_the_weights_of_ppo_start_as_in_stable_baselines3(variant: str) -> None:
    """Singular values of every layer, and biases, are those of the policy class."""
    table = loaded(EMPTY, variant)
    layout = layout_of(device_table(table, network=network_of(variant)), 4, actor_critic=True)
    weights = member_weights(layout, initial_weights(layout, [0], initialize=orthogonal_weights), 0)
    policy = sb3_policy(ActorCriticCnnPolicy, table, variant)
    for found, expected in zip(weights, policy.parameters(), strict=True):
        if found.ndim == 1:
            assert not found.any() and not expected.any()
        else:
            values, wanted = (th.linalg.svdvals(w.detach().flatten(1)) for w in (found, expected))
            assert th.allclose(values, wanted, atol=1e-5)


# Clocks and truncated episodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [OURS, PAPER])
def test_lanes_have_the_keys_of_the_table_and_say_what_was_cut(variant: str) -> None:
    table = loaded(EMPTY, variant)
    table = replace(table, mdp=table.mdp.sticky(0.0))
    lanes = DeviceLanes(device_table(table, network=network_of(variant)), th.tensor([1, 2]), 3)
    states, kinds = np.zeros(6, np.int64), set()
    for _ in range(4 * table.horizon):
        keys, t, actions = (
            lanes.keys.flatten(0, 1).numpy().copy(),
            lanes.t.flatten().numpy() + 1,
            lanes.random_actions(),
        )
        _, ends, after = lanes.step(actions)
        states = table.mdp.transitions[states, actions.flatten().numpy()]
        assert np.array_equal(after.flatten(0, 1).numpy(), table.next_keys(keys, states, t))
        over, late = states == END, t == table.horizon
        assert np.array_equal(ends.flatten().numpy(), over | late)
        assert np.array_equal(lanes.cut.flatten().numpy(), late & ~over & (variant == PAPER))
        kinds |= {(bool(a), bool(b)) for a, b in zip(over, late, strict=True)}
        states[over | late] = 0
    assert {(True, False), (False, True)} <= kinds


def test_the_clock_of_the_paper_stops_after_the_first_step() -> None:
    paper, ours = loaded(EMPTY, PAPER), loaded(EMPTY, OURS)
    keys = np.array([[0, 0], [0, 1], [0, 50], [0, 100]], np.int32)
    assert paper.observations(keys)[:, 0, 0, 3].tolist() == [1, 0, 0, 0]
    assert ours.observations(keys)[:, 0, 0, 3].tolist() == [255, 252, 128, 0]
    assert np.array_equal(paper.observations(keys)[..., :3], ours.observations(keys)[..., :3])
    live = describe(EMPTY, variant=PAPER).make_env()
    first, second = live.reset(seed=0)[0], live.step(0)[0]
    assert (first[..., 3] == 1).all() and not second[..., 3].any()


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("variant", [OURS, PAPER])
def test_the_horizon_truncates_episodes_of_the_paper_only(live: bool, variant: str) -> None:
    env = training_env(describe(EMPTY, variant=variant), live=live, num_envs=2)
    env.reset()
    for _ in range(100):
        observations, _, ends, infos = env.step(np.array([0, 0]))  # turning on the spot never ends the game
    assert ends.all()
    for info in infos:
        assert info["TimeLimit.truncated"] == (variant == PAPER)
        assert info["episode"]["l"] == 100 and info["terminal_observation"].shape == (5, 5, 4)
        assert info["terminal_observation"][..., :3].any() and not info["terminal_observation"][..., 3].any()
    assert observations[0, 0, 0, 3] == (1 if variant == PAPER else 255)  # a new episode


def test_the_end_of_the_game_is_not_truncated() -> None:
    env = training_env(describe("BRIDGE/MiniGrid-Empty-5x5-v0", variant=PAPER))
    env.reset()
    for action in (2, 2, 1, 2, 2):
        _, rewards, ends, infos = env.step(np.array([action]))
    assert ends.all() and rewards[0] == 1 and not infos[0]["TimeLimit.truncated"]


def test_dqn_learns_the_same_from_keys_as_from_pictures() -> None:
    """Stable-Baselines3's own buffer is the second implementation of truncated ends."""
    arguments = {"learning_starts": 0, "buffer_size": 500, "train_freq": 1, "batch_size": 8, "seed": 3, "device": "cpu",
                 **policy_arguments("minigrid")}  # fmt: skip
    keys, shown = (training_env(describe(EMPTY, variant=PAPER), num_envs=2) for _ in range(2))
    by_keys = DQN(env=keys, replay_buffer_class=TableReplayBuffer, replay_buffer_kwargs={"env": keys.unwrapped},
                  **arguments).learn(400)  # fmt: skip
    by_pictures = DQN(env=shown, **arguments).learn(400)
    assert all(map(th.equal, by_keys.policy.parameters(), by_pictures.policy.parameters()))
    replay = by_keys.replay_buffer
    late = replay.next_keys[: replay.pos, :, -1] == 100
    assert late.any() and not replay.dones[: replay.pos][late].any()


def test_ppo_bootstraps_where_an_episode_is_truncated() -> None:
    """No reward in 100 steps of turning and bumping; the rollout buffer holds γ·V of the last observation."""
    found = {}
    for variant in (OURS, PAPER):
        env = training_env(describe("BRIDGE/MiniGrid-DoorKey-8x8-Sticky-v0", variant=variant))
        arguments = policy_arguments(network_of(variant), actor_critic=True)
        model = PPO(env=env, n_steps=120, batch_size=120, seed=0, device="cpu", **arguments).learn(120)
        found[variant] = np.flatnonzero(model.rollout_buffer.rewards[:, 0]).tolist()
    assert found == {OURS: [], PAPER: [99]}


# Learning ------------------------------------------------------------------------------------------------------------


def test_sqirl_solves_an_empty_room() -> None:
    """Within 16 steps; the optimal return is 0.998, that of random play 0.098."""
    room = loaded(EMPTY, OURS)
    room = replace(room, mdp=replace(room.mdp, horizon=16))
    table = device_table(room, network="minigrid")
    paper = replace(sqirl_numbers.PAPER, learning_rate=1e-3, batch_size=64, buffer_size=20_000, n_epochs=4)
    population = SQIRLPopulation(table, [Member(0, 1, 60)], SQIRLSettings(hyperparameters=paper))
    for _ in range(3):
        population.play()
        population.learn()
    assert means_of(population, room, episodes=500)[0] > 0.97
