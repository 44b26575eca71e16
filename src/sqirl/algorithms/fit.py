"""SQIRL and GORP as written in the paper."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.algorithms.exact import exact_return
from sqirl.algorithms.oracles import QFunction, Regress, checked, tabular_average
from sqirl.algorithms.worlds import TableWorld, World, as_world, check_k_and_m
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import TabularMDP

Env = str | TabularMDP | gym.Env[Any, Any] | World

#: Episodes that GORP plays side by side; more are played in turns.
EPISODES_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class GreedyInTime:
    """π_1..π_i, each greedy on its own Q^k; uniformly random from there on."""

    num_actions: int
    q_functions: list[QFunction] = field(default_factory=list)

    def freeze(self, q: QFunction) -> None:
        self.q_functions.append(q)

    def __call__(self, t: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(n,) actions at time t (counted from 0)."""
        if t >= len(self.q_functions):
            return rng.integers(self.num_actions, size=len(observations))
        return self.q_functions[t](observations).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A learned policy and the steps that it took."""

    policy: Any
    num_steps: int

    def true_return(self, mdp: TabularMDP) -> float:
        """The policy's expected return on the MDP that it was learned on; where it plays at random, of one such play."""
        world, rng = TableWorld(mdp), np.random.default_rng(0)
        return exact_return(mdp, lambda t, nodes: self.policy(t, world.observe(nodes.states, nodes.executed), rng))


def fit_sqirl(
    env: Env, *, k: int, m: int, regress: Regress = tabular_average, horizon: int | None = None, seed: int = 0
) -> Fitted:
    """The policy that SQIRL learns from m episodes in each of T iterations, with any regression oracle.

    The paper's SQIRL algorithm line by line, with times counted from 0: a separate Q for each time, k - 1 steps of fitted
    Q-iteration, no data kept from one iteration to the next. Near the end there are fewer than k steps to look at:
    Q^j at the last step is Q^1.
    """
    world = as_world(env, horizon)
    T = world.horizon
    check_k_and_m(k, m, T)
    rng = np.random.default_rng(seed)
    policy = GreedyInTime(world.num_actions)
    num_steps, lowest, highest = 0, np.inf, -np.inf
    for i in range(T):
        episodes = world.collect(policy, m, rng)  # π_0..π_{i-1}, then uniformly random
        num_steps += episodes.num_steps
        to_go = episodes.returns_to_go
        lowest, highest = min(lowest, to_go.min()), max(highest, to_go.max())  # an oracle's outputs stay in this range

        def fit(t: int, targets: np.ndarray, episodes: Any = episodes, bounds: Any = (lowest, highest)) -> QFunction:
            alive = episodes.alive[t]
            data = episodes.observations[t, alive], episodes.actions[t, alive], targets[alive]
            return checked(regress(*data, num_actions=world.num_actions, bounds=bounds), world.num_actions)

        if not episodes.alive[i].any():  # no episode lasts so long under this policy: nothing is left to learn
            break
        last = min(i + k, T) - 1
        while not episodes.alive[last].any():
            last -= 1
        q = fit(last, to_go[last])  # Q^1
        for t in reversed(range(i, last)):  # Q^2..Q^k
            ahead = np.where(episodes.alive[t + 1], q(episodes.observations[t + 1]).max(axis=1), 0.0)
            q = fit(t, episodes.rewards[t] + ahead)
        policy.freeze(q)
    return Fitted(policy, num_steps)


@dataclass(frozen=True, eq=False)
class OpenLoopPolicy:
    """A sequence of actions, whatever is observed; uniformly random after it."""

    num_actions: int
    actions: list[int] = field(default_factory=list)

    def __call__(self, t: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if t >= len(self.actions):
            return rng.integers(self.num_actions, size=len(observations))
        return np.full(len(observations), self.actions[t])


def fit_gorp(env: Env, *, k: int, m: int, horizon: int | None = None, seed: int = 0) -> Fitted:
    """The sequence of actions that GORP learns: greedily, by the mean return of random play after each k-long sequence.

    On a table all sequences and episodes of an iteration are played side by side.
    """
    world = as_world(env, horizon)
    T, A = world.horizon, world.num_actions
    check_k_and_m(k, m, T)
    check_sequences(A, k)
    rng = np.random.default_rng(seed)
    policy, num_steps = OpenLoopPolicy(A), 0
    for i in range(T):
        sequences = action_sequences(A, min(k, T - i))
        returns, steps = mean_returns(world, policy.actions, sequences, m, rng)
        policy.actions.append(int(sequences[returns.argmax(), 0]))
        num_steps += steps
    return Fitted(policy, num_steps)


#: GORP plays m episodes for each of A^k sequences; beyond so many it would never end.
MOST_SEQUENCES = 1_000_000


def check_sequences(num_actions: int, k: int) -> None:
    if num_actions**k > MOST_SEQUENCES:
        raise SqirlError(
            f"GORP with k = {k} would try {num_actions}^{k} = {num_actions**k:,} action sequences in every iteration, "
            f"more than {MOST_SEQUENCES:,}; take a smaller k"
        )


def action_sequences(num_actions: int, length: int) -> np.ndarray:
    """(A^length, length) all sequences in order."""
    return np.array(list(itertools.product(range(num_actions), repeat=length)), np.int32)


def mean_returns(
    world: World, prefix: list[int], sequences: np.ndarray, m: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """(mean return of m episodes for each sequence played after the prefix, steps taken)."""
    returns, steps = np.empty(len(sequences)), 0
    at_once = max(1, EPISODES_AT_ONCE // m)
    for first in range(0, len(sequences), at_once):
        part = np.repeat(sequences[first : first + at_once], m, axis=0)  # lane by lane
        episodes = world.collect(_sequences_after(prefix, part, world.num_actions), len(part), rng)
        totals = episodes.rewards.sum(axis=0)
        returns[first : first + at_once] = totals.reshape(-1, m).mean(axis=1)
        steps += episodes.num_steps
    return returns, steps


def _sequences_after(
    prefix: list[int], lanes: np.ndarray, num_actions: int
) -> Callable[[int, np.ndarray, np.random.Generator], np.ndarray]:
    """The behaviour that plays the prefix, then each lane's own sequence, then at random."""
    lane = itertools.count()  # envs that play one episode after the other ask with one observation at a time
    current = [0]

    def behave(t: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, offset = len(observations), t - len(prefix)
        if n < len(lanes) and t == 0:
            current[0] = next(lane)
        if offset < 0:
            return np.full(n, prefix[t])
        if offset >= lanes.shape[1]:
            return rng.integers(num_actions, size=n)
        return lanes[:, offset] if n == len(lanes) else lanes[current[0] : current[0] + 1, offset]

    return behave
