"""Merges indistinguishable states, by partition refinement.

Two states are indistinguishable if their screens are equal (unless screens are ignored), their rewards are equal for every
action, and every action leads both to the end or both to indistinguishable states. The algorithm starts with classes of equal
screens and rewards. It splits classes whose states have next states in different classes, until no class splits. This gives
the fewest classes possible. Each round hashes the classes of a state's next states to 64 bits. At the end the classes
themselves are compared. After a hash collision the algorithm runs again, so it never returns a wrong class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import InvalidMDP
from sqirl.mdp.arrays import in_order_of_first_use
from sqirl.mdp.reach import kept_screens
from sqirl.mdp.tabular import END, TabularMDP


def merge(mdp: TabularMDP, *, by: str = "screen") -> TabularMDP:
    """The MDP whose states are the classes of indistinguishable states, in the order of their first states.

    :param by: "screen" compares rewards and screens, "reward" compares rewards only
    """
    classes = indistinguishable(mdp, by=by)
    first, label = _first_members(classes)
    transitions = mdp.transitions
    assert transitions is not None  # indistinguishable() has checked it
    merged = np.append(label, np.int32(END))[transitions[first]]  # index -1 is the appended END
    starts, place = in_order_of_first_use(label[mdp.start_states])
    without_screens = {"screens": None, "screen_mapping": None}
    return replace(
        mdp,
        transitions=merged.astype(np.int32),
        rewards=mdp.rewards[first],
        start_states=starts,
        start_seeds=None if mdp.start_seeds is None else mdp.start_seeds[np.unique(place, return_index=True)[1]],
        start_probabilities=np.asarray(np.bincount(place, weights=mdp.start_probabilities), np.float64),
        **(kept_screens(mdp, first) if by == "screen" else without_screens),
    )


def indistinguishable(mdp: TabularMDP, *, by: str = "screen") -> NDArray[np.int64]:
    """(S,) class of each state.

    :param by: "screen" compares rewards and screens, "reward" compares rewards only
    """
    if by not in ("screen", "reward"):
        raise InvalidMDP(f"states are merged by 'screen' or by 'reward', not by '{by}'")
    if mdp.transitions is None:
        raise InvalidMDP("only deterministic MDPs can be merged; this one has random outcomes")
    if by == "screen" and mdp.screen_mapping is None:
        raise InvalidMDP(
            f"{mdp.name or 'the MDP'} has no screens to merge by; merge by 'reward', or build it with screens"
        )
    initial = _classes_of_rows(mdp.rewards)
    if by == "screen":
        assert mdp.screen_mapping is not None
        initial = _classes_of_rows(np.stack([initial, mdp.screen_mapping], axis=1))
    for seed in range(8):
        classes = _refine(initial, mdp.transitions, np.random.default_rng(seed))
        if _is_stable(classes, initial, mdp.transitions):
            return classes
    raise AssertionError("eight random hashes in a row collided")


def _refine(classes: NDArray[np.int64], transitions: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int64]:
    """Split the classes (S,) by the classes of the next states, until no class splits. Transitions are (S, A)."""
    multipliers = rng.integers(1, 2**63, transitions.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    count = int(classes.max()) + 1
    while True:
        # A random 64-bit code for each class. The hash of a state is a random linear combination of the codes of its row
        codes = np.append(
            rng.integers(0, 2**64, count, dtype=np.uint64), np.uint64(1)
        )  # the last one is the code of END
        hashes = codes[classes] * multipliers[-1]
        for action in range(transitions.shape[1]):
            hashes += codes[_class_or_end(classes, transitions, action)] * multipliers[action]
        _, refined = np.unique(hashes, return_inverse=True)
        new_count = int(refined.max()) + 1
        if new_count == count:
            return classes
        classes, count = refined, new_count


def _class_or_end(classes: NDArray[np.int64], transitions: NDArray[np.int32], action: int) -> NDArray[np.int64]:
    """(S,) class of each state's next state; -1 at the end, which is the index of the last code."""
    next_states = transitions[:, action]
    return np.where(next_states == END, END, classes[next_states])


def _is_stable(classes: NDArray[np.int64], initial: NDArray[np.int64], transitions: NDArray[np.int32]) -> bool:
    """Do all states of a class have the same initial class, and the same classes of next states?"""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    representative = first[inverse]
    rows = (_class_or_end(classes, transitions, action) for action in range(transitions.shape[1]))
    return all(np.array_equal(row, row[representative]) for row in (initial, *rows))


def _classes_of_rows(table: NDArray[Any]) -> NDArray[np.int64]:
    """(S, n) → (S,): equal numbers for equal rows. No hashing is used."""
    classes = np.zeros(len(table), np.int64)
    for column in table.T:
        _, codes = np.unique(column, return_inverse=True)
        _, classes = np.unique(classes * (int(codes.max()) + 1) + codes, return_inverse=True)
    return classes


def _first_members(classes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The first state of each class, and the classes (S,) renumbered in the order of these first states."""
    _, label = in_order_of_first_use(classes)
    _, first = np.unique(label, return_index=True)
    return first, label
