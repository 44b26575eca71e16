"""Returns of policies on the device: against the exact returns of the CPU, and against sums over all episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th

from sqirl.algorithms.population.evaluation import Evaluator, Policies
from sqirl.algorithms.population.table import DeviceTable
from sqirl.evaluation.exact import Nodes, exact_return
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.table import Table, load_table
from tiny_tables import tiny_table


def chosen(member: int, t: int, keys: np.ndarray, num_actions: int) -> np.ndarray:
    """An arbitrary action for each observation, another one for each member and timestep."""
    mixed = (keys.astype(np.int64) * np.array([7, 31, 101, 211, 17][: keys.shape[1]])).sum(axis=1)
    return (mixed + 13 * t + 5 * member * member) % num_actions


def device_form(table: Table) -> tuple[DeviceTable, th.Tensor]:
    """The table without pictures: an evaluation needs only keys."""
    from sqirl.algorithms.population.layout import ATARI

    mdp = table.mdp
    states = np.append(np.arange(mdp.num_states), -1)
    found = DeviceTable(
        th.tensor(mdp.transitions.reshape(-1), dtype=th.int32), th.tensor(mdp.rewards.reshape(-1)).float(),
        th.tensor(table.screens_of(states), dtype=th.int32), th.zeros(len(table.frames), 1),
        th.tensor(table.first_keys(mdp.start_states)[0], dtype=th.int32), start_state=int(mdp.start_states[0]),
        num_actions=mdp.num_actions, horizon=table.horizon, stickiness=mdp.stickiness, picture=ATARI,
        uses_clock=table.view.uses_clock,
    )  # fmt: skip
    return found, th.tensor(mdp.rewards.reshape(-1))


class Chosen:
    """The policies of `chosen` as those of a population."""

    def __init__(self, num_actions: int) -> None:
        self.t, self.num_actions = 0, num_actions

    def prepare(self, t: int) -> None:
        self.t = t

    def act(self, keys: th.Tensor) -> th.Tensor:
        actions = [chosen(p, self.t, each.numpy(), self.num_actions) for p, each in enumerate(keys)]
        return th.tensor(np.stack(actions), dtype=th.int32)


def evaluator_of(table: Table, members: int, episodes: int) -> Evaluator:
    found, rewards = device_form(table)
    policy = Chosen(table.mdp.num_actions)
    return Evaluator(found, rewards, Policies(policy.prepare, policy.act), th.arange(members), episodes)


def on_the_cpu(table: Table, member: int) -> float:
    def node_policy(t: int, nodes: Nodes) -> np.ndarray:
        return chosen(member, t, nodes.keys, table.mdp.num_actions)

    return exact_return(table, node_policy)


@pytest.mark.parametrize("stickiness", [0.0, 0.25])
@pytest.mark.parametrize(("stacked", "clock"), [(1, False), (1, True), (4, False), (2, True)])
def test_exact_returns_equal_those_of_the_cpu(stickiness: float, stacked: int, clock: bool) -> None:
    rng = np.random.default_rng(stacked)
    transitions = rng.integers(-1, 12, size=(12, 3))
    mdp = TabularMDP(transitions=transitions, rewards=rng.normal(size=(12, 3)), horizon=7)
    mdp = mdp.sticky(stickiness) if stickiness else mdp
    table = tiny_table(mdp, num_screens=3, stacked=stacked, clock=clock)
    found = evaluator_of(table, 3, 10).exact([0, 1, 2])  # ten rows at a time: some steps have more nodes
    assert found == pytest.approx({member: on_the_cpu(table, member) for member in range(3)}, rel=1e-12)


def test_exact_returns_on_a_row_of_the_package() -> None:
    table = load_table("BRIDGE/breakout_10_fs30-Sticky-v0")
    assert table is not None
    found = evaluator_of(table, 2, 100).exact([1])
    assert found == pytest.approx({1: on_the_cpu(table, 1)}, rel=1e-12)


def test_members_with_too_many_nodes_are_left_out() -> None:
    table = load_table("BRIDGE/freeway_10_fs30-Sticky-v0")
    assert table is not None
    evaluator = evaluator_of(table, 2, 50)
    assert set(evaluator.exact([0, 1])) == {0, 1} and not evaluator.exact([0, 1], max_nodes=2)


def test_means_lie_within_their_errors_of_the_exact_returns_and_depend_on_the_number_alone() -> None:
    table = load_table("BRIDGE/breakout_10_fs30-Sticky-v0")
    assert table is not None
    evaluator = evaluator_of(table, 3, 400)
    exact = evaluator.exact([0, 1, 2])
    means, errors = evaluator.sampled(10_000)
    again, _ = evaluator.sampled(10_000)
    other, _ = evaluator.sampled(20_000)
    assert means.tolist() == again.tolist() and means.dtype == th.float64
    for member in range(3):
        assert abs(float(means[member]) - exact[member]) <= 5 * float(errors[member]) + 1e-12
    assert other.tolist() != means.tolist() or float(errors.max()) == 0
