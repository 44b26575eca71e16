"""Variants of an MDP: another frame skip, fewer actions, shaped rewards, another exploration policy. Each is again a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP
from sqirl.mdp.convert import expand_sticky, to_stochastic
from sqirl.mdp.tabular import END, Outcomes, TabularMDP

#: An exploration policy is rounded to multiples of one over this number.
SLOTS = 24

Floats = NDArray[np.float64]


def with_frame_skip(mdp: TabularMDP, skip: int) -> TabularMDP:
    """The MDP in which every action is held for `skip` steps; its horizon is that many times shorter, rounded down."""
    if skip < 1:
        raise InvalidMDP(f"frame skip {skip} is below 1")
    if skip == 1:
        return mdp
    if mdp.horizon is not None and mdp.horizon < skip:
        raise InvalidMDP(f"frame skip {skip} is longer than the horizon {mdp.horizon}; take a smaller one")
    shorter = {
        "horizon": None if mdp.horizon is None else mdp.horizon // skip,
        "depth": None if mdp.depth is None else mdp.depth // skip,
    }
    if mdp.transitions is not None:
        return replace(mdp, **shorter, **_held(mdp.transitions, mdp.rewards, skip))  # type: ignore[arg-type]
    assert mdp.outcomes is not None
    outcomes = _held_outcomes(mdp.outcomes, mdp.num_states, mdp.num_actions, skip)
    return replace(
        mdp, **shorter, outcomes=outcomes, rewards=outcomes.expected_rewards(mdp.num_actions)  # type: ignore[arg-type]
    )  # fmt: skip


def _held(transitions: NDArray[np.int32], rewards: Floats, skip: int) -> dict[str, NDArray[np.generic]]:
    """The tables of actions that are held for some steps."""
    places, total = transitions.copy(), rewards.copy()
    for _ in range(skip - 1):
        alive = places != END
        columns = np.broadcast_to(np.arange(places.shape[1]), places.shape)[alive]
        states = places[alive]
        total[alive] += rewards[states, columns]
        places[alive] = transitions[states, columns]
    return {"transitions": places, "rewards": total}


def _held_outcomes(outcomes: Outcomes, num_states: int, num_actions: int, skip: int) -> Outcomes:
    """The same for random outcomes: the reward of an outcome is the mean over the ways that lead to it."""
    from scipy import sparse

    parts: list[Any] = [None] * (num_states * num_actions)  # (chances, next states, rewards) of each row
    for action in range(num_actions):
        chance, gain = _matrices_of(outcomes, num_states, num_actions, action)
        held, earned = chance, gain
        for _ in range(skip - 1):
            earned = sparse.csr_matrix(earned @ chance + held @ gain)
            held = sparse.csr_matrix(held @ chance)
        for state in range(num_states):
            entries = slice(held.indptr[state], held.indptr[state + 1])
            columns, chances = held.indices[entries], held.data[entries]
            gains = np.asarray(earned[state, columns].todense()).ravel()
            parts[state * num_actions + action] = chances, columns, gains / chances
    counts = [len(part[0]) for part in parts]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    chances, states, gains = (np.concatenate([part[place] for part in parts]) for place in range(3))
    chances = chances / np.repeat(np.add.reduceat(chances, indptr[:-1]), counts)  # rounding of the products
    next_states = np.where(states == num_states, END, states).astype(np.int32)
    return Outcomes(indptr, next_states, chances, gains)


def _matrices_of(outcomes: Outcomes, num_states: int, num_actions: int, action: int) -> tuple[Any, Any]:
    """(S + 1, S + 1) chances of next states, and chances times rewards; the last state is the end, which stays."""
    from scipy import sparse

    rows = np.repeat(np.arange(num_states * num_actions), np.diff(outcomes.indptr))
    chosen = rows % num_actions == action
    states, after = rows[chosen] // num_actions, outcomes.next_states[chosen].astype(np.int64)
    after = np.where(after == END, num_states, after)
    chances = outcomes.probabilities[chosen]
    shape = (num_states + 1, num_states + 1)
    stays = sparse.csr_matrix(([1.0], ([num_states], [num_states])), shape)
    chance = sparse.csr_matrix((chances, (states, after)), shape) + stays
    gain = sparse.csr_matrix((chances * outcomes.rewards[chosen], (states, after)), shape)
    return chance, gain


def with_actions(mdp: TabularMDP, actions: Sequence[int]) -> TabularMDP:
    """The MDP that has only these actions."""
    wrong = [action for action in actions if not 0 <= action < mdp.num_actions]
    if wrong or len(set(actions)) < 2:
        raise InvalidMDP(
            f"actions {list(actions)}: "
            + (f"{wrong[0]} is outside 0..{mdp.num_actions - 1}" if wrong else "at least two different ones are needed")
        )
    chosen = np.array(actions)
    return _with_columns(mdp, np.broadcast_to(chosen, (mdp.num_states, len(chosen))))


def with_shaping(mdp: TabularMDP, potential: Floats, discount: float = 1.0) -> TabularMDP:
    """The MDP with the reward γΦ(s') - Φ(s) added. Φ is 0 after the end of an episode.

    Optimal policies stay the same where episodes end before the horizon (Ng, Harada and Russell, 1999).

    :param potential: (S,) the potential Φ of each state
    :param discount: γ
    """
    values = np.asarray(potential, float)
    if values.shape != (mdp.num_states,) or not np.isfinite(values).all():
        raise InvalidMDP(
            f"the potential has shape {values.shape}; one finite number for each of {mdp.num_states} states is needed"
        )
    after = np.append(values, 0.0)  # index -1 is the end
    if mdp.transitions is not None:
        return replace(mdp, rewards=mdp.rewards + discount * after[mdp.transitions] - values[:, None])
    assert mdp.outcomes is not None
    states = np.repeat(np.arange(mdp.num_states * mdp.num_actions), np.diff(mdp.outcomes.indptr)) // mdp.num_actions
    outcomes = replace(
        mdp.outcomes, rewards=mdp.outcomes.rewards + discount * after[mdp.outcomes.next_states] - values[states]
    )
    return replace(mdp, outcomes=outcomes, rewards=outcomes.expected_rewards(mdp.num_actions))


def with_exploration(mdp: TabularMDP, policy: Floats) -> tuple[TabularMDP, Floats]:
    """An MDP in which uniformly random play is `policy`, and the policy after rounding.

    Every action appears in several slots, as often as the policy takes it. Acting uniformly over the slots is the policy, and
    Q^1 is its Q-function. Every action keeps at least one slot, so nothing becomes impossible.

    :param policy: (A,) or (S, A) probabilities
    """
    chances = np.asarray(policy, float)
    if chances.shape not in ((mdp.num_actions,), (mdp.num_states, mdp.num_actions)):
        raise InvalidMDP(
            f"an exploration policy of shape {chances.shape}; ({mdp.num_actions},) or ({mdp.num_states}, {mdp.num_actions}) "
            "probabilities are needed"
        )
    if not np.isfinite(chances).all() or (chances < 0).any():
        wrong = float(chances[~(chances >= 0) | np.isinf(chances)].flat[0])
        raise InvalidMDP(f"an exploration policy with the probability {wrong:g}; probabilities are between 0 and 1")
    if not np.allclose(chances.sum(axis=-1), 1.0, atol=1e-6):
        total = float(chances.sum(axis=-1).flat[np.abs(chances.sum(axis=-1) - 1).argmax()])
        raise InvalidMDP(f"the probabilities of an exploration policy sum to {total:g}, not to 1")
    if mdp.num_actions > SLOTS:
        raise InvalidMDP(f"an exploration policy over {mdp.num_actions} actions; at most {SLOTS} are possible")
    if chances.ndim == 2 and mdp.stickiness:  # a slot must mean the same action in the next state
        slots = mdp.num_actions + 1
        chances, mdp = np.repeat(chances, slots, axis=0), expand_sticky(mdp)
    table = np.broadcast_to(chances, (mdp.num_states, mdp.num_actions))
    counts = np.stack([_slots_of(row) for row in table]) if chances.ndim == 2 else _slots_of(chances)[None]
    columns = np.stack([np.repeat(np.arange(mdp.num_actions), row) for row in counts])
    columns = np.broadcast_to(columns, (mdp.num_states, SLOTS))
    return _with_columns(mdp, columns), counts / SLOTS


def _slots_of(chances: Floats) -> NDArray[np.int64]:
    """(A,) whole numbers that sum to SLOTS, at least one each, as close to the chances as possible."""
    counts = np.maximum(np.floor(chances * SLOTS).astype(np.int64), 1)
    while counts.sum() != SLOTS:
        error = chances * SLOTS - counts
        if counts.sum() < SLOTS:
            counts[np.argmax(error)] += 1
        else:
            counts[np.argmin(np.where(counts > 1, error, np.inf))] -= 1
    return counts


def _with_columns(mdp: TabularMDP, columns: NDArray[np.integer]) -> TabularMDP:
    """The MDP whose action j in state s is action `columns[s, j]` of this one."""
    if mdp.transitions is not None:
        transitions = np.take_along_axis(mdp.transitions, columns, axis=1)
        return replace(mdp, rewards=np.take_along_axis(mdp.rewards, columns, axis=1), transitions=transitions)
    outcomes = to_stochastic(mdp).outcomes
    assert outcomes is not None
    rows = (np.arange(mdp.num_states)[:, None] * mdp.num_actions + columns).ravel()
    counts = np.diff(outcomes.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    entries = np.repeat(outcomes.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
    chosen = Outcomes(indptr, outcomes.next_states[entries], outcomes.probabilities[entries], outcomes.rewards[entries])
    return replace(mdp, outcomes=chosen, rewards=chosen.expected_rewards(columns.shape[1]))
