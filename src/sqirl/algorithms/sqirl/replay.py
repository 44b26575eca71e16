"""The replay buffer of deep SQIRL: the last 10^6 transitions, with keys in the place of observations.

A transition is (s, a, s', r, y), y the return from s on. Over a table a key is all that is kept of an observation
(`sqirl/play/table.py`); over a live env each frame is kept once (`sqirl/play/live.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray

from sqirl.errors import SqirlError
from sqirl.mdp.arrays import distinct_rows
from sqirl.play.episodes import Transitions


class Replay:
    """A ring of transitions; memory grows with what is in it, up to `capacity`."""

    def __init__(self, capacity: int, key_length: int) -> None:
        if capacity < 1:
            raise SqirlError(f"buffer_size {capacity} is below 1")
        self.capacity, self.size, self._next = capacity, 0, 0  # the newest row lies before `_next`
        dtype = [
            ("key", np.int32, key_length), ("next_key", np.int32, key_length), ("action", np.int16),
            ("reward", np.float32), ("return", np.float32), ("continues", np.bool_),
        ]  # fmt: skip
        self._rows = np.zeros(min(capacity, 1 << 12), dtype)

    def extend(self, new: Transitions) -> None:
        rows = np.empty(len(new), self._rows.dtype)
        rows["key"], rows["next_key"], rows["action"] = new.keys, new.next_keys, new.actions
        rows["reward"], rows["return"], rows["continues"] = new.rewards, new.returns, new.continues
        rows = rows[-self.capacity :]
        self._grow(min(self.capacity, self.size + len(rows)))
        places = (self._next + np.arange(len(rows))) % self.capacity
        self._rows[places] = rows
        self._next = (self._next + len(rows)) % self.capacity
        self.size = min(self.capacity, self.size + len(rows))

    def _grow(self, needed: int) -> None:
        if needed > len(self._rows):
            larger = np.zeros(min(self.capacity, max(needed, 2 * len(self._rows))), self._rows.dtype)
            larger[: self.size] = self._rows[: self.size]
            self._rows = larger

    def sample(self, count: int, rng: np.random.Generator) -> Transitions:
        """`count` transitions drawn uniformly, with replacement."""
        rows = self._rows[self._places(rng.integers(self.size, size=count))]
        names = ("key", "next_key", "action", "reward", "return", "continues")
        return Transitions(*(np.ascontiguousarray(rows[name]) for name in names))

    def _places(self, ages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where rows lie, counted from the oldest."""
        return (self._next - self.size + ages) % self.capacity

    def forget_until(self, held: Callable[[NDArray[np.int32]], NDArray[np.bool_]]) -> None:
        """Drop the oldest transitions up to the first whose observation is still held."""
        kept = held(self._rows["key"][self._places(np.arange(self.size))])
        self.size -= int(kept.argmax()) if kept.any() else self.size

    @property
    def nbytes(self) -> int:
        return int(self._rows.nbytes)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the rows, the oldest first."""
        rows = self._rows[self._places(np.arange(self.size))]
        return {"rows": th.from_numpy(rows.view(np.uint8))}

    def restore(self, state: dict[str, Any]) -> None:
        rows = state["rows"].numpy().view(self._rows.dtype)
        self.size = 0
        self._grow(len(rows))
        self._rows[: len(rows)] = rows
        self.size, self._next = len(rows), len(rows) % self.capacity


@dataclass(frozen=True, eq=False)
class Distinct:
    """A minibatch's observations, each once: first those of some s, then those that are only some s'."""

    keys: NDArray[np.int32]  # (U, K)
    learned: int
    place: NDArray[np.int64]  # (B,)
    next_place: NDArray[np.int64]  # (B,)


def distinct_observations(samples: Transitions, *, with_next: bool) -> Distinct:
    """Name every observation of the minibatch once; without next states (k = 1 has no use for them) only those of s."""
    if not with_next:
        keys, _, place = distinct_rows(samples.keys)
        return Distinct(keys, len(keys), place, np.zeros_like(place))
    everything = np.concatenate([samples.keys, samples.next_keys[samples.continues]])
    keys, first, place = distinct_rows(everything)
    order = np.argsort(first >= len(samples), kind="stable")  # those of some s come first
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    place = rank[place]
    next_place = np.zeros(len(samples), np.int64)
    next_place[samples.continues] = place[len(samples) :]
    return Distinct(keys[order], int((first < len(samples)).sum()), place[: len(samples)], next_place)
