"""The states that can be reached after t steps, shortest paths to them, and the MDP of the first T steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP, PartialMDP
from sqirl.mdp.arrays import entries_of_rows, in_order_of_first_use
from sqirl.mdp.tabular import END, Outcomes, TabularMDP

#: The number of ones in each byte.
_NUM_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)


@dataclass(frozen=True, eq=False)
class ReachableSets:
    """R_0..R_{T-1}, where R_t holds the states that some action sequence reaches after t steps. One bit for each state."""

    bits: NDArray[np.uint8]  # (n, ceil(S / 8)); if n < T, the last set is also all the following ones
    num_states: int
    horizon: int

    def mask(self, t: int) -> NDArray[np.bool_]:
        """(S,): can the episode be in s after t steps?"""
        return np.unpackbits(self.bits[min(t, len(self.bits) - 1)], count=self.num_states).view(bool)

    def states(self, t: int) -> NDArray[np.int32]:
        """The states of R_t in increasing order."""
        return np.flatnonzero(self.mask(t)).astype(np.int32)

    def count(self, t: int) -> int:
        """The number of states in R_t."""
        return int(_NUM_BITS[self.bits[min(t, len(self.bits) - 1)]].sum())

    def union(self, until: int | None = None) -> NDArray[np.bool_]:
        """(S,): is s in one of the first `until` sets (in any set if None)?"""
        return np.unpackbits(np.bitwise_or.reduce(self.bits[:until], axis=0), count=self.num_states).view(bool)


def reachable_sets(mdp: TabularMDP, horizon: int, *, start: NDArray[np.integer] | None = None) -> ReachableSets:
    """The reachable sets of the first `horizon` steps.

    :param start: the states to start from; the MDP's start states if None
    """
    mask = np.zeros(mdp.num_states, np.bool_)
    mask[mdp.start_states if start is None else start] = True
    bits = [np.packbits(mask)]
    for _ in range(1, horizon):
        mask = _successors_mask(mdp, mask)
        packed = np.packbits(mask)
        if np.array_equal(packed, bits[-1]):  # a fixed point: all following sets are equal
            break
        bits.append(packed)
    return ReachableSets(np.stack(bits), mdp.num_states, horizon)


def _rows(mdp: TabularMDP) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(indptr, next states) in CSR form with one row for each (state, action), for deterministic and stochastic MDPs."""
    if mdp.transitions is not None:
        return np.arange(mdp.transitions.size + 1), mdp.transitions.ravel()
    assert mdp.outcomes is not None
    return mdp.outcomes.indptr, mdp.outcomes.next_states


