"""Merging states that no action sequence can tell apart, by partition refinement.

Two states are indistinguishable if their screens are equal (unless screens are ignored), their rewards are equal for every
action, and every action leads both to the end or both to indistinguishable states. The coarsest such partition is found
from below: start with classes by screen and rewards, split by the classes of the successors until nothing splits. Each
round hashes every state's row of successor classes to 64 bits; a final check compares whole rows, so that a collision
costs a second run and never a wrong class.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sqirl.errors import InvalidMDP
from sqirl.mdp.arrays import in_order_of_first_use
from sqirl.mdp.reach import kept_screens
from sqirl.mdp.tabular import END, TabularMDP


def merge(mdp: TabularMDP, *, by: str = "screen") -> TabularMDP:
    """The quotient MDP; its states are the classes, in the order of their first member."""
    classes = indistinguishable(mdp, by=by)
    first, label = _first_members(classes)
    transitions = mdp.transitions
    assert transitions is not None  # indistinguishable() refuses the rest
    quotient = np.append(label, np.int32(END))[transitions[first]]  # index -1 picks the appended END
    starts, place = in_order_of_first_use(label[mdp.start_states])
    without_screens = {"screens": None, "screen_mapping": None}
    return replace(
        mdp,
        transitions=quotient.astype(np.int32),
        rewards=mdp.rewards[first],
        start_states=starts,
        start_probabilities=np.bincount(place, weights=mdp.start_probabilities),
        **(kept_screens(mdp, first) if by == "screen" else without_screens),
    )


def indistinguishable(mdp: TabularMDP, *, by: str = "screen") -> np.ndarray:
    """(S,) class of each state, for `by` "screen" (rewards and screens) or "reward" (rewards alone)."""
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


def _refine(classes: np.ndarray, transitions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    multipliers = rng.integers(1, 2**63, transitions.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    count = int(classes.max()) + 1
    while True:
        # Random 64-bit names for the classes, then a random linear combination along each row
        names = np.append(rng.integers(0, 2**64, count, dtype=np.uint64), np.uint64(1))  # the last one names END
        signature = names[classes] * multipliers[-1]
        for action in range(transitions.shape[1]):
            signature += names[_class_or_end(classes, transitions, action)] * multipliers[action]
        _, refined = np.unique(signature, return_inverse=True)
        new_count = int(refined.max()) + 1
        if new_count == count:
            return classes
        classes, count = refined, new_count


def _class_or_end(classes: np.ndarray, transitions: np.ndarray, action: int) -> np.ndarray:
    """(S,) class of each state's successor; -1 at the end, which indexes the last name."""
    successors = transitions[:, action]
    return np.where(successors == END, END, classes[successors])


def _is_stable(classes: np.ndarray, initial: np.ndarray, transitions: np.ndarray) -> bool:
    """Do all members of a class look like its first member, and have its row of successor classes?"""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    representative = first[inverse]
    rows = (_class_or_end(classes, transitions, action) for action in range(transitions.shape[1]))
    return all(np.array_equal(row, row[representative]) for row in (initial, *rows))


def _classes_of_rows(table: np.ndarray) -> np.ndarray:
    """(S,) equal numbers for equal rows, exactly."""
    classes = np.zeros(len(table), np.int64)
    for column in table.T:
        _, codes = np.unique(column, return_inverse=True)
        _, classes = np.unique(classes * (int(codes.max()) + 1) + codes, return_inverse=True)
    return classes


def _first_members(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first state of each class, and the classes renumbered in the order of those first states."""
    _, label = in_order_of_first_use(classes)
    _, first = np.unique(label, return_index=True)
    return first, label
