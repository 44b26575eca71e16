"""Collecting whole episodes from a source: who acts, for how long, and what is handed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqirl.algorithms.replay import Transitions
from sqirl.algorithms.sources import Keep, Source

#: (timesteps (n,), keys (n, K)) -> actions (n,)
Act = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: (steps just taken, infos of episodes that ended, rewards, ends) -> go on?
OnStep = Callable[[int, list[dict[str, Any]], np.ndarray, np.ndarray], bool]


@dataclass(frozen=True, eq=False)
class Played:
    """L vector steps of n lanes. `active`: the step belongs to an episode that was asked for."""

    keys: np.ndarray  # (L + 1, n, K): the last are those after the last step
    actions: np.ndarray  # (L, n)
    rewards: np.ndarray  # (L, n)
    ends: np.ndarray  # (L, n) bool
    active: np.ndarray  # (L, n) bool
    t: np.ndarray  # (L, n)

    def returns_to_go(self, gamma: float) -> np.ndarray:
        """(L, n) discounted reward from each step to the end of its episode."""
        returns = np.empty(self.rewards.shape)
        ahead = np.zeros(self.rewards.shape[1])
        for step in reversed(range(len(self.rewards))):
            ahead = self.rewards[step] + gamma * np.where(self.ends[step], 0.0, ahead)
            returns[step] = ahead
        return returns

    def transitions(self, gamma: float, *, first: int) -> Transitions:
        """Those at timesteps from `first` on, lane by lane in the order of time."""
        chosen = (self.active & (self.t >= first)).T

        def pick(array: np.ndarray) -> np.ndarray:
            return np.swapaxes(array, 0, 1)[chosen]

        return Transitions(
            keys=pick(self.keys[:-1]),
            next_keys=pick(self.keys[1:]),
            actions=pick(self.actions),
            rewards=pick(self.rewards),
            returns=pick(self.returns_to_go(gamma)),
            goes_on=~pick(self.ends),
        )


def play_episodes(
    source: Source, act: Act, count: int, seed: np.random.SeedSequence, on_step: OnStep, *, first: int = 0
) -> Played | None:
    """`count` whole episodes, or None if `on_step` stops them before their end; what is seen from time `first` on is kept.

    Every lane plays a fixed share of them, so that short episodes are not counted more often than long ones.
    """
    source.start(count, seed)
    n = source.num_lanes
    left = (count - np.arange(n) + n - 1) // n
    t = np.zeros(n, np.int64)
    keys, steps = [source.keys], []
    while (left > 0).any():
        active = left > 0
        actions = act(t, source.keys)
        rewards, ends, infos = source.step(actions, _worth_keeping(t, left, first))
        keys.append(source.keys)
        steps.append((actions, rewards, ends, active, t))
        left = left - (ends & active)
        t = np.where(ends, 0, t + 1)
        if not on_step(int(active.sum()), infos, rewards, ends) and (left > 0).any():
            return None
    columns = [np.array(column) for column in zip(*steps, strict=True)]
    return Played(np.array(keys), *columns)


def _worth_keeping(t: np.ndarray, left: np.ndarray, first: int) -> Keep:
    """What comes next is, in lanes that have episodes left, from time `first` on."""

    def keep(ends: np.ndarray) -> np.ndarray:
        worth: np.ndarray = (np.where(ends, 0, t + 1) >= first) & (left > np.where(ends, 1, 0))
        return worth

    return keep
