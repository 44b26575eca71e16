"""What building needs of a game: deterministic, timeless, and able to be saved and restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Game(Protocol):
    """A deterministic game without a clock.

    `get_state` returns everything that the future depends on, as an opaque value that `set_state` takes back, on this
    object or on another one made the same way. Two states with equal `state_key()` must behave equally for ever; two with
    different keys may still do so (merging is the MDP's business). `screen()` is the picture that an agent sees of the
    state, without the time; `render()` is the one that people like to look at. `fresh()` is another game of the same
    kind, as a replay against the live game and a second process need it. `reseed` replaces the random generator that the
    game might draw from, so that a check can tell a deterministic game from one that merely repeats its draws.
    """

    name: str
    num_actions: int
    saved_by: str  # in words, for reports

    def reset(self) -> None: ...
    def step(self, action: int) -> tuple[float, bool]: ...  # reward, game over
    def get_state(self) -> Any: ...
    def bare_state(self) -> Any: ...  # the same without the screen: enough to step from, which is all that a build does
    def set_state(self, state: Any) -> None: ...
    def state_key(self) -> bytes: ...
    def screen(self) -> np.ndarray | None: ...
    def render(self) -> np.ndarray | None: ...
    def fresh(self) -> Game: ...
    def reseed(self, seed: int) -> None: ...
    def provenance(self) -> Mapping[str, Any]: ...  # versions, seeds, library hashes


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an action led to; key, state and screen are None where the game is over."""

    reward: float
    key: bytes | None
    state: Any
    screen: np.ndarray | None


@runtime_checkable
class BatchGame(Game, Protocol):
    """A game that can step many states at a time."""

    def step_all(self, states: Sequence[Any]) -> list[Outcome]: ...  # state after state, action after action
