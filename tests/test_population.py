"""Networks, losses, Adam, lanes and replay of populations in plain torch, compared with other implementations."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch as th
from torch import nn

from population_cases import (
    NUM_ACTIONS,
    Reference,
    corridor,
    relative,
    some_replay,
    some_screens,
    some_table,
)
from sqirl.algorithms.population import draws, plain
from sqirl.algorithms.population.batch import AdamSettings, DeviceBatch, Heads, Learner, LossSettings
from sqirl.algorithms.population.evaluation import Evaluator, Policies
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.lanes import DeviceLanes, greedy_actions, returns_to_go
from sqirl.algorithms.population.layout import (
    ATARI,
    PROCGEN,
    Layout,
    Picture,
    blocked_screens,
    initial_weights,
    pack,
    plain_screens,
    unpack,
)
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.table import device_table
from sqirl.analysis.archive import archived_analyses
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.play.table import Table, load_table

# Weights and layouts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("picture", [ATARI, PROCGEN])
def test_unpack_inverts_pack(picture: Picture) -> None:
    layout = Layout(13, picture)
    flat = initial_weights(layout, [0, 1])
    assert th.equal(pack(layout, unpack(layout, flat)), flat)


def test_plain_screens_inverts_blocked_screens() -> None:
    grey, coloured = th.randint(0, 256, (2, 84, 84), dtype=th.uint8), th.randint(0, 256, (2, 64, 64, 3), dtype=th.uint8)
    assert th.equal(plain_screens(blocked_screens(grey))[:, 0], grey)
    assert th.equal(plain_screens(blocked_screens(coloured)), coloured.permute(0, 3, 1, 2))


def test_a_picture_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SqirlError, match="multiple of 4"):
        Picture(side=85)


def test_importing_the_population_needs_no_triton() -> None:
    modules = (
        "batch devices dqn draws evaluation gradient_step graph grid_layout grid_networks lanes layout networks plain ppo replay"
        " sqirl table trainer tuning"
    )
    imports = "\n".join(f"import sqirl.algorithms.population.{name}" for name in modules.split())
    blocked = "import sys\nsys.modules['triton'] = sys.modules['stable_baselines3'] = None\n"
    subprocess.run([sys.executable, "-c", blocked + imports], check=True, timeout=120)


# Gradient steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "picture"), [(1, ATARI), (3, ATARI), (2, PROCGEN)])
def test_steps_equal_those_of_deep_sqirl(k: int, picture: Picture) -> None:
    """Three steps of two members: weights and averages of losses are those of `sqirl.algorithms.sqirl.gradient_step`."""
    pytest.importorskip("stable_baselines3")
    from sqirl.algorithms.networks import Population
    from sqirl.algorithms.sqirl import gradient_step as deep

    heads, size, gamma = Heads(k, NUM_ACTIONS), 6, 0.9
    layout, screens = Layout(heads.num_outputs, picture), some_screens(picture=picture)
    learner = Learner.start(initial_weights(layout, [4, 5]), heads, rate=1e-3)
    settings = StepSettings(heads, size, picture, LossSettings(gamma))
    step = SQIRLStep(settings, learner, some_replay(2), screens, th.tensor([8, 9]), dtype=th.float32)
    population = Population(lambda: Reference(heads.num_outputs, picture.inputs, picture.flat, k), 2)
    with th.no_grad():
        for name, weights in population.weights.items():
            weights.copy_(unpack(layout, learner.flat)[name])
    optimizer = th.optim.Adam(population.parameters(), lr=1e-3)
    averages = deep.LossAverages(settings.loss.smoothing, th.zeros(2, k))
    place = th.arange(size).expand(2, -1)
    for _ in range(3):
        step()
        b = step.batch
        seen = plain.observations(screens, b.keys, picture)
        next_place = place + (size if k > 1 else 0)
        batch = deep.Batch(seen, size, place, next_place, b.goes_on, b.actions.long(), b.rewards, b.returns)
        losses = deep.gradient_step(population, optimizer, averages, batch, gamma)
        assert th.allclose(learner.losses, losses, rtol=1e-3)
    found = unpack(layout, learner.flat)
    assert all(relative(found[name], weights) < 1e-4 for name, weights in population.weights.items())
    assert th.allclose(learner.averages, averages.mean, rtol=1e-4)


def test_a_member_with_fewer_heads_learns_as_if_alone() -> None:
    screens, replay = some_screens(), some_replay(1)
    wide, narrow = Heads(3, NUM_ACTIONS), Heads(1, NUM_ACTIONS)
    flat = initial_weights(Layout(wide.num_outputs), [4])
    weights = unpack(Layout(wide.num_outputs), flat)
    cut = {n: w[:, :NUM_ACTIONS] if n.startswith("head") else w for n, w in weights.items()}
    outcomes = []
    for heads, start in ((wide, flat), (narrow, pack(Layout(narrow.num_outputs), cut))):
        learner = Learner.start(start.clone(), heads, rate=1e-3, k=[1])
        step = SQIRLStep(StepSettings(heads, 6), learner, replay, screens, th.tensor([8]), dtype=th.float32)
        step(), step()
        outcomes.append(unpack(Layout(heads.num_outputs), learner.flat))
    for name in outcomes[1]:
        found = outcomes[0][name][:, :NUM_ACTIONS] if name.startswith("head") else outcomes[0][name]
        assert relative(found, outcomes[1][name]) < 1e-5, name


def test_members_that_do_not_run_are_not_changed() -> None:
    heads = Heads(2, NUM_ACTIONS)
    learner = Learner.start(initial_weights(Layout(heads.num_outputs), [4, 5]), heads, rate=1e-3)
    learner.running[1] = 0
    before = learner.flat.clone()
    SQIRLStep(StepSettings(heads, 4), learner, some_replay(2), some_screens(), th.tensor([8, 9]), dtype=th.float32)()
    assert th.equal(learner.flat[1], before[1]) and not th.equal(learner.flat[0], before[0])
    assert learner.steps.tolist() == [1, 0] and not learner.averages[1].any()


def test_clipped_adam_equals_torch() -> None:
    th.manual_seed(0)
    weight = nn.Parameter(th.randn(1, 40))
    learner = Learner.start(weight.detach().clone(), rate=1e-2)
    optimizer = th.optim.Adam([weight], lr=1e-2, eps=1e-5)
    for scale in (1.0, 100.0, 0.01):
        gradient = scale * th.randn(1, 40)
        weight.grad = gradient.clone()
        nn.utils.clip_grad_norm_([weight], 10.0)
        optimizer.step()
        plain.adam(learner, gradient, AdamSettings(epsilon=1e-5, max_norm=10.0))
    assert relative(learner.flat, weight.detach()) < 1e-6


# Random numbers and replay -------------------------------------------------------------------------------------------


def test_philox_known_answers() -> None:
    """The published test vectors of Random123."""
    zero = th.zeros(1, dtype=th.int64)
    assert [int(x) for x in draws.philox(zero, (zero,) * 4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = zero + 0xFFFFFFFF
    assert [int(x) for x in draws.philox(zero - 1, (ones,) * 4)] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_draws_are_uniform_and_differ_by_step_and_stream() -> None:
    seeds, step = th.tensor([1, 2]), th.tensor([0, 0])
    u = draws.uniforms(seeds, draws.STICKY, step, 20_000)
    assert abs(float(u.mean()) - 0.5) < 0.01 and u.min() >= 0 and u.max() < 1
    assert not th.equal(u, draws.uniforms(seeds, draws.STICKY, step + 1, 20_000))
    assert not th.equal(u, draws.uniforms(seeds, draws.ACTIONS, step, 20_000))
    counts = th.bincount(draws.integers(seeds, draws.ACTIONS, step, 20_000, 5)[0], minlength=5)
    assert counts.min() > 3800 and len(counts) == 5


def test_replay_is_a_ring() -> None:
    replay = DeviceReplay(2, 4, key_length=5, device="cpu")
    expected: list[list[float]] = [[], []]
    rng = np.random.default_rng(0)
    for count in (3, 2, 6, 1, 4):
        rewards, valid = rng.random((2, count)).astype(np.float32), rng.random((2, count)) < 0.6
        keys = th.from_numpy(rng.integers(9, size=(2, count, 5)))
        r, v = th.from_numpy(rewards), th.from_numpy(valid)
        replay.extend(DeviceTransitions(keys, keys, r, r, r, v, v))
        for member in range(2):
            expected[member] = (expected[member] + rewards[member][valid[member]].tolist())[-4:]
            size = int(replay.sizes[member])
            places = (int(replay.places[member]) - size + np.arange(size)) % 4
            assert np.allclose(replay.rewards[member].numpy()[places], expected[member])


def test_a_refilled_replay_has_what_was_used() -> None:
    """Of three rings the second has few transitions and the third none; a ring that has wrapped around keeps its place."""
    replay = some_replay(3, count=60, capacity=50)
    few = th.zeros(3, 10, dtype=th.bool)
    few[0, :4] = True
    keys, some = th.ones(3, 10, 5, dtype=th.int32), th.ones(3, 10)
    replay.extend(DeviceTransitions(keys, keys, some, some, some, few, few))
    replay.sizes[1], replay.places[1], replay.sizes[2], replay.places[2] = 3, 3, 0, 0
    used = [part.clone() for part in replay.used()]
    assert used[0].shape == (3, int(replay.sizes.max()), 5)
    again = DeviceReplay(3, 50, key_length=5, device="cpu")
    again.refill(used)
    batches = [DeviceBatch.empty(3, 64, key_length=5, with_next=True, device="cpu") for _ in range(2)]
    for ring, batch in zip((replay, again), batches, strict=True):
        ring.sample(batch, th.tensor([1, 2, 3]), th.tensor([0, 0, 0]))
    for name in ("keys", "actions", "rewards", "returns", "goes_on"):
        assert th.equal(getattr(batches[0], name)[:2], getattr(batches[1], name)[:2]), name
    assert again.sizes.tolist() == replay.sizes.tolist() and again.places.tolist() == replay.places.tolist()


def test_samples_are_rows_of_the_ring() -> None:
    replay = some_replay(2, capacity=20)
    batch = DeviceBatch.empty(2, 64, key_length=5, with_next=True, device="cpu")
    replay.sample(batch, th.tensor([1, 2]), th.tensor([0, 0]))
    for member in range(2):
        held = set(replay.rewards[member, :20].tolist())
        drawn = batch.rewards[member].tolist()
        assert set(drawn) <= held and len(set(drawn)) > 12


def test_an_empty_replay_is_refused() -> None:
    with pytest.raises(SqirlError, match="below 1"):
        DeviceReplay(1, 0, key_length=2, device="cpu")


# Lanes ---------------------------------------------------------------------------------------------------------------


def episodes_by_hand(table: Table, seeds: th.Tensor, num: int, steps: int) -> dict[tuple[int, int, int], tuple]:
    """(reward, end, key) of every (member, lane, step), one lane at a time, with the keys of `Table`."""
    mdp, found = table.mdp, {}
    for p, lane in np.ndindex(len(seeds), num):
        seed, state, executed, t, key = seeds[p : p + 1], 3, -1, 0, table.first_keys(np.array([3]))
        for count in range(steps):
            step = th.tensor([count])
            action = int(draws.integers(seed, draws.ACTIONS, step, num, mdp.num_actions)[0, lane])
            if float(draws.uniforms(seed, draws.STICKY, step, num)[0, lane]) < mdp.stickiness and executed >= 0:
                action = executed
            reward, state = mdp.rewards[state, action], int(mdp.transitions[state, action])
            t, executed, key = t + 1, action, table.next_keys(key, np.array([state]), t + 1)
            end = state == -1 or t >= table.horizon
            found[p, lane, count] = reward, end, key[0].tolist()
            if end:
                state, executed, t, key = 3, -1, 0, table.first_keys(np.array([3]))
    return found


def check_lanes(device: str) -> None:
    seeds, num, steps = th.tensor([5, 6]), 3, 25
    expected = episodes_by_hand(some_table(), seeds, num, steps)
    lanes = DeviceLanes(device_table(some_table(), reward_factor=2.0, device=device), seeds.to(device), num)
    played = [[x.cpu() for x in lanes.step(lanes.random_actions())] for _ in range(steps)]
    for (p, lane, count), (reward, end, key) in expected.items():
        rewards, ends, after = played[count]
        assert np.isclose(float(rewards[p, lane]), reward / 2) and bool(ends[p, lane]) == end
        assert after[p, lane].tolist() == key
    assert any(end for _, end, _ in expected.values())


def test_lanes_equal_episodes_by_hand() -> None:
    check_lanes("cpu")


@pytest.mark.parametrize("row", ["pong_20_fs30", "maze_easy_l0_30_fs1", "breakout_10_fs30"])
def test_random_play_has_the_analysed_return(row: str) -> None:
    env = describe(f"BRIDGE/{row}-Sticky-v0")
    table, known = load_table(env), archived_analyses()[env.name]
    assert table is not None
    episodes, steps, rng = 20_000, table.horizon, th.Generator().manual_seed(0)
    actions = th.randint(0, table.mdp.num_actions, (steps, 1, episodes), generator=rng)
    time = [0]
    policies = Policies(lambda t: time.__setitem__(0, t), lambda keys: actions[time[0]])
    rewards = th.tensor(table.mdp.rewards.reshape(-1), dtype=th.float64)  # of the game: not divided by the factor
    evaluator = Evaluator(device_table(table, reward_factor=3.0), rewards, policies, th.tensor([7]), episodes)
    means, errors = evaluator.sampled(0)
    assert abs(means.item() - known.random_return) < 4 * errors.item() + 1e-12


def test_tables_that_are_not_supported_are_refused() -> None:
    table = corridor()
    with pytest.raises(SqirlError, match="clock"):
        device_table(replace(table, view=replace(table.view, uses_clock=True)))


def test_observations_are_those_of_the_table() -> None:
    table = some_table()
    on_device = device_table(table)
    keys = np.array([[7, 7, 1, 2, 0], [3, 4, 5, 6, 0]], np.int32)
    seen = plain.observations(on_device.screens, th.from_numpy(keys)[None], on_device.picture)[0]
    assert np.array_equal((255 * seen).round().numpy(), np.moveaxis(table.observations(keys), -1, 1))


def test_returns_to_go() -> None:
    rewards, ends = th.tensor([[1.0], [2.0], [4.0]]), th.tensor([[False], [True], [False]])
    assert returns_to_go(rewards, ends, 0.5).flatten().tolist() == [2.0, 2.0, 4.0]


def test_greedy_actions_read_the_last_head_of_each_member() -> None:
    q = th.tensor([[[0.0, 1.0, 5.0, 2.0]], [[0.0, 1.0, 5.0, 2.0]]])
    assert greedy_actions(q, th.tensor([1, 2]), 2).tolist() == [[1], [0]]
