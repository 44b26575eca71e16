"""The sampled estimator: what can be learned about an environment in some seconds when its states cannot be listed.

1. Random play: returns, their spread, and how often a reward is met at all.
2. Greedy paths: an episode in which every action is chosen by Monte Carlo estimates of Q^1. At a moment of the path each action
   is tried in m rollouts of random play from the restored moment. The number of rollouts is doubled from path to path as long
   as the time allows. Where the time allows fewer than one rollout for every action and step, estimates are made at every d-th
   step, and the path follows the best rollout in between.
3. One path on Q^2: the value of an action is its reward plus the best estimate of Q^1 in the state that it led to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.diagnosis.simulator import Simulator
from sqirl.errors import WorkFailed

#: Share of the time for random play, and the most episodes of it.
RANDOM_SHARE, MAX_EPISODES = 0.3, 10_000
#: From fewer episodes of random play nothing is concluded. They may take this share of the time.
FEW_EPISODES, FEW_SHARE = 10, 0.7
#: Rollouts look so many steps ahead at most; the paper's environments have at most 200 steps.
LOOKAHEAD = 200
#: Rollouts for each action at which the doubling ends, and the number of paths with so many.
MAX_ROLLOUTS, MAX_PATHS = 64, 5
#: Rollouts for each action of the states that Q^2 looks at, and how often each action is tried.
Q2_ROLLOUTS, Q2_TRIES = 4, 2
#: Where rewards are rare: rollouts at one moment that must differ from the others before actions are compared, the most rollouts
#: of an action to look for them, and the share of the time that is left.
INFORMATIVE, MAX_SEARCH, LONGEST_SEARCH = 6, 500, 0.12
#: Without a time limit of its own an episode is cut after so many steps.
LONGEST_EPISODE = 100_000

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RandomPlay:
    """Episodes of uniformly random actions."""

    returns: Values  # (n,)
    lengths: Values  # (n,)
    rewarded: float  # share of episodes with a reward that is not zero
    rewards: Values  # (n,) rewards of each episode that are not zero
    seconds_per_step: float

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def deviation(self) -> float:
        return float(self.returns.std())

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(len(self.returns))


@dataclass(frozen=True, eq=False)
class DecisionPoint:
    """Estimates at one moment of a greedy path: the mean and the deviation of the rollouts of each action."""

    t: int
    means: Values  # (A,)
    deviations: Values  # (A,)
    rollouts: int  # of each action
    #: The best return of an episode that went through this moment and ended, -inf if none did; on a path on Q^2, of an estimate
    best: float


@dataclass(frozen=True, eq=False)
class GreedyPath:
    """One episode that is greedy on estimates of Q^k."""

    k: int
    rollouts: int
    stride: int
    total: float  # the return of the path
    length: int
    points: tuple[DecisionPoint, ...]
    steps: int  # simulated steps that it took
    complete: bool


@dataclass(frozen=True, eq=False)
class Samples:
    """Everything that was sampled."""

    num_actions: int
    horizon: int | None
    saved_by: str
    random: RandomPlay
    paths: tuple[GreedyPath, ...]
    best_return: float
    worst_return: float
    steps: int
    seconds: float

    @property
    def best_episode(self) -> float:
        """The best return of an episode that was seen, rollouts that left a greedy path among them."""
        points = (point for path in self.paths if path.k == 1 for point in path.points)
        return max([self.best_return, *(point.best for point in points)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON. `from_dict` is the inverse."""
        plain = asdict(self)
        plain["random"] = {
            **plain["random"],
            "returns": self.random.returns.tolist(),
            "lengths": self.random.lengths.tolist(),
            "rewards": self.random.rewards.tolist(),
        }
        for path in plain["paths"]:
            for point in path["points"]:
                point["means"], point["deviations"] = point["means"].tolist(), point["deviations"].tolist()
        return plain

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Samples:
        """The samples of a record of `to_dict`."""
        random = {
            **record["random"],
            "returns": np.array(record["random"]["returns"]),
            "lengths": np.array(record["random"]["lengths"]),
            "rewards": np.array(record["random"]["rewards"]),
        }
        paths = []
        for path in record["paths"]:
            points = tuple(
                DecisionPoint(p["t"], np.array(p["means"]), np.array(p["deviations"]), p["rollouts"], p["best"])
                for p in path["points"]
            )
            paths.append(GreedyPath(**{**path, "points": points}))
        return cls(**{**record, "random": RandomPlay(**random), "paths": tuple(paths)})


