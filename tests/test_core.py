"""The mathematics of deep SQIRL: targets by hand, populations against single networks, buffers against lists."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.torch_layers import NatureCNN
from torch import nn

from sqirl.algorithms.networks import ImpalaCNN, MiniGridCNN, Population, QNetwork
from sqirl.algorithms.sqirl import gradient_step as core
from sqirl.algorithms.sqirl.policy import FrozenWeights
from sqirl.algorithms.sqirl.replay import Replay, distinct_observations
from sqirl.errors import SqirlError
from sqirl.play.episodes import Episodes, Transitions
from sqirl.play.live import FrameMemory

K, A = 3, 4


def small_network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, K * A), nn.Unflatten(1, (K, A)))


def random_batch(members: int, seed: int = 0, size: int = 12) -> core.Batch:
    rng = th.Generator().manual_seed(seed)

    def integers(high: int) -> th.Tensor:
        return th.randint(0, high, (members, size), generator=rng)

    return core.Batch(
        th.randn(members, 9, 5, generator=rng), 6, integers(6), integers(9), integers(2).float(), integers(A),
        th.randn(members, size, generator=rng), th.randn(members, size, generator=rng),
    )  # fmt: skip


def test_targets_and_losses_as_defined() -> None:
    population, batch, gamma = Population(small_network), random_batch(1), 0.9
    with th.no_grad():
        q = population(batch.observations)[0]  # (U, K, A)
        expected = th.zeros(K)
        for b in range(12):
            s, s_next, a = batch.place[0, b], batch.next_place[0, b], batch.actions[0, b]
            for j in range(K):
                ahead = q[s_next, j - 1].max() if j and batch.continues[0, b] else 0.0
                y = batch.returns[0, b] if j == 0 else batch.rewards[0, b] + gamma * ahead
                expected[j] += (q[s, j, a] - y) ** 2 / 12
        assert th.allclose(core.losses(batch, population, gamma)[0], expected, atol=1e-6)


def test_no_gradient_flows_through_targets() -> None:
    population, batch = Population(small_network), random_batch(1)
    head = population.stacked[-2]  # weights of the last layer, (1, K·A, 16)
    core.losses(batch, population, 1.0)[0, 1].backward()  # the loss of Q^2, whose target is made of Q^1
    by_q = head.grad.reshape(K, A, 16).abs().sum(dim=(1, 2))
    assert by_q[1] > 0 and by_q[0] == 0 and by_q[2] == 0


def test_a_population_is_its_members() -> None:
    """Three networks in lockstep take the same steps as each of them alone."""
    th.manual_seed(0)
    together, batch = Population(small_network, 3), random_batch(3)
    alone = []
    for member in range(3):
        single = Population(small_network)
        for mine, theirs in zip(single.stacked, together.stacked, strict=True):
            mine.data = theirs.data[member : member + 1].clone()
        alone.append(single)
    averages = core.LossAverages(0.99, th.zeros(3, K))
    optimizer = th.optim.Adam(together.parameters(), lr=1e-2)
    for _ in range(5):
        core.gradient_step(together, optimizer, averages, batch, 0.9)
    for member, single in enumerate(alone):
        part = core.Batch(**{
            name: value if name == "learned" else value[member : member + 1] for name, value in vars(batch).items()
        })  # fmt: skip
        averages = core.LossAverages(0.99, th.zeros(1, K))
        optimizer = th.optim.Adam(single.parameters(), lr=1e-2)
        for _ in range(5):
            core.gradient_step(single, optimizer, averages, part, 0.9)
        assert th.allclose(single.snapshot()[0], together.snapshot()[member], atol=1e-5)


def test_snapshots_bring_weights_back() -> None:
    population, x = Population(small_network, 2), th.randn(2, 4, 5)
    before, block = population(x), population.snapshot()
    for weight in population.stacked:
        weight.data.add_(1.0)
    assert not th.allclose(population(x), before)
    assert th.equal(population(x, population.unpack(block)), before)
    frozen, copy = FrozenWeights(), FrozenWeights()
    frozen.append(block)
    frozen.append(2 * block)
    copy.load_state_dict(frozen.state_dict())
    assert len(copy) == 2 and th.equal(copy.blocks[1], 2 * block)


def test_loss_averages_have_no_bias_at_the_start() -> None:
    averages = core.LossAverages(0.99, th.zeros(1, 1))
    assert averages.update(th.tensor([[4.0]])).item() == pytest.approx(4.0)
    second = averages.update(th.tensor([[2.0]])).item()
    assert second == pytest.approx((0.99 * 4 + 2) / 1.99, rel=1e-5)


@pytest.mark.parametrize(
    ("extractor", "shape"), [(NatureCNN, (4, 84, 84)), (ImpalaCNN, (4, 84, 84)), (MiniGridCNN, (4, 7, 6))]
)
def test_networks_have_k_times_a_outputs_in_populations_too(extractor: type, shape: tuple[int, ...]) -> None:
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    members = [QNetwork(extractor(space), hidden=(), k=2, num_actions=3) for _ in range(2)]
    source = iter(members)
    population = Population(lambda: next(source), 2)
    x = th.randint(0, 11, (2, 5, *shape)) / 255
    assert population(x).shape == (2, 5, 2, 3)
    assert not th.allclose(
        population(x[:1].expand(2, -1, -1, -1, -1))[0], population(x[:1].expand(2, -1, -1, -1, -1))[1]
    )


def transitions(n: int, first: int = 0) -> Transitions:
    keys = np.arange(first, first + n, dtype=np.int32)[:, None]
    return Transitions(keys, keys + 1, np.zeros(n, int), np.zeros(n), np.arange(n, dtype=float), np.ones(n, bool))


def test_the_replay_keeps_the_newest() -> None:
    replay, rng = Replay(5000, 1), np.random.default_rng(0)
    for start in range(0, 12_000, 1500):
        replay.extend(transitions(1500, start))
    kept = np.unique(replay.sample(200_000, rng).keys)
    assert replay.size == 5000 and kept.min() == 7000 and kept.max() == 11_999 and len(kept) == 5000
    replay.extend(transitions(6000, 50_000))
    assert np.unique(replay.sample(100_000, rng).keys).min() == 51_000
    with pytest.raises(SqirlError, match="buffer_size"):
        Replay(0, 1)


def test_a_full_buffer_of_a_table_is_small() -> None:
    assert Replay(1_000_000, 5)._rows.itemsize <= 60


def test_distinct_observations_name_each_once() -> None:
    rng = np.random.default_rng(0)
    n = 64
    samples = Transitions(
        rng.integers(6, size=(n, 2)).astype(np.int32), rng.integers(6, size=(n, 2)).astype(np.int32),
        np.zeros(n, int), np.zeros(n), np.zeros(n), rng.random(n) < 0.7,
    )  # fmt: skip
    d = distinct_observations(samples, with_next=True)
    assert len(np.unique(d.keys, axis=0)) == len(d.keys) and d.place.max() < d.learned
    assert np.array_equal(d.keys[d.place], samples.keys)
    assert np.array_equal(d.keys[d.next_place[samples.continues]], samples.next_keys[samples.continues])
    only = distinct_observations(samples, with_next=False)
    assert only.learned == len(only.keys) == d.learned and np.array_equal(only.keys[only.place], samples.keys)


def test_frames_are_kept_once_and_stacked() -> None:
    memory = FrameMemory(10, (1, 2, 2), np.uint8, stacked=3, num_lanes=2)
    frames = np.arange(1, 9, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2), np.uint8)
    numbers = memory.append(frames, keep=np.ones(8, bool))
    seen = memory.observations(np.array([[0, 0, numbers[0]], [numbers[5], numbers[6], numbers[7]]]))
    assert seen.shape == (2, 3, 2, 2) and seen[:, :, 0, 0].tolist() == [[0, 0, 1], [6, 7, 8]]
    for _ in range(20):  # frames that are only acted on push nothing out
        passing = memory.append(np.full((2, 1, 2, 2), 50, np.uint8), keep=np.zeros(2, bool))
    assert memory.observations(np.array([[numbers[0], passing[0], passing[1]]]))[0, :, 0, 0].tolist() == [1, 50, 50]
    later = memory.append(np.full((6, 1, 2, 2), 99, np.uint8), keep=np.ones(6, bool))
    assert memory.holds(np.array([[0, 0, numbers[3]], [numbers[4], later[0], later[1]]])).tolist() == [False, True]


def test_the_oldest_transitions_are_forgotten_with_their_frames() -> None:
    replay, rng = Replay(10, 1), np.random.default_rng(0)
    replay.extend(transitions(14, first=1))
    replay.forget_until(lambda keys: keys[:, 0] >= 8)
    assert replay.size == 7 and set(replay.sample(200, rng).keys[:, 0].tolist()) == set(range(8, 15))
    copy = Replay(10, 1)
    copy.restore(replay.state())
    for one in (replay, copy):
        one.extend(transitions(5, first=15))
        assert set(one.sample(300, rng).keys[:, 0].tolist()) == set(range(10, 20))
    replay.forget_until(lambda keys: keys[:, 0] > 99)
    assert replay.size == 0


def test_returns_to_go_stop_at_the_ends() -> None:
    played = Episodes(
        keys=np.zeros((4, 1, 1), np.int32), actions=np.zeros((3, 1), int), rewards=np.array([[1.0], [2.0], [4.0]]),
        ends=np.array([[False], [True], [False]]), active=np.ones((3, 1), bool), t=np.array([[0], [1], [0]]),
    )  # fmt: skip
    assert played.returns_to_go(0.5).ravel().tolist() == [2.0, 2.0, 4.0]
    stored = played.since(1)
    assert stored.rewards.tolist() == [2.0] and stored.continues.tolist() == [False]
