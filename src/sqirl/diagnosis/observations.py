"""Does what the agent sees determine what it should do?

A policy of the observation takes one action for all states that look alike. The best such policy is hard to find in general,
so a good one is searched: first every observation takes the action that is best on average over the states that optimal play
meets, then the actions are improved one time after the other. What it earns is computed exactly. It is a lower bound of what
is possible, and the answer is exact where it equals the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.diagnosis.simulator import Simulator
from sqirl.envs.adapters import fingerprint
from sqirl.errors import counted
from sqirl.mdp.convert import expand_sticky, to_stochastic, transition_matrix
from sqirl.mdp.reach import breadth_first_tree
from sqirl.mdp.tabular import END, Outcomes, TabularMDP

#: The largest T · S · A for which policies of the observation are searched.
MAX_SIZE = 20_000_000
#: Rounds of improvement.
ROUNDS = 4
#: States of an env that are visited again to see their observations, at most.
MAX_WALK = 20_000

Labels = NDArray[np.int64]  # (S,) equal for states that look alike
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Alike:
    """Two states that look the same at the same time and need different actions."""

    t: int
    states: tuple[int, int]
    actions: tuple[tuple[int, ...], tuple[int, ...]]  # the optimal ones of each


@dataclass(frozen=True)
class ObservationReport:
    """Shares of what optimal play gains on random play that policies of the observation reach; at least so much is possible."""

    num_observations: int
    num_states: int
    seen: float  # policies of the observation
    seen_and_clock: float  # of the observation and the time
    stacked: float | None  # of the last two observations; None where it was not computed
    alike: Alike | None

    @property
    def suffices(self) -> bool:
        """Is the observation enough, as far as was found?"""
        return self.seen > 0.999

    @property
    def lines(self) -> list[str]:
        if self.num_observations >= self.num_states:
            return ["  every state looks different: the observation says all that there is to know"]
        alike = self.num_states - self.num_observations
        lines = [
            f"  {counted(self.num_observations, 'observation')} for {counted(self.num_states, 'state')} "
            f"({counted(alike, 'state looks', 'states look')} like another one)"
        ]
        if self.suffices:
            return [*lines, "  the observation is enough to act optimally"]
        lines.append(
            f"  a policy of the observation reaches {_percent(self.seen)} of the gain on random play (at least)"
        )
        lines.append(f"  a policy of the observation and the clock reaches {_percent(self.seen_and_clock)}")
        if self.stacked is not None:
            lines.append(f"  a policy of the last two observations reaches {_percent(self.stacked)}")
        if self.alike is not None:
            one, two = self.alike.states
            first, second = (", ".join(map(str, actions)) for actions in self.alike.actions)
            lines.append(
                f"  states {one} and {two} look alike after {self.alike.t} steps; "
                f"the first needs action {first}, the second {second}"
            )
        return lines


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.3g} %"


def labels_of(mdp: TabularMDP, simulator: Simulator | None) -> Labels | None:
    """What each state looks like. From the screens of the table, or by visiting the states of a deterministic env again."""
    if mdp.screen_mapping is not None:
        return mdp.screen_mapping.astype(np.int64)
    if simulator is None or mdp.transitions is None or mdp.num_states > MAX_WALK:
        return None
    if len(mdp.start_states) > 1 and mdp.start_seeds is None:
        return None  # the starts cannot be visited again
    seeds = [0] if mdp.start_seeds is None else mdp.start_seeds.tolist()
    tree = breadth_first_tree(mdp)
    seen: dict[bytes, int] = {}
    saved: dict[int, Any] = {}
    labels = np.full(mdp.num_states, -1, np.int64)
    for start, seed in zip(mdp.start_states.tolist(), seeds, strict=True):
        labels[start] = seen.setdefault(fingerprint(simulator.reset(seed)), len(seen))
        saved[start] = simulator.save()
    for state in sorted(range(mdp.num_states), key=lambda state: len(tree.path_to(state))):
        if tree.rows[state] < 0:
            continue
        parent, action = divmod(int(tree.rows[state]), mdp.num_actions)
        simulator.restore(saved[parent], 0)
        observation, _, _ = simulator.step(action)
        labels[state] = seen.setdefault(fingerprint(observation), len(seen))
        saved[state] = simulator.save()
    return labels


def look_at_observations(mdp: TabularMDP, labels: Labels, *, optimal: float, random: float) -> ObservationReport | None:
    """How much a policy of the observation can earn; None if the table is too large.

    :param mdp: the environment with its horizon
    :param labels: (S,) what each state looks like
    :param optimal: the optimal return
    :param random: the return of uniformly random actions
    """
    num_states, num_labels = mdp.num_states, len(np.unique(labels))
    gain = optimal - random
    slots = mdp.num_actions + 1 if mdp.stickiness else 1  # a state of the expanded MDP is s · slots + previous action
    if mdp.stickiness:
        labels, mdp = np.repeat(labels, slots), expand_sticky(mdp)
    if _size(mdp) > MAX_SIZE or gain <= 0:
        return None
    if num_labels == num_states:
        return ObservationReport(num_labels, num_states, 1.0, 1.0, None, None)
    search = _Search(mdp, labels)
    seen, with_clock = search.without_clock(), search.with_clock()
    stacked = None
    if (seen - random) / gain < 0.999:
        product, product_labels = stack_two(mdp, labels)
        if _size(product) <= MAX_SIZE:
            stacked = (_Search(product, product_labels).without_clock() - random) / gain
    alike = search.alike() if (with_clock - random) / gain < 0.999 else None
    if alike is not None:
        alike = replace(alike, states=(alike.states[0] // slots, alike.states[1] // slots))
    return ObservationReport(
        num_labels, num_states, (seen - random) / gain, (with_clock - random) / gain, stacked, alike
    )


def _size(mdp: TabularMDP) -> int:
    return (mdp.horizon or 0) * mdp.num_states * mdp.num_actions


def stack_two(mdp: TabularMDP, labels: Labels) -> tuple[TabularMDP, Labels]:
    """The MDP whose states are pairs of the last observation and a state, and what each pair looks like: both observations."""
    base = to_stochastic(mdp)
    assert base.outcomes is not None
    S, A, outcomes = mdp.num_states, mdp.num_actions, base.outcomes
    rows = np.repeat(np.arange(S * A), np.diff(outcomes.indptr))
    after = outcomes.next_states.astype(np.int64)
    before = labels[rows // A] + 1  # 0: nothing was seen before
    reached = np.where(after == END, END, before * S + after)
    pairs = np.unique(np.concatenate([mdp.start_states.astype(np.int64), reached[after != END]]))
    place = np.searchsorted(pairs, reached)
    states = pairs % S
    entry_rows = (states[:, None] * A + np.arange(A)).ravel()
    counts = np.diff(outcomes.indptr)[entry_rows]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    entries = np.repeat(outcomes.indptr[entry_rows] - indptr[:-1], counts) + np.arange(indptr[-1])
    next_pairs = np.where(after[entries] == END, END, place[entries]).astype(np.int32)
    product = Outcomes(indptr, next_pairs, outcomes.probabilities[entries], outcomes.rewards[entries])
    mdp2 = TabularMDP(
        rewards=product.expected_rewards(A),
        outcomes=product,
        start_states=np.searchsorted(pairs, mdp.start_states).astype(np.int32),
        start_probabilities=mdp.start_probabilities,
        horizon=mdp.horizon,
    )
    both = (pairs // S) * (labels.max() + 2) + labels[states]
    return mdp2, np.unique(both, return_inverse=True)[1].astype(np.int64)


class _Search:
    """Searches for good policies of the observation on one MDP without sticky actions."""

    def __init__(self, mdp: TabularMDP, labels: Labels) -> None:
        assert mdp.horizon is not None
        self.mdp, self.T, self.S, self.A = mdp, mdp.horizon, mdp.num_states, mdp.num_actions
        self.labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        self.num_labels = int(self.labels.max()) + 1
        self.chances = transition_matrix(mdp)
        self.start = np.bincount(mdp.start_states, mdp.start_probabilities, minlength=self.S)
        self.best = [np.zeros((self.S, self.A))] * self.T  # Q* at each time
        value = np.zeros(self.S)
        for t in reversed(range(self.T)):
            self.best[t] = self.q_of(value)
            value = self.best[t].max(axis=1)
        self.met = self.occupancy([q.argmax(axis=1) for q in self.best])

    def q_of(self, value: Floats) -> Floats:
        """(S, A) values of actions, from the values (S,) one step later."""
        return np.asarray(self.mdp.rewards + (self.chances @ value).reshape(self.S, self.A))

    def occupancy(self, policy: list[Labels]) -> list[Floats]:
        """(S,) how often a policy is in each state, for each time."""
        found: list[Floats] = []
        here: Floats = self.start.astype(float)
        for t in range(self.T):
            found.append(here)
            rows = np.arange(self.S) * self.A + policy[t]
            here = np.asarray(here @ self.chances[rows])
        return found

    def choose(self, weights: Floats, q: Floats) -> Labels:
        """(S,) the action that is best on average over the states that look alike."""
        total = np.zeros((self.num_labels, self.A))
        np.add.at(total, self.labels, weights[:, None] * q)
        chosen: Labels = total.argmax(axis=1)[self.labels]
        return chosen

    def value_of(self, policy: list[Labels]) -> float:
        value = np.zeros(self.S)
        for t in reversed(range(self.T)):
            value = self.q_of(value)[np.arange(self.S), policy[t]]
        return float(self.start @ value)

    def with_clock(self) -> float:
        """The return of a policy of the observation and the time."""
        policy = [self.choose(self.met[t] + 1e-12, self.best[t]) for t in range(self.T)]
        for _ in range(ROUNDS):
            met, value = self.occupancy(policy), np.zeros(self.S)
            for t in reversed(range(self.T)):
                q = self.q_of(value)
                policy[t] = self.choose(met[t] + 1e-12, q)
                value = q[np.arange(self.S), policy[t]]
        return self.value_of(policy)

    def without_clock(self) -> float:
        """The return of a policy of the observation alone."""
        weights, qs, best = self.met, self.best, -np.inf
        for _ in range(ROUNDS):
            total = np.zeros((self.num_labels, self.A))
            for t in range(self.T):
                np.add.at(
                    total, self.labels, (weights[t] + 1e-12)[:, None] * (qs[t] - qs[t].max(axis=1, keepdims=True))
                )
            policy = [total.argmax(axis=1)[self.labels]] * self.T
            best = max(best, self.value_of(policy))
            weights, value, qs = self.occupancy(policy), np.zeros(self.S), [*qs]
            for t in reversed(range(self.T)):
                qs[t] = self.q_of(value)
                value = qs[t][np.arange(self.S), policy[t]]
        return float(best)

    def alike(self) -> Alike | None:
        """The two states that optimal play meets, that look alike, and that lose most by taking the same action."""
        worst, found = 0.0, None
        for t in range(self.T):
            met = np.flatnonzero(self.met[t] > 1e-9)
            loss = self.best[t].max(axis=1, keepdims=True) - self.best[t]  # (S, A)
            for label in np.unique(self.labels[met]):
                states = met[self.labels[met] == label]
                if len(states) > 1:
                    weighted = self.met[t][states, None] * loss[states]
                    lost = float(weighted.sum(axis=0).min())
                    if lost > worst * (1 + 1e-9) + 1e-9:
                        pair = self._pair(states, loss)
                        worst, found = (lost, (t, pair)) if pair is not None else (worst, found)
        if found is None:
            return None
        t, (one, two) = found
        return Alike(t, (one, two), (self._optimal(t, one), self._optimal(t, two)))

    def _pair(self, states: NDArray[np.int64], loss: Floats) -> tuple[int, int] | None:
        first = int(states[0])
        free = loss[first] < 1e-9
        for other in states[1:].tolist():
            if not (free & (loss[other] < 1e-9)).any():
                return first, int(other)
        return None

    def _optimal(self, t: int, state: int) -> tuple[int, ...]:
        q = self.best[t][state]
        return tuple(np.flatnonzero(q >= q.max() - 1e-9).tolist())
