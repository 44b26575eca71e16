"""Plays the states of a level again, from the starts of the game along the transitions of the journal.

A journal does not hold states: what restores a state may run code, and a file must not. A state is found again with one step from
the state that it was discovered in. The number of steps is therefore at most that of the states, and the build took one for
each state and each action.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.game import Game
from sqirl.errors import WorkFailed
from sqirl.mdp.expand import key_of, pack, unpack
from sqirl.mdp.journal import Rows
from sqirl.runtime.files import naming_the_file, write_all

#: States that are written to a file at once.
BATCH = 256
#: A state is played when it is asked for, and asks for its parent first. So long a chain of these is Python's stack good for.
STORED_GENERATION = 100


class PackedStates:
    """Packed states in a file without a name, which is gone when this process ends. No other process can write to it.

    :param folder: the folder whose disk holds the file
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 (it lives as long as the level)
        self._sizes: list[int] = []

    def __len__(self) -> int:
        return len(self._sizes)

    def extend(self, states: Sequence[bytes]) -> None:
        with naming_the_file(self._folder):
            write_all(self._file, b"".join(states))
        self._sizes += [len(state) for state in states]

    def read(self, skip: int = 0) -> Iterator[bytes]:
        """The states without the first `skip`, one by one. Nothing may be added meanwhile."""
        self._file.seek(sum(self._sizes[:skip]))
        with open(self._file.fileno(), "rb", closefd=False) as file:
            for size in self._sizes[skip:]:
                yield file.read(size)

    def close(self) -> None:
        self._file.close()


@dataclass(eq=False)
class Origins:
    """For each state that is no start: the state and the action that first led to it.

    :param num_starts: the starts are the states 0..n-1
    """

    num_starts: int
    _parents: list[NDArray[np.int32]] = field(default_factory=list)
    _actions: list[NDArray[np.int32]] = field(default_factory=list)

    def add(self, rows: Rows) -> None:
        """Note the new states of a block. Blocks are added in order."""
        found = rows.discoveries()
        assert found is not None  # blocks are checked when they are made and when they are read
        self._parents.append(found[0])
        self._actions.append(found[1])

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(S,) parents and (S,) actions; -1 for starts."""
        none = np.full(self.num_starts, -1, np.int32)
        self._parents, self._actions = ([np.concatenate([*parts])] for parts in (self._parents, self._actions))
        return np.concatenate([none, *self._parents]), np.concatenate([none, *self._actions])


def played_again(
    game: Game,
    starts: Sequence[bytes],
    origins: Origins,
    keys: dict[bytes, int],
    wanted: NDArray[np.int64],
    folder: Path,
) -> Iterator[bytes]:
    """The packed states with the numbers `wanted` (n,), ascending and all of one level, one by one.

    :param starts: the packed start states
    :param keys: the number of the state with each key; `WorkFailed` is raised for a state with another key
    :param folder: for a file of the states on the way
    """
    if not len(wanted):
        return
    parents, actions = origins.arrays()
    generations = [wanted]
    while generations[0][0] >= origins.num_starts:
        generations.insert(0, np.unique(parents[generations[0]]).astype(np.int64))
    states: Iterator[bytes] = (starts[number] for number in generations[0].tolist())
    for generation, (older, newer) in enumerate(itertools.pairwise(generations), start=1):
        moves = zip(newer.tolist(), parents[newer].tolist(), actions[newer].tolist(), strict=True)
        states = _children(game, keys, zip(older.tolist(), states, strict=True), moves)
        if generation % STORED_GENERATION == 0:
            states = _stored(states, folder)
    yield from states


def _children(
    game: Game, keys: dict[bytes, int], parents: Iterator[tuple[int, bytes]], moves: Iterator[tuple[int, int, int]]
) -> Iterator[bytes]:
    """The packed states that moves (child, parent, action) lead to. Parents are (number, packed state), in the same order."""
    number, packed = -1, b""
    for child, parent, action in moves:
        while number != parent:
            number, packed = next(parents)
        game.set_state(unpack(packed))
        _, over = game.step(action)
        if over or keys.get(key_of(game)) != child:
            raise WorkFailed(
                f"{game.name} does not play as when this build began: action {action} in state {parent} no longer leads to state "
                f"{child}; `sqirl check` shows whether it is deterministic; remove the journal to start again"
            )
        yield pack(game.bare_state())


def _stored(states: Iterator[bytes], folder: Path) -> Iterator[bytes]:
    """The same states, after all of them have been made."""
    stored = PackedStates(folder)
    for batch in iter(lambda: list(itertools.islice(states, BATCH)), []):
        stored.extend(batch)
    return stored.read()
