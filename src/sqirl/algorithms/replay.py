"""The replay buffer of deep SQIRL: the last 10^6 transitions as keys of observations, and where the observations are.

A transition is (s, a, s', r, y). Observations are named by keys, as in `mdp/play.py`: over a table they are the numbers of
screens and nothing else is kept; over a live env each frame is kept once, in a ring beside the transitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th

from sqirl.errors import SqirlError
from sqirl.mdp.arrays import distinct_rows


@dataclass(frozen=True, eq=False)
class Transitions:
    """n transitions; `next_keys` mean nothing where the episode does not go on."""

    keys: np.ndarray  # (n, K) int32
    next_keys: np.ndarray  # (n, K) int32
    actions: np.ndarray  # (n,)
    rewards: np.ndarray  # (n,)
    returns: np.ndarray  # (n,) discounted reward-to-go
    goes_on: np.ndarray  # (n,) bool

    def __len__(self) -> int:
        return len(self.actions)


class Replay:
    """A ring of transitions; memory grows with what is in it, up to `capacity`."""

    def __init__(self, capacity: int, key_length: int) -> None:
        if capacity < 1:
            raise SqirlError(f"buffer_size {capacity} is below 1")
        self.capacity, self.size, self._next = capacity, 0, 0  # the newest row lies before `_next`
        dtype = [
            ("key", np.int32, key_length), ("next_key", np.int32, key_length), ("action", np.int16),
            ("reward", np.float32), ("return", np.float32), ("goes_on", np.bool_),
        ]  # fmt: skip
        self._rows = np.zeros(min(capacity, 1 << 12), dtype)

    def extend(self, new: Transitions) -> None:
        rows = np.empty(len(new), self._rows.dtype)
        rows["key"], rows["next_key"], rows["action"] = new.keys, new.next_keys, new.actions
        rows["reward"], rows["return"], rows["goes_on"] = new.rewards, new.returns, new.goes_on
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
        names = ("key", "next_key", "action", "reward", "return", "goes_on")
        return Transitions(*(np.ascontiguousarray(rows[name]) for name in names))

    def _places(self, ages: np.ndarray) -> np.ndarray:
        """Where rows lie, counted from the oldest."""
        return (self._next - self.size + ages) % self.capacity

    def forget_until(self, held: Callable[[np.ndarray], np.ndarray]) -> None:
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

    keys: np.ndarray  # (U, K)
    learned: int
    place: np.ndarray  # (B,)
    next_place: np.ndarray  # (B,)


def distinct_observations(samples: Transitions, *, with_next: bool) -> Distinct:
    """Name every observation of the minibatch once; without next states (k = 1 has no use for them) only those of s."""
    if not with_next:
        keys, _, place = distinct_rows(samples.keys)
        return Distinct(keys, len(keys), place, np.zeros_like(place))
    everything = np.concatenate([samples.keys, samples.next_keys[samples.goes_on]])
    keys, first, place = distinct_rows(everything)
    order = np.argsort(first >= len(samples), kind="stable")  # those of some s come first
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    place = rank[place]
    next_place = np.zeros(len(samples), np.int64)
    next_place[samples.goes_on] = place[len(samples) :]
    return Distinct(keys[order], int((first < len(samples)).sum()), place[: len(samples)], next_place)


class FrameMemory:
    """Frames of live episodes, each kept once in a ring; a key names the frames that an observation is stacked of.

    Frame 0 is the blank one before the start of an episode. Frame numbers count on for ever (as int32, which 2·10^9 steps do
    not exhaust); number n lies at place 1 + (n - 1) mod `capacity`. Frames that nothing will be learned from are only acted
    on: they are numbered -1, -2, … around a small ring of their own, so that they push nothing out.
    """

    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: Any, *, stacked: int, num_lanes: int) -> None:
        self.capacity, self.stacked, self.key_length = capacity, stacked, stacked
        self._passing = num_lanes * (stacked + 1)  # in each lane the stack, and the frame that comes
        # Zeros that are not written to take no memory
        self._frames = np.zeros((1 + capacity + self._passing, *shape), dtype)
        self.count = self._passed = 0

    def append(self, frames: np.ndarray, keep: np.ndarray) -> np.ndarray:
        """(n,) the numbers of n new frames, of which the mask says which will be learned from."""
        numbers = np.empty(len(frames), np.int64)
        kept, passing = np.flatnonzero(keep), np.flatnonzero(~keep)
        numbers[kept] = self.count + 1 + np.arange(len(kept))
        numbers[passing] = -1 - (self._passed + np.arange(len(passing))) % self._passing
        self._frames[self._places(numbers)] = frames
        self.count += len(kept)
        self._passed += len(passing)
        return numbers.astype(np.int32)

    def _places(self, numbers: np.ndarray) -> np.ndarray:
        kept = np.where(numbers > 0, 1 + (numbers - 1) % self.capacity, 0)
        return np.where(numbers < 0, self.capacity - numbers, kept)

    def holds(self, keys: np.ndarray) -> np.ndarray:
        """(n,) bool: are all frames of the key still there?"""
        oldest: np.ndarray = np.where(keys > 0, keys, self.count + 1).min(axis=1)
        return oldest > self.count - self.capacity

    def observations(self, keys: np.ndarray) -> np.ndarray:
        """(n, stacked·C, …): the frames of each key, stacked along their first axis (channels)."""
        frames = self._frames[self._places(keys)]
        return frames.reshape(len(keys), -1, *frames.shape[3:]) if self.stacked > 1 else frames[:, 0]

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps; a tensor, which is written without a copy."""
        return {"frames": th.from_numpy(self._frames[: 1 + min(self.count, self.capacity)]), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        self._frames[: len(state["frames"])] = state["frames"].numpy()
        self.count = int(state["count"])
