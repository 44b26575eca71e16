"""GORP (Algorithm 1 of the paper) and SQIRL (Algorithm 2) as the paper writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqirl.algorithms.checks import check_discount, check_k_and_m
from sqirl.algorithms.gorp.sequences import (
    action_sequences,
    check_sequences,
    draw_if_needed,
    follow,
    plans_after,
    returns_from,
)
from sqirl.algorithms.oracles import QFunction, Regress, checked, tabular_average
from sqirl.errors import SqirlError
from sqirl.evaluation.exact import Nodes, exact_return
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.episodes import Act, Episodes, Transitions, play_episodes
from sqirl.play.players import Playable, Player, as_player, state_observations

#: Episodes that GORP plays side by side from a table; more are played one round after the other.
EPISODES_AT_ONCE = 1 << 19


class PolicyInTime(Protocol):
    """(timesteps (n,), observations (n, …), generator) -> actions (n,); times are counted from 0."""

    @property
    def num_actions(self) -> int: ...
    def __call__(
        self, t: NDArray[np.integer], observations: NDArray[Any], rng: np.random.Generator
    ) -> NDArray[np.integer]: ...


@dataclass(frozen=True, eq=False)
class GreedyInTime:
    """π_1..π_i, each greedy on its own Q^k; uniformly random from there on."""

    num_actions: int
    q_functions: list[QFunction] = field(default_factory=list)

    def freeze(self, q: QFunction) -> None:
        self.q_functions.append(q)

    def __call__(
        self, t: NDArray[np.integer], observations: NDArray[Any], rng: np.random.Generator
    ) -> NDArray[np.integer]:
        frozen = len(self.q_functions)
        actions = rng.integers(self.num_actions, size=len(t)) if (t >= frozen).any() else np.zeros(len(t), np.int64)
        for time in np.unique(t[t < frozen]).tolist():
            actions[t == time] = self.q_functions[time](observations[t == time]).argmax(axis=1)
        return actions


@dataclass(frozen=True, eq=False)
class OpenLoopPolicy:
    """A fixed sequence of actions; uniformly random after it."""

    num_actions: int
    actions: list[int] = field(default_factory=list)

    def __call__(
        self, t: NDArray[np.integer], observations: NDArray[Any], rng: np.random.Generator
    ) -> NDArray[np.integer]:
        plan = np.array([self.actions], np.int64)
        return follow(plan, self.num_actions, rng, draw=draw_if_needed)(
            t.astype(np.int64), np.empty((len(t), 0), np.int32), np.zeros(len(t), np.int64)
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A learned policy and the steps that it took to learn it."""

    policy: PolicyInTime
    num_steps: int

    def true_return(self, mdp: TabularMDP) -> float:
        """The expected return of the policy on the MDP that it was learned on; random actions are drawn once."""
        rng = np.random.default_rng(0)

        def choose(t: int, nodes: Nodes) -> NDArray[np.integer]:
            observations = state_observations(mdp, nodes.states, nodes.executed)
            return self.policy(np.full(len(observations), t), observations, rng)

        return exact_return(mdp, choose)


