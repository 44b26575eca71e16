"""Conversions between the forms of an MDP: toy_text's `P`, matrices, tables, CSR arrays, and an explicit sticky MDP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sqirl.errors import InvalidMDP
from sqirl.mdp.tabular import END, Outcomes, TabularMDP


def outcomes_from_dynamics(P: Mapping[int, Any]) -> tuple[Outcomes, int]:
    """The CSR form of `P[s][a] = [(probability, next state, reward, done), …]`, and the number of actions. See `TabularMDP`."""
    try:
        num_actions = len(P[0])
        if any(len(P[s]) != num_actions for s in range(len(P))):
            raise InvalidMDP("every state of P must have the same actions")
        rows = [
            [(float(p), END if done else _state_number(n), float(r)) for p, n, r, done in P[s][a] if p != 0]
            for s in range(len(P))
            for a in range(num_actions)
        ]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidMDP(
            f"P must map every state 0..S-1 and action 0..A-1 to (probability, next state, reward, done): {error!r}"
        ) from error
    if not all(rows):
        row = [bool(row) for row in rows].index(False)
        raise InvalidMDP(f"state {row // num_actions}, action {row % num_actions} of P has no outcome")
    flat = [entry for row in rows for entry in row]
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    probabilities, next_states, rewards = zip(*flat, strict=True)
    if max(next_states) > np.iinfo(np.int32).max:
        raise InvalidMDP(f"P leads to state {max(next_states)}; the largest possible state is {np.iinfo(np.int32).max}")
    return Outcomes(indptr, np.array(next_states, np.int32), np.array(probabilities), np.array(rewards)), num_actions


def _state_number(value: Any) -> int:
    number = int(value)
    if number != value or number < 0:
        raise InvalidMDP(f"P leads to state {value}; a state is a whole number from 0")
    return number


def outcomes_from_matrices(matrices: Any, rewards: Any) -> tuple[Outcomes, int]:
    """The CSR form of A matrices (S, S) and rewards (S, A). Where a row sums to less than 1, the rest ends the episode."""
    from scipy import sparse

    stacked: list[Any] = [sparse.csr_matrix(matrix) for matrix in matrices]
    rewards = np.asarray(rewards, float)
    num_states, num_actions = rewards.shape
    if len(stacked) != num_actions or any(m.shape != (num_states, num_states) for m in stacked):
        raise InvalidMDP(
            f"rewards of shape {rewards.shape} need {num_actions} matrices of shape ({num_states}, {num_states})"
        )
    # Add a last column for the end of the episode, then sort the rows by s·A + a
    ends = [np.clip(1 - np.asarray(m.sum(axis=1)).ravel(), 0, None) for m in stacked]
    ends = [np.where(end > 1e-12, end, 0) for end in ends]  # smaller values are rounding errors of the sum
    blocks: list[Any] = [sparse.hstack([m, end[:, None]]) for m, end in zip(stacked, ends, strict=True)]
    tall = sparse.vstack(blocks, format="csr")  # (A·S, S + 1)
    order = np.arange(num_states * num_actions).reshape(num_actions, num_states).T.ravel()
    rows = tall[order]
    rows.eliminate_zeros()
    next_states = np.where(rows.indices == num_states, END, rows.indices).astype(np.int32)
    per_entry = np.repeat(rewards.ravel(), np.diff(rows.indptr))
    return Outcomes(rows.indptr.astype(np.int64), next_states, rows.data.astype(float), per_entry), num_actions


def to_stochastic(mdp: TabularMDP) -> TabularMDP:
    """The same MDP with its dynamics in CSR form, one outcome for each row."""
    if mdp.transitions is None:
        return mdp
    size = mdp.transitions.size
    outcomes = Outcomes(
        np.arange(size + 1, dtype=np.int64), mdp.transitions.ravel(), np.ones(size), mdp.rewards.ravel()
    )
    return replace(mdp, transitions=None, outcomes=outcomes)


def transition_matrix(mdp: TabularMDP) -> Any:
    """(S·A, S) SciPy sparse: the probabilities of the next states of row s·A + a. What is missing to 1 ends the episode.

    Of a sticky MDP it is the matrix of the action that is executed.
    """
    from scipy import sparse

    outcomes = to_stochastic(replace(mdp, screens=None, screen_mapping=None)).outcomes
    assert outcomes is not None
    num_rows = mdp.num_states * mdp.num_actions
    rows, goes_on = np.repeat(np.arange(num_rows), np.diff(outcomes.indptr)), outcomes.next_states != END
    entries = outcomes.probabilities[goes_on], (rows[goes_on], outcomes.next_states[goes_on])
    return sparse.csr_matrix(entries, shape=(num_rows, mdp.num_states))


def expand_sticky(mdp: TabularMDP) -> TabularMDP:
    """The sticky MDP as an MDP over pairs of a state s and the previous action p: pair s·(A + 1) + p, where p = A means none.

    It is for tests and for libraries without sticky actions. It has A + 1 times the states and 2·(A + 1) times the outcomes.
    """
    base = to_stochastic(mdp)
    outcomes, num_actions, stickiness = base.outcomes, mdp.num_actions, mdp.stickiness
    assert outcomes is not None
    counts = np.diff(outcomes.indptr)
    slots = num_actions + 1
    state, previous, chosen = np.indices((mdp.num_states, slots, num_actions)).reshape(3, -1)
    # The outcomes of a pair and a chosen action: those of the chosen action and, after the first step, of the previous action
    row_chosen, row_previous = state * num_actions + chosen, state * num_actions + np.minimum(previous, num_actions - 1)
    first = previous == num_actions
    parts = np.stack([counts[row_chosen], np.where(first | (stickiness == 0), 0, counts[row_previous])], axis=1)
    indptr = np.concatenate([[0], np.cumsum(parts.sum(axis=1))]).astype(np.int64)
    rows = np.stack([row_chosen, row_previous], axis=1).ravel()
    executed = np.repeat(np.stack([chosen, previous], axis=1).ravel(), parts.ravel())
    weight = np.stack([np.where(first, 1.0, 1 - stickiness), np.full(len(first), stickiness)], axis=1).ravel()
    offsets = np.arange(indptr[-1]) - np.repeat(np.cumsum(parts.ravel()) - parts.ravel(), parts.ravel())
    source = np.repeat(outcomes.indptr[rows], parts.ravel()) + offsets
    successor = outcomes.next_states[source].astype(np.int64)
    next_states = np.where(successor == END, END, successor * slots + executed).astype(np.int32)
    probabilities = outcomes.probabilities[source] * np.repeat(weight, parts.ravel())
    product = Outcomes(indptr, next_states, probabilities, outcomes.rewards[source])
    return TabularMDP(
        rewards=product.expected_rewards(num_actions),
        outcomes=product,
        start_states=(mdp.start_states.astype(np.int64) * slots + num_actions).astype(np.int32),
        start_probabilities=mdp.start_probabilities,
        horizon=mdp.horizon,
        depth=mdp.depth,
        name=mdp.name,
    )
