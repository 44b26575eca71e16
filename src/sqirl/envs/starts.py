"""The states that the episodes of a game start in, with their probabilities, from resets with many seeds.

If few starts exist, all of them are found: draws go on until every start was seen twice or more. They count as equally likely
where the draws do not contradict it (chi-square test). If there are many starts, the first draws stand for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.game import Game
from sqirl.envs.randomness import reset_draws

#: Seeds that must lead to the same state before a start counts as fixed; more of them if a reset draws random numbers.
DETECTION_SEEDS, DRAWING_SEEDS = 20, 500
#: Seeds after which all starts may be known, and seeds at most.
FIRST_SEEDS, MOST_SEEDS = 200, 2000
#: With more starts than this, a sample stands for them, of so many seeds unless another number is asked for.
MANY_STARTS, SAMPLED_SEEDS = 150, 100
#: All starts count as seen if there are at least so many draws for each, and none was seen only once.
DRAWS_PER_START = 10
#: Starts are equally likely unless a chi-square test rejects it at this level.
REJECTION_LEVEL = 0.01


@runtime_checkable
class StartsBySeed(Protocol):
    """A game whose start may depend on a seed."""

    def start(self, seed: int) -> None: ...


@dataclass(frozen=True, eq=False)
class Starts:
    """Start states (n,) as saved by the game, with their probabilities.

    :param states: what `Game.get_state` returns at each start
    :param probabilities: (n,)
    :param seeds: (n,) a seed that leads to each start; None if the start is fixed, or if seeds do not reproduce it
    :param draws: how many resets were made; 0 if the start is fixed
    :param complete: were all starts found, as far as the draws tell?
    :param equally_likely: are the probabilities equal because nothing contradicts it? Else they are frequencies
    """

    states: tuple[Any, ...]
    probabilities: NDArray[np.float64]
    seeds: NDArray[np.int64] | None = None
    draws: int = 0
    complete: bool = True
    equally_likely: bool = False

    @property
    def is_random(self) -> bool:
        return len(self.states) > 1

    def facts(self) -> dict[str, Any] | None:
        """What a file keeps of them; None for a fixed start. `sqirl.mdp.scope` says it in words."""
        if not self.draws:
            return None
        return {"draws": self.draws, "complete": self.complete, "equally_likely": self.equally_likely}


def starts_of(game: Game, *, sample: int | None = None) -> Starts:
    """The distribution of starts of a game.

    :param game: it is left at one of its starts
    :param sample: draw so many seeds and no more; None finds all starts if they are few
    """
    game.reset()
    fixed = Starts((game.get_state(),), np.ones(1))
    if not isinstance(game, StartsBySeed):
        return fixed
    tally = _Tally(game)
    tally.draw_until(sample or DETECTION_SEEDS)
    if sample is None and len(tally.counts) == 1 and _draws_at_reset(game):
        tally.draw_until(DRAWING_SEEDS)
    if sample is None and len(tally.counts) > 1:
        tally.draw_until(FIRST_SEEDS)
        while not tally.is_complete and tally.likely_number() <= MANY_STARTS and len(tally.drawn) < MOST_SEEDS:
            tally.draw_until(min(2 * len(tally.drawn), MOST_SEEDS))
        if not tally.is_complete:
            return tally.starts(SAMPLED_SEEDS)
        if not _may_be_equal(tally.counts):
            tally.draw_until(MOST_SEEDS)  # for better frequencies
    # A sample of one seed is one start of many, and must not be taken for a fixed one
    return fixed if len(tally.counts) == 1 and sample != 1 else tally.starts(None if sample is None else sample)


def _draws_at_reset(game: Any) -> bool:
    """Does a reset of the game draw random numbers, so that a rare start may exist?"""
    env = getattr(game, "env", None)
    game.start(0)
    return isinstance(env, gym.Env) and reset_draws(game.env, 0)


class _Tally:
    """Counts the starts that seeds 0, 1, 2, … lead to."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.drawn: list[bytes] = []  # the key after each seed
        self.states: dict[bytes, Any] = {}

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each start was drawn, in the order of their first draws."""
        return self._counts(self.drawn)

    def _counts(self, drawn: Iterable[bytes]) -> NDArray[np.int64]:
        places = {key: place for place, key in enumerate(self.states)}
        return np.bincount([places[key] for key in drawn])

    def draw_until(self, seeds: int) -> None:
        for seed in range(len(self.drawn), seeds):
            self.game.start(seed)
            key = self.game.state_key()
            self.drawn.append(key)
            if key not in self.states:
                self.states[key] = self.game.get_state()

    @property
    def is_complete(self) -> bool:
        """Has every start been seen often enough that another one is unlikely?"""
        counts = self.counts
        return counts.sum() >= DRAWS_PER_START * len(counts) and not (counts == 1).any()

    def likely_number(self) -> float:
        """Chao's estimate of the number of starts, from how many were seen once and twice."""
        once, twice = (self.counts == 1).sum(), (self.counts == 2).sum()
        return float(len(self.counts) + once * (once - 1) / (2 * (twice + 1)))

    def starts(self, sample: int | None) -> Starts:
        """All starts that were drawn, or only those of the first `sample` draws."""
        drawn = self.drawn if sample is None else self.drawn[:sample]
        counts = self._counts(drawn)
        keys = list(self.states)[: len(counts)]
        seeds = np.array([drawn.index(key) for key in keys], np.int64)
        equal = sample is None and _may_be_equal(counts)
        return Starts(
            tuple(self.states[key] for key in keys),
            np.full(len(counts), 1 / len(counts)) if equal else counts / counts.sum(),
            seeds if self._seeds_reproduce(seeds, keys) else None,
            len(drawn),
            sample is None,
            equal,
        )

    def _seeds_reproduce(self, seeds: NDArray[np.int64], keys: list[bytes]) -> bool:
        """Do these seeds lead to the same starts again? Not if the env draws from a generator that it does not seed."""
        for seed, key in list(zip(seeds.tolist(), keys, strict=True))[:DETECTION_SEEDS]:
            self.game.start(seed)
            if self.game.state_key() != key:
                return False
        return True


def _may_be_equal(counts: NDArray[np.int64]) -> bool:
    """Do the counts (n,) not contradict equal probabilities?"""
    from scipy.stats import chisquare

    return bool(chisquare(counts).pvalue > REJECTION_LEVEL)