def fit_sqirl(
    env: Playable, *, k: int, m: int, regress: Regress = tabular_average, horizon: int | None = None, seed: int = 0
) -> Fitted:
    """The policy that SQIRL learns from m episodes in each of T iterations, with any regression oracle.

    Algorithm 2 of the paper line by line, with times counted from 0: a separate Q for each time, k - 1 steps of fitted
    Q-iteration, no data kept from one iteration to the next. Near the end there are fewer than k steps to look at:
    Q^j at the last step is Q^1.

    :param env: an id, a TabularMDP, a Gymnasium env, or a player
    :param k: steps of Q-iteration
    :param m: episodes in each iteration
    :param regress: the regression oracle; see `sqirl.algorithms.oracles`
    :param horizon: steps of an episode; the env's own if None
    :param seed: of all randomness
    """
    player = as_player(env, episodes=m, horizon=horizon, max_lanes=EPISODES_AT_ONCE)
    T = check_k_and_m(k, m, _horizon_of(player))
    rng = np.random.default_rng(seed)
    policy = GreedyInTime(player.num_actions)
    num_steps, bounds = 0, (np.inf, -np.inf)
    for i in range(T):
        episodes = _play(player, _acting(policy, player, rng), m, rng)  # π_0..π_{i-1}, then uniformly random
        num_steps += episodes.num_steps
        bounds = _range_of_returns(episodes, m * T, bounds)  # an oracle's outputs stay in this range
        if not len(episodes.at(i)):  # no episode lasts so long under this policy: nothing is left to learn
            break
        last = max(t for t in range(i, min(i + k, T)) if len(episodes.at(t)))
        steps = episodes.at(last)
        q = _fit(regress, player, steps, steps.returns, bounds)  # Q^1
        for t in reversed(range(i, last)):  # Q^2..Q^k
            steps = episodes.at(t)
            ahead = np.where(steps.continues, q(player.observations(steps.next_keys)).max(axis=1), 0.0)
            q = _fit(regress, player, steps, steps.rewards + ahead, bounds)
        policy.freeze(q)
    return Fitted(policy, num_steps)


def fit_gorp(env: Playable, *, k: int, m: int, gamma: float = 1.0, horizon: int | None = None, seed: int = 0) -> Fitted:
    """The sequence of actions that GORP learns: greedily, by the mean return of random play after each k-long sequence.

    Algorithm 1 of the paper. On a table all sequences and episodes of an iteration are played side by side.

    :param env: an id, a TabularMDP, a Gymnasium env, or a player
    :param k: length of the sequences
    :param m: episodes for each sequence
    :param gamma: discount γ of the rewards that the sequences are compared by
    :param horizon: steps of an episode; the env's own if None
    :param seed: of all randomness
    """
    player = as_player(env, episodes=1, horizon=horizon, max_lanes=EPISODES_AT_ONCE)
    T, A = check_k_and_m(k, m, _horizon_of(player)), player.num_actions
    check_sequences(A, k)
    check_discount(gamma)
    rng = np.random.default_rng(seed)
    policy, num_steps = OpenLoopPolicy(A), 0
    for i in range(T):
        sequences = action_sequences(A, min(k, T - i))
        plans = plans_after(policy.actions, sequences, m)
        episodes = _play(player, follow(plans, A, rng, draw=draw_if_needed), len(plans), rng)
        mean_returns = returns_from(episodes, i, gamma).reshape(len(sequences), m).mean(axis=1)
        policy.actions.append(int(sequences[mean_returns.argmax(), 0]))
        num_steps += episodes.num_steps
    return Fitted(policy, num_steps)


def _acting(policy: PolicyInTime, player: Player, rng: np.random.Generator) -> Act:
    """The policy as `play_episodes` takes it."""
    return lambda t, keys, episode: policy(t, player.observations(keys), rng)


def _play(player: Player, act: Act, count: int, rng: np.random.Generator) -> Episodes:
    episodes = play_episodes(player, act, count, rng)
    assert episodes is not None  # nothing stops them
    return episodes


def _range_of_returns(episodes: Episodes, most_steps: int, before: tuple[float, float]) -> tuple[float, float]:
    """The least and the greatest return-to-go seen so far; after the end of an episode it is 0."""
    seen = episodes.returns_to_go()[episodes.active]
    ended_early = [0.0] if episodes.num_steps < most_steps else []
    return float(min(before[0], seen.min(), *ended_early)), float(max(before[1], seen.max(), *ended_early))


def _fit(
    regress: Regress, player: Player, steps: Transitions, targets: NDArray[np.float64], bounds: tuple[float, float]
) -> QFunction:
    """One regression of the targets on the observations and actions of these steps."""
    q = regress(player.observations(steps.keys), steps.actions, targets, num_actions=player.num_actions, bounds=bounds)
    return checked(q, player.num_actions)


def _horizon_of(player: Player) -> int:
    if player.horizon is None:
        raise SqirlError("the player says nothing about the length of its episodes; give horizon=")
    return player.horizon
