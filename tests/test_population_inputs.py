"""The distinct observations of grids: complete, each once; networks evaluated on them and policies kept by their actions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch as th

from population_cases import relative
from sqirl.algorithms.population.batch import Heads, LossSettings
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.greedy import GreedyPolicies
from sqirl.algorithms.population.grid_layout import Grid
from sqirl.algorithms.population.grid_networks import GridNetworks
from sqirl.algorithms.population.inputs import Inputs, distinct_inputs
from sqirl.algorithms.population.lanes import DeviceLanes
from sqirl.algorithms.population.networks import layout_of, torch_networks
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.sqirl import Member, SQIRLPopulation, SQIRLSettings
from sqirl.algorithms.population.table import DeviceTable, device_table
from sqirl.algorithms.sqirl.hyperparameters import PAPER as SQIRL_PAPER
from sqirl.envs.description import describe
from sqirl.envs.suites import OURS, PAPER
from sqirl.play.table import load_table

ROOM = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"


def room(variant: str) -> DeviceTable:
    table = load_table(describe(ROOM, variant=variant))
    assert table is not None
    return device_table(table, network="minigrid" if variant == OURS else "minigrid-paper")


def listed(table: DeviceTable) -> Inputs:
    assert table.inputs is not None
    return table.inputs


def played_keys(table: DeviceTable, lanes: int = 200) -> th.Tensor:
    """(n, 2) the keys of a hundred steps of random play, those after the ends of episodes included."""
    played = DeviceLanes(table, th.tensor([0]), lanes)
    keys = [played.keys]
    for _ in range(100):
        keys.append(played.step(played.random_actions())[2])
    return th.cat([each.flatten(0, 1) for each in keys])


def test_observations_of_a_corridor_by_hand() -> None:
    """States 0, 1, 2 in a row, each with a screen of its own; the clock has two values, and the screen of the end is 3."""
    inputs = distinct_inputs(
        th.tensor([[0, 1], [1, 2], [2, -1]]), th.tensor([0, 1, 2, 3]), start_state=0, clock=(255, 0, 0, 0)
    )
    assert inputs is not None
    shown = {(screen, int(inputs.clock[time])) for screen, time in inputs.keys.tolist()}
    dark, bright = inputs.clock[1].item(), inputs.clock[0].item()
    assert shown == {(0, bright), (3, bright), (0, dark), (1, dark), (2, dark), (3, dark)}
    assert inputs.places(inputs.keys).tolist() == list(range(6))
    assert inputs.places(th.tensor([[1, 1], [1, 3]])).unique().numel() == 1


def test_tables_with_many_observations_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqirl.algorithms.population.inputs.MOST_INPUTS", 5)
    corridor = th.tensor([[0, 1], [1, 2], [2, -1]])
    assert distinct_inputs(corridor, th.tensor([0, 1, 2, 3]), start_state=0, clock=(255, 0, 0, 0)) is None


@pytest.mark.parametrize("variant", [OURS, PAPER])
def test_what_is_played_is_among_them_and_looks_the_same(variant: str) -> None:
    table = room(variant)
    inputs, keys = listed(table), played_keys(table)
    same = inputs.keys[inputs.places(keys)]
    assert th.equal(same[:, 0], keys[:, 0])
    assert isinstance(table.picture, Grid)
    clock = th.tensor(table.picture.clock)
    assert th.equal(clock[same[:, 1].long()], clock[keys[:, 1].long()])
    assert len(inputs) <= (100 if variant == PAPER else 36 * 101)


def played_replay(table: DeviceTable, members: int) -> DeviceReplay:
    g, keys = th.Generator().manual_seed(0), played_keys(table)
    drawn = [keys[th.randint(len(keys), (members, 60), generator=g)] for _ in range(2)]
    shape = (members, 60)
    replay = DeviceReplay(members, 50, key_length=2, device=table.device)
    replay.extend(
        DeviceTransitions(
            *drawn, th.randint(0, table.num_actions, shape, generator=g), th.randn(shape, generator=g),
            th.randn(shape, generator=g), th.rand(shape, generator=g) < 0.7, th.ones(shape, dtype=th.bool),
        )
    )  # fmt: skip
    return replay


@pytest.mark.parametrize("k", [1, 2])
def test_steps_are_those_without_the_list(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minibatch has more rows than there are observations: three steps from the same start, with and without the list.

    The list is what networks on a GPU use.
    """
    monkeypatch.setattr("sqirl.algorithms.population.networks.CpuGridNetworks", GridNetworks)
    table, heads = room(PAPER), Heads(k, 3)
    settings = StepSettings(heads, 128, table.picture, LossSettings(0.9))
    assert len(listed(table)) <= 128
    found = []
    for inputs in (table.inputs, None):
        population = SQIRLPopulation(replace(table, inputs=inputs), [Member(4, k, 1), Member(5, k, 1)], SQIRLSettings())
        step = SQIRLStep(
            settings, population.learner, played_replay(table, 2), table.screens, th.tensor([8, 9]), inputs=inputs
        )
        for _ in range(3):
            step()
        found.append(population.learner)
    assert relative(found[0].first, found[1].first) < 1e-4  # Adam's mean of the gradients
    assert relative(found[0].flat, found[1].flat) < 1e-5 and th.allclose(found[0].losses, found[1].losses, rtol=1e-4)


@pytest.mark.parametrize("variant", [OURS, PAPER])
def test_kept_policies_act_as_their_networks(variant: str) -> None:
    table = room(variant)
    paper = replace(SQIRL_PAPER, batch_size=32)
    population = SQIRLPopulation(table, [Member(0, 2, 3), Member(1, 1, 3)], SQIRLSettings(hyperparameters=paper))
    population.play()
    population.learn()
    keys = played_keys(table, 4).expand(2, -1, -1)
    by_weights = GreedyPolicies(population.networks, population.learner, table.num_actions, None)
    expected = by_weights.actor(keys.shape[1])
    expected.load(by_weights.current())
    policies = population.policies(keys.shape[1])
    for timestep in range(3):  # at 0 the kept policy, then the current one, which is the same
        policies.prepare(timestep)
        assert th.equal(policies.act(keys), expected.act(keys))
    networks = torch_networks(layout_of(table, 2 * table.num_actions), table.screens)
    assert networks.layout.size == population.learner.flat.shape[1] and population.frozen[0].shape == (
        2,
        len(listed(table)),
    )


@pytest.mark.skipif(not th.cuda.is_available(), reason="there is no GPU here")
def test_a_step_on_a_gpu_is_that_of_the_cpu() -> None:
    """With clipped gradients, captured in a graph; Adam by Triton where it is there."""
    found = []
    for device in ("cpu", "cuda"):
        paper = replace(SQIRL_PAPER, max_grad_norm=10.0)
        members = [Member(0, 2, 3), Member(1, 2, 3)]
        source = load_table(describe(ROOM, variant=PAPER))
        assert source is not None
        table = device_table(source, network="minigrid-paper", device=device)
        population = SQIRLPopulation(table, members, SQIRLSettings(hyperparameters=paper), dtype=th.float32)
        population.play()
        for _ in range(3):
            population.step()
        found.append(population.learner)
    assert relative(found[1].first.cpu(), found[0].first) < 1e-4
    assert relative(found[1].flat.cpu(), found[0].flat) < 1e-4
