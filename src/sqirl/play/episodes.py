"""Collecting whole episodes: who acts, for how long, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.play.players import Keep, Player, Seed

#: (timesteps (n,), keys (n, K), numbers of episodes (n,)) -> actions (n,)
Act = Callable[[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]], NDArray[np.integer]]
#: (steps just taken, infos of episodes that ended, rewards, ends) -> continue?
OnStep = Callable[[int, list[dict[str, Any]], NDArray[np.float64], NDArray[np.bool_]], bool]


@dataclass(frozen=True, eq=False)
class Transitions:
    """n transitions (s, a, r, s') with the return from s on; `next_keys` mean nothing where the episode does not continue."""

    keys: NDArray[np.int32]  # (n, K)
    next_keys: NDArray[np.int32]  # (n, K)
    actions: NDArray[np.integer]  # (n,)
    rewards: NDArray[np.float64]  # (n,)
    returns: NDArray[np.float64]  # (n,) discounted reward-to-go
    continues: NDArray[np.bool_]  # (n,)

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, eq=False)
class Episodes:
    """Whole episodes as L steps of n lanes; a lane that ends starts its next episode in the next step.

    `active` marks the steps of episodes that were asked for; the rest is to be ignored.
    """

    keys: NDArray[np.int32]  # (L + 1, n, K): the last are those after the last step
    actions: NDArray[np.integer]  # (L, n)
    rewards: NDArray[np.float64]  # (L, n)
    ends: NDArray[np.bool_]  # (L, n)
    active: NDArray[np.bool_]  # (L, n)
    t: NDArray[np.int64]  # (L, n) the timestep within the episode

    @property
    def num_steps(self) -> int:
        return int(self.active.sum())

    def returns_to_go(self, gamma: float = 1.0) -> NDArray[np.float64]:
        """(L, n) discounted reward from each step to the end of its episode."""
        returns = np.empty(self.rewards.shape)
        ahead = np.zeros(self.rewards.shape[1])
        for step in reversed(range(len(self.rewards))):
            ahead = self.rewards[step] + gamma * np.where(self.ends[step], 0.0, ahead)
            returns[step] = ahead
        return returns

    def returns(self, gamma: float = 1.0) -> NDArray[np.float64]:
        """(episodes,) the discounted return of each, in the order of their numbers."""
        firsts = self.active & (self.t == 0)
        rounds = np.cumsum(firsts, axis=0)[firsts] - 1
        lanes = np.nonzero(firsts)[1]
        in_order: NDArray[np.float64] = self.returns_to_go(gamma)[firsts][np.lexsort((lanes, rounds))]
        return in_order

    def at(self, t: int, gamma: float = 1.0) -> Transitions:
        """The transitions at timestep t, lane by lane; none where every episode is over by then."""
        return self._chosen(self.t == t, gamma)

    def since(self, t: int, gamma: float = 1.0) -> Transitions:
        """The transitions at timestep t and later, lane by lane in the order of time."""
        return self._chosen(self.t >= t, gamma)

    def _chosen(self, which: NDArray[np.bool_], gamma: float) -> Transitions:
        chosen = (self.active & which).T

        def pick(array: NDArray[Any]) -> NDArray[Any]:
            return np.swapaxes(array, 0, 1)[chosen]

        return Transitions(
            keys=pick(self.keys[:-1]),
            next_keys=pick(self.keys[1:]),
            actions=pick(self.actions),
            rewards=pick(self.rewards),
            returns=pick(self.returns_to_go(gamma)),
            continues=~pick(self.ends),
        )


def play_episodes(
    player: Player, act: Act, count: int, seed: Seed, on_step: OnStep | None = None, *, first: int = 0
) -> Episodes | None:
    """`count` whole episodes, or None if `on_step` stops them before their end; only frames from time `first` on are kept.

    Every lane plays a fixed share of the episodes: episode e is played in lane e mod n. If the first `count` episodes that
    end were taken, short episodes would be counted more often than long ones.
    """
    player.start(count, seed)
    n = player.num_lanes
    left = (count - np.arange(n) + n - 1) // n
    t, episode = np.zeros(n, np.int64), np.arange(n)
    keys, steps = [player.keys], []
    while (left > 0).any():
        active = left > 0
        actions = act(t, player.keys, np.minimum(episode, count - 1))
        rewards, ends, infos = player.step(actions, _frames_to_keep(t, left, first))
        keys.append(player.keys)
        steps.append((actions, rewards, ends, active, t))
        left = left - (ends & active)
        t, episode = np.where(ends, 0, t + 1), episode + n * ends
        stopped = on_step is not None and not on_step(int(active.sum()), infos, rewards, ends)
        if stopped and (left > 0).any():
            return None
    columns = [np.array(column) for column in zip(*steps, strict=True)]
    return Episodes(np.array(keys), *columns)


def _frames_to_keep(t: NDArray[np.int64], left: NDArray[np.int64], first: int) -> Keep:
    """The next frame is kept in lanes that have episodes left, from time `first` on."""

    def keep(ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = (np.where(ends, 0, t + 1) >= first) & (left > np.where(ends, 1, 0))
        return kept

    return keep