class _OutOfTime(Exception):
    """The time is over in the middle of a path."""


@dataclass(eq=False)
class _Player:
    """Plays on a simulator, counts steps, and stops when the time is over."""

    simulator: Simulator
    rng: np.random.Generator
    clock: Callable[[], float]
    deadline: float
    steps: int = 0

    def left(self) -> float:
        return self.deadline - self.clock()

    def seed(self) -> int:
        return int(self.rng.integers(2**31))

    def step(self, action: int) -> tuple[float, bool]:
        if self.clock() > self.deadline:
            raise _OutOfTime
        self.steps += 1
        _, reward, over = self.simulator.step(action)
        return reward, over

    def rollout(self, limit: int = LOOKAHEAD) -> tuple[float, list[int], bool]:
        """The return of random play from here, its actions, and whether the episode ended."""
        actions = self.rng.integers(self.simulator.num_actions, size=limit).tolist()
        total = 0.0
        for place, action in enumerate(actions):
            reward, over = self.step(action)
            total += reward
            if over:
                return total, actions[: place + 1], True
        return total, actions, False


def sample(
    simulator: Simulator, *, seconds: float, seed: int = 0, clock: Callable[[], float] = time.monotonic
) -> Samples:
    """What `seconds` of play say about the environment.

    :param simulator: the environment
    :param seconds: the time to use, at most
    :param seed: of all randomness; the result depends on the speed of the machine as well
    :param clock: how time is measured
    """
    began = clock()
    player = _Player(simulator, np.random.default_rng(seed), clock, began + seconds)
    random = _play_randomly(player, RANDOM_SHARE * seconds)
    paths = _greedy_paths(player, random)
    totals = [*random.returns, *(path.total for path in paths if path.complete)]
    return Samples(
        num_actions=simulator.num_actions,
        horizon=simulator.horizon,
        saved_by=simulator.saved_by,
        random=random,
        paths=tuple(paths),
        best_return=float(max(totals)),
        worst_return=float(min(totals)),
        steps=player.steps,
        seconds=clock() - began,
    )


def _play_randomly(player: _Player, seconds: float) -> RandomPlay:
    """Episodes until the time share is used. The first one may take all of the time."""
    began = player.clock()
    until = began + seconds
    simulator, rng = player.simulator, player.rng
    returns: list[float] = []
    lengths: list[int] = []
    rewards: list[int] = []
    limit = simulator.horizon or LONGEST_EPISODE

    def is_late() -> bool:
        late = until if len(returns) >= FEW_EPISODES else began + FEW_SHARE / RANDOM_SHARE * seconds
        return bool(returns) and player.clock() > late

    while len(returns) < MAX_EPISODES and not is_late():
        simulator.reset(player.seed())
        total, count, length, over = 0.0, 0, 0, False
        while not over and length < limit:
            if not returns and player.left() < 0:
                raise WorkFailed(
                    f"{simulator.name}: the first episode of random play has not ended after {length:,} steps and "
                    f"{seconds / RANDOM_SHARE:.0f} seconds; give --horizon T to look at the first T steps, or more --time-limit"
                )
            if is_late():
                break
            _, reward, over = simulator.step(int(rng.integers(simulator.num_actions)))
            player.steps += 1
            total, length, count = total + reward, length + 1, count + (reward != 0)
        if not over and length >= LONGEST_EPISODE:
            raise WorkFailed(f"{simulator.name}: an episode has not ended after {length:,} steps; give --horizon T")
        if over or length >= limit:
            returns.append(total)
            lengths.append(length)
            rewards.append(count)
    counts = np.array(rewards, float)
    return RandomPlay(
        np.array(returns), np.array(lengths, float), float((counts > 0).mean()), counts,
        (player.clock() - began) / player.steps,
    )  # fmt: skip