def _successors_mask(mdp: TabularMDP, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(S,): is s the next state of a state in `mask` (S,)?"""
    reached = np.zeros_like(mask)
    states = np.flatnonzero(mask)
    if mdp.transitions is not None:
        _mark_table(states, mdp.transitions, reached)
    else:
        _mark_rows(states, mdp.num_actions, *_rows(mdp), reached)
    return reached


@numba.njit(cache=True)
def _mark_table(states, transitions, reached):
    for s in states:
        for a in range(transitions.shape[1]):
            if transitions[s, a] >= 0:
                reached[transitions[s, a]] = True


@numba.njit(cache=True)
def _mark_rows(states, num_actions, indptr, next_states, reached):
    for s in states:
        for i in range(indptr[s * num_actions], indptr[(s + 1) * num_actions]):
            if next_states[i] >= 0:
                reached[next_states[i]] = True


@dataclass(frozen=True, eq=False)
class BreadthFirstTree:
    """The last step of a shortest path to each state."""

    rows: NDArray[np.int64]  # (S,) state·A + action of the last step; -1 at a start state, -2 if it cannot be reached
    num_actions: int

    def path_to(self, state: int) -> list[int]:
        """The actions of a shortest path from the nearest start."""
        return self.start_and_path(state)[1]

    def start_and_path(self, state: int) -> tuple[int, list[int]]:
        """The nearest start state, and the actions of a shortest path from it."""
        if self.rows[state] == -2:
            raise InvalidMDP(f"state {state} cannot be reached from the start")
        actions = []
        while self.rows[state] >= 0:
            state, action = divmod(int(self.rows[state]), self.num_actions)
            actions.append(action)
        return state, actions[::-1]


def breadth_first_tree(mdp: TabularMDP) -> BreadthFirstTree:
    """Shortest paths from the start to every state."""
    return BreadthFirstTree(_search(mdp.start_states, mdp.num_states, mdp.num_actions, *_rows(mdp)), mdp.num_actions)


@numba.njit(cache=True)
def _search(start, num_states, num_actions, indptr, next_states):
    rows = np.full(num_states, -2, np.int64)
    queue = np.empty(num_states, np.int64)
    rows[start] = -1
    queue[: len(start)] = start
    head, tail = 0, len(start)
    while head < tail:
        s = queue[head]
        head += 1
        for row in range(s * num_actions, (s + 1) * num_actions):
            for i in range(indptr[row], indptr[row + 1]):
                n = next_states[i]
                if n >= 0 and rows[n] == -2:
                    rows[n] = row
                    queue[tail] = n
                    tail += 1
    return rows


def count_reachable(mdp: TabularMDP, sets: ReachableSets) -> int:
    """The number of states in the union of the sets, or of (state, previous action) pairs if the MDP is sticky."""
    if not mdp.stickiness:
        return int(sets.union().sum())
    seen = np.zeros((mdp.num_actions, mdp.num_states), np.bool_)
    if sets.horizon > 1:
        before_last = np.flatnonzero(sets.union(sets.horizon - 1))
        for action in range(mdp.num_actions):
            successors, _ = _successors(mdp, before_last, action)
            seen[action, successors[successors != END]] = True
    return int(seen.sum()) + len(mdp.start_states)


def _successors(
    mdp: TabularMDP, states: NDArray[np.integer], action: int
) -> tuple[NDArray[np.int32], NDArray[np.integer]]:
    """All next states of one action in many states, and the state that each comes from."""
    if mdp.transitions is not None:
        return mdp.transitions[states, action], states
    assert mdp.outcomes is not None
    entries, counts = entries_of_rows(mdp.outcomes.indptr, states.astype(np.int64) * mdp.num_actions + action)
    return mdp.outcomes.next_states[entries], np.repeat(states, counts)


def path_to(mdp: TabularMDP, state: int, *, steps: int | None = None) -> list[int]:
    """Executed actions that can lead from a start state to `state`.

    :param state: the number of the state
    :param steps: how many actions; the smallest possible number if None
    """
    if not 0 <= state < mdp.num_states:
        raise InvalidMDP(f"state {state} is outside 0..{mdp.num_states - 1}")
    if steps is None:
        return breadth_first_tree(mdp).path_to(state)
    sets = reachable_sets(mdp, steps + 1)
    if not sets.mask(steps)[state]:
        raise InvalidMDP(f"state {state} cannot be reached in exactly {steps} steps")
    actions = []
    for t in reversed(range(steps)):
        state, action = _predecessor(mdp, state, sets.states(t))
        actions.append(action)
    return actions[::-1]


def _predecessor(mdp: TabularMDP, state: int, candidates: NDArray[np.integer]) -> tuple[int, int]:
    """One of the candidates that has `state` as a next state, and the action that leads there."""
    for action in range(mdp.num_actions):
        successors, sources = _successors(mdp, candidates, action)
        hits = np.flatnonzero(successors == state)
        if hits.size:
            return int(sources[hits[0]]), action
    raise AssertionError(f"no candidate leads to state {state}")


#: The longest horizon. The time of an analysis grows with the horizon, so a longer one is a typing error.
MAX_HORIZON = 1_000_000


def check_length(horizon: int) -> None:
    """Raise `InvalidMDP` if the horizon is not in 1..MAX_HORIZON."""
    if not 1 <= horizon <= MAX_HORIZON:
        limit = "below 1; an episode has at least one step" if horizon < 1 else f"above {MAX_HORIZON:,}"
        raise InvalidMDP(f"horizon {horizon} is {limit}")


def check_horizon(mdp: TabularMDP, horizon: int | None) -> int:
    """The horizon, or the MDP's own if None. Raises `PartialMDP` if the MDP is not enumerated that far."""
    chosen = mdp.horizon if horizon is None else horizon
    if chosen is None:
        raise InvalidMDP(f"{mdp.name or 'the MDP'} has no horizon of its own; give one (--horizon T)")
    check_length(chosen)
    if mdp.depth is not None and chosen > mdp.depth:
        raise PartialMDP(
            f"{mdp.name or 'the MDP'} is enumerated to {mdp.depth} steps only, not to horizon {chosen}; "
            f"raise --max-states, continue its build, or use --horizon {mdp.depth}"
        )
    return chosen


def kept_screens(mdp: TabularMDP, kept: NDArray[np.integer]) -> dict[str, Any]:
    """The fields `screens` and `screen_mapping` of the MDP that has only the states `kept`, without unused screens."""
    if mdp.screen_mapping is None:
        return {}
    used, mapping = in_order_of_first_use(mdp.screen_mapping[kept])
    return {"screens": None if mdp.screens is None else mdp.screens[used], "screen_mapping": mapping}


def cut(mdp: TabularMDP, horizon: int) -> TabularMDP:
    """The MDP of the first `horizon` steps. Later states are removed, and transitions to them end the episode."""
    horizon = check_horizon(mdp, horizon)
    keep = reachable_sets(mdp, horizon).union()
    if keep.all():
        return replace(mdp, horizon=horizon)
    kept = np.flatnonzero(keep)
    new_index = np.full(mdp.num_states + 1, END, np.int32)  # the last entry maps END to END
    new_index[kept] = np.arange(len(kept))
    fields: dict[str, object] = {
        "rewards": mdp.rewards[kept],
        "start_states": new_index[mdp.start_states],
        "horizon": horizon,
        "depth": horizon,
    }
    if mdp.transitions is not None:
        fields["transitions"] = new_index[mdp.transitions[kept]]
    else:
        assert mdp.outcomes is not None
        rows = (kept[:, None] * mdp.num_actions + np.arange(mdp.num_actions)).ravel()
        entries, counts = entries_of_rows(mdp.outcomes.indptr, rows)
        fields["outcomes"] = Outcomes(
            np.concatenate([[0], np.cumsum(counts)]),
            new_index[mdp.outcomes.next_states[entries]],
            mdp.outcomes.probabilities[entries],
            mdp.outcomes.rewards[entries],
            None if mdp.outcomes.draws is None else mdp.outcomes.draws[rows],
        )
    return replace(mdp, **fields, **kept_screens(mdp, kept))  # type: ignore[arg-type]
