"""`Game`: the interface of a deterministic game that can be saved and restored. `build_mdp` enumerates games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Game(Protocol):
    """A deterministic game without a time limit.

    `get_state` returns the whole state of the game. `set_state` restores it, on this object or on another one made in the same
    way. `bare_state` is the state without the screen; it is enough to step from. Two states with equal `state_key()` must behave
    equally. Two states with different keys may also behave equally: `TabularMDP.merge` merges them.

    `screen()` is what an agent sees, without the time. `render()` is a picture for people. `fresh()` makes another game of the
    same kind, for replays and for other processes. `reseed` replaces the game's random generator. A game that draws from it is
    not deterministic, and a replay with another seed shows that.
    """

    name: str
    num_actions: int
    saved_by: str  # how the state is saved; printed in reports

    def reset(self) -> None: ...
    def step(self, action: int) -> tuple[float, bool]: ...  # reward, game over
    def get_state(self) -> Any: ...
    def bare_state(self) -> Any: ...
    def set_state(self, state: Any) -> None: ...
    def state_key(self) -> bytes: ...
    def screen(self) -> NDArray[Any] | None: ...
    def render(self) -> NDArray[Any] | None: ...
    def fresh(self) -> Game: ...
    def reseed(self, seed: int) -> None: ...
    def provenance(self) -> Mapping[str, Any]: ...  # versions, seeds, library hashes


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one action. Key, state and screen are None if the game is over."""

    reward: float
    key: bytes | None
    state: Any
    screen: NDArray[Any] | None


@runtime_checkable
class BatchGame(Game, Protocol):
    """A game that can step many states at once.

    `step_all` takes every action in every state. Outcome i·A + a is that of action a in state i. `rewards_of_all` does the same
    for the rewards alone, (n, A), which takes less time.
    """

    def step_all(self, states: Sequence[Any]) -> list[Outcome]: ...
    def rewards_of_all(self, states: Sequence[Any]) -> NDArray[np.float64]: ...
