"""The exact return of a policy on a table: an expectation, not a sample.

The distribution over the situations of an episode is carried forward through time. A node is a state, the action executed last,
and (where the policy sees screens) the key of the observation. Equal nodes are merged, so their number stays small even
though a stack of screens remembers the past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import WorkFailed
from sqirl.mdp.arrays import distinct_rows, entries_of_rows
from sqirl.mdp.reach import check_horizon
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.play.table import Table

#: Beyond so many nodes at one time the exact return is not worth its cost: seconds, and a gigabyte.
MAX_NODES = 1_000_000


@dataclass(frozen=True, eq=False)
class Nodes:
    """All situations that an episode can be in at one time, with their probabilities."""

    states: NDArray[np.int64]  # (n,)
    executed: NDArray[np.int64]  # (n,) the action executed last, -1 at the start
    keys: NDArray[np.int32]  # (n, key_length) of the observations, or (n, 0) where only states are seen
    probabilities: NDArray[np.float64]  # (n,)


#: (t, nodes) -> (n,) actions, or (n, A) probabilities of actions
NodePolicy = Callable[[int, Nodes], NDArray[np.integer] | NDArray[np.floating]]


def exact_return(played: TabularMDP | Table, policy: NodePolicy) -> float:
    """The expected total reward of `policy`, in the units of the rewards."""
    table = played if isinstance(played, Table) else None
    mdp = played.mdp if isinstance(played, Table) else played
    nodes, total = _start(mdp, table), 0.0
    for t in range(check_horizon(mdp, None)):
        rows, executed, probabilities = _executions(mdp, nodes, policy(t, nodes))
        if len(rows) > MAX_NODES:  # checked before nodes are merged, because merging takes the memory
            raise WorkFailed(f"{len(rows):,} different histories at step {t + 1}; the limit is {MAX_NODES:,}")
        total += float((probabilities * mdp.rewards[nodes.states[rows], executed]).sum())
        nodes = _successors(mdp, table, nodes, (rows, executed, probabilities), t + 1)
        if not len(nodes.states):
            break
    return total


def _start(mdp: TabularMDP, table: Table | None) -> Nodes:
    states = mdp.start_states.astype(np.int64)
    keys = np.zeros((len(states), 0), np.int32) if table is None else table.first_keys(states)
    return Nodes(states, np.full(len(states), -1), keys, mdp.start_probabilities)


Executions = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def _executions(mdp: TabularMDP, nodes: Nodes, choice: NDArray[np.integer] | NDArray[np.floating]) -> Executions:
    """(node, executed action, probability) of everything that can be executed now."""
    n, A = len(nodes.states), mdp.num_actions
    chances = np.eye(A)[choice] if choice.ndim == 1 else np.asarray(choice, float)
    if mdp.stickiness:
        free = nodes.executed < 0
        repeated = np.eye(A + 1)[nodes.executed][:, :A]  # -1 picks the last row: nothing to repeat
        chances = np.where(free[:, None], chances, (1 - mdp.stickiness) * chances + mdp.stickiness * repeated)
    rows, executed = np.nonzero(chances)
    assert chances.shape == (n, A)
    return rows, executed, nodes.probabilities[rows] * chances[rows, executed]


def _successors(mdp: TabularMDP, table: Table | None, nodes: Nodes, executions: Executions, t: int) -> Nodes:
    rows, executed, chances = executions
    if mdp.transitions is not None:
        states = mdp.transitions[nodes.states[rows], executed].astype(np.int64)
    else:
        assert mdp.outcomes is not None
        entries, counts = entries_of_rows(mdp.outcomes.indptr, nodes.states[rows] * mdp.num_actions + executed)
        rows, executed = np.repeat(rows, counts), np.repeat(executed, counts)
        chances = np.repeat(chances, counts) * mdp.outcomes.probabilities[entries]
        states = mdp.outcomes.next_states[entries].astype(np.int64)
    alive = states != END
    states, executed, rows, chances = states[alive], executed[alive], rows[alive], chances[alive]
    keys = nodes.keys[rows] if table is None else table.next_keys(nodes.keys[rows], states, t)
    columns = np.column_stack([states, executed, keys]) if mdp.stickiness else np.column_stack([states, keys])
    distinct, first, place = distinct_rows(columns)
    merged: NDArray[np.float64] = np.bincount(place, chances, minlength=len(distinct)).astype(np.float64)
    return Nodes(states[first], executed[first], keys[first], merged)
