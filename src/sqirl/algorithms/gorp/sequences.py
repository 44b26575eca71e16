"""The action sequences that GORP tries, and how episodes follow them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import SqirlError
from sqirl.play.episodes import Act, Episodes

#: GORP plays m episodes for each of A^k sequences; beyond so many it would never end.
MAX_SEQUENCES = 1_000_000


def check_sequences(num_actions: int, k: int) -> None:
    if num_actions**k > MAX_SEQUENCES:
        raise SqirlError(
            f"GORP with k = {k} would try {num_actions}^{k} = {num_actions**k:,} action sequences in every iteration, "
            f"more than {MAX_SEQUENCES:,}; take a smaller k"
        )


def action_sequences(num_actions: int, length: int) -> NDArray[np.int32]:
    """(A^length, length) all sequences in order."""
    return np.array(list(itertools.product(range(num_actions), repeat=length)), np.int32)


def plans_after(fixed: NDArray[np.integer] | list[int], sequences: NDArray[np.int32], m: int) -> NDArray[np.int64]:
    """(sequences·m, length) the actions of m episodes for each sequence, played after the fixed actions."""
    fixed = np.asarray(fixed, np.int64)
    plans = np.concatenate([np.tile(fixed, (len(sequences), 1)), sequences], axis=1).astype(np.int64)
    return np.repeat(plans, m, axis=0)


#: (number of actions, generator, which lanes need a random action (n,)) -> random actions (n,)
Draw = Callable[[int, np.random.Generator, NDArray[np.bool_]], NDArray[np.integer]]


def draw_always(num_actions: int, rng: np.random.Generator, needed: NDArray[np.bool_]) -> NDArray[np.integer]:
    """A random action for every lane in every step: what is drawn next does not depend on the length of the plans."""
    return rng.integers(num_actions, size=len(needed))


def draw_if_needed(num_actions: int, rng: np.random.Generator, needed: NDArray[np.bool_]) -> NDArray[np.integer]:
    """Random actions for all lanes, but only in steps where one of them needs one."""
    return draw_always(num_actions, rng, needed) if needed.any() else np.zeros(len(needed), np.int64)


def follow(plans: NDArray[np.int64], num_actions: int, rng: np.random.Generator, *, draw: Draw = draw_always) -> Act:
    """Episode e takes the actions of plans[e], and random ones after them."""
    length = plans.shape[1]

    def act(t: NDArray[np.int64], keys: NDArray[np.int32], episode: NDArray[np.int64]) -> NDArray[np.integer]:
        random = draw(num_actions, rng, t >= length)
        if not length:
            return random
        return np.where(t < length, plans[episode, np.minimum(t, length - 1)], random)

    return act


def returns_from(episodes: Episodes, first: int, gamma: float = 1.0) -> NDArray[np.float64]:
    """(episodes,) the rewards from timestep `first` on, discounted from there; 0 where an episode is over by then."""
    weights = np.where(episodes.t >= first, gamma ** np.maximum(episodes.t - first, 0), 0.0)
    return replace(episodes, rewards=weights * episodes.rewards).returns()