def _greedy_paths(player: _Player, random: RandomPlay) -> list[GreedyPath]:
    """Paths with more and more rollouts until the time is over; the last one may be incomplete."""
    paths: list[GreedyPath] = []
    stride, rollouts, k = _first_stride(player, random), 1, 1
    while player.left() > 0:
        began = player.clock()
        path = _greedy_path(player, k=k, rollouts=rollouts, stride=stride)
        paths += [path] if path.points else []
        if not path.complete or k == 2:
            break
        used = max(player.clock() - began, 1e-6)
        if stride > 1 and 1.5 * used <= player.left():
            stride = max(1, stride // 2)
        elif rollouts < MAX_ROLLOUTS and 1.5 * used <= player.left():
            rollouts *= 2
        elif rollouts == MAX_ROLLOUTS and len([path for path in paths if path.rollouts == rollouts]) >= MAX_PATHS:
            k, rollouts = 2, Q2_ROLLOUTS
    return paths


def _first_stride(player: _Player, random: RandomPlay) -> int:
    """Steps between two estimates such that a path with one rollout takes a fourth of the time that is left."""
    length = float(random.lengths.mean())
    limit = player.simulator.horizon or LONGEST_EPISODE
    rollout = min(length, LOOKAHEAD) * (0.5 if length > 0.9 * limit else 1.0)
    cost = min(limit, 2 * length) * player.simulator.num_actions * rollout * random.seconds_per_step
    return max(1, math.ceil(cost / (0.25 * max(player.left(), 1e-3))))


def _greedy_path(player: _Player, *, k: int, rollouts: int, stride: int) -> GreedyPath:
    simulator, first = player.simulator, player.steps
    simulator.reset(player.seed())
    points: list[DecisionPoint] = []
    total, t, over = 0.0, 0, False
    limit = simulator.horizon or LONGEST_EPISODE
    try:
        while not over and t < limit:
            moment = simulator.save()
            if k == 1:
                point, plan = _estimate_q1(player, moment, t, rollouts, player.clock() + LONGEST_SEARCH * player.left())
            else:
                point, plan = _estimate_q2(player, moment, t, rollouts)
            points.append(replace(point, best=total + point.best))
            simulator.restore(moment, player.seed())
            for action in plan[:stride]:
                reward, over = player.step(action)
                total, t = total + reward, t + 1
                if over:
                    break
    except _OutOfTime:
        return GreedyPath(k, rollouts, stride, total, t, tuple(points), player.steps - first, False)
    return GreedyPath(k, rollouts, stride, total, t, tuple(points), player.steps - first, True)


def _estimate_q1(
    player: _Player, moment: object, t: int, rollouts: int, search_until: float = -math.inf
) -> tuple[DecisionPoint, list[int]]:
    """Estimates of Q^1 at a moment, and the actions of the best rollout that begins with the best action.

    Every action gets `rollouts` rollouts. Where rewards are rare, all of these may have the same return. Then there are more,
    until `INFORMATIVE` of them differ from the others, or until the time `search_until`.
    """
    A = player.simulator.num_actions
    values: list[list[float]] = [[] for _ in range(A)]
    best_of: list[tuple[float, list[int]]] = [(-math.inf, [])] * A
    usual, others, best_whole = 0.0, 0, -math.inf
    while len(values[0]) < rollouts or (
        others < INFORMATIVE and len(values[0]) < MAX_SEARCH and player.clock() < search_until
    ):
        for action in range(A):
            player.simulator.restore(moment, player.seed())
            reward, over = player.step(action)
            ahead, actions, ended = (0.0, [], True) if over else player.rollout()
            value = reward + ahead
            best_whole = max(best_whole, value) if ended else best_whole
            usual = value if not values[0] else usual
            others += value != usual
            values[action].append(value)
            if value > best_of[action][0]:
                best_of[action] = value, [action, *actions]
    table = np.array(values)  # (A, n)
    best = _best(table.mean(axis=1), player.rng)
    plan = best_of[best][1]
    return DecisionPoint(t, table.mean(axis=1), table.std(axis=1), table.shape[1], best_whole), plan


def _estimate_q2(player: _Player, moment: object, t: int, rollouts: int) -> tuple[DecisionPoint, list[int]]:
    """Estimates of Q^2 at a moment, from a tree of two levels, and the best action."""
    A = player.simulator.num_actions
    values = np.empty((A, Q2_TRIES))
    for action in range(A):
        for n in range(Q2_TRIES):
            player.simulator.restore(moment, player.seed())
            reward, over = player.step(action)
            values[action, n] = reward
            if not over:
                child, _ = _estimate_q1(player, player.simulator.save(), t + 1, rollouts)
                values[action, n] += child.means.max()
    best = _best(values.mean(axis=1), player.rng)
    return DecisionPoint(t, values.mean(axis=1), values.std(axis=1), Q2_TRIES, float(values.max())), [best]


def _best(values: Values, rng: np.random.Generator) -> int:
    """The place of the largest value; one of them at random where several are equal."""
    return int(rng.choice(np.flatnonzero(values == values.max())))
