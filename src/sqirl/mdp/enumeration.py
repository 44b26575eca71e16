"""One build: enumerates the states of a game, level by level, and makes the MDP of the levels that are complete.

Level d holds the states that are first reached after d steps. All that a build discovers is written to a journal on disk
(`journal.py`), so a build that was stopped can be resumed. In memory there are the blocks in progress and the table of keys,
about 180 bytes for each state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.description import EnvDescription
from sqirl.envs.game import Game
from sqirl.mdp.arrays import in_order_of_first_use
from sqirl.mdp.expand import KEY_BYTES, Block, key_of, look_of, pack
from sqirl.mdp.frontier import FrontierExpander
from sqirl.mdp.journal import Journal, Rows
from sqirl.mdp.tabular import END, TabularMDP

#: Seconds between two calls of the progress callback, at least.
PROGRESS_INTERVAL = 0.1


@dataclass(frozen=True)
class BuildProgress:
    """The progress of a build: `done` of the `frontier` states of level `depth` are expanded."""

    depth: int
    horizon: int
    done: int
    frontier: int
    states: int
    transitions: int  # in this run
    seconds: float  # in this run
    growth: float  # size of this level divided by that of the level before, smoothed
    num_actions: int

    @property
    def speed(self) -> float:
        """Transitions per second in this run."""
        return self.transitions / max(self.seconds, 1e-9)

    @property
    def transitions_to_come(self) -> float:
        """The number of remaining transitions, if the levels continue to grow by the factor `growth`."""
        steps = np.arange(1, self.horizon - self.depth)
        return self.num_actions * float(self.frontier - self.done + self.frontier * (self.growth**steps).sum())

    @property
    def seconds_left(self) -> float:
        return self.transitions_to_come / max(self.speed, 1e-9)


@dataclass(frozen=True)
class Limits:
    """When a build stops: at the horizon, beyond `max_states` states, or after `time_limit` seconds."""

    horizon: int
    max_states: int
    time_limit: float | None


@dataclass(frozen=True, eq=False)
class _Level:
    """A level whose states are all expanded."""

    number: int
    first_state: int
    size: int


@dataclass(eq=False)
class Enumeration:
    """One build. The table of keys is in memory, everything else is in the journal.

    :param description: the environment
    :param folder: the folder of the journal; a build that was stopped is resumed from it
    :param limits: when the build stops
    :param progress: called with the progress about every `PROGRESS_INTERVAL` seconds
    """

    description: EnvDescription
    folder: Path
    limits: Limits
    progress: Callable[[BuildProgress], None] | None = None
    keys: dict[bytes, int] = field(default_factory=dict)  # key of a state -> its number
    levels: list[_Level] = field(default_factory=list)
    closed: bool = False  # have all states that the game can reach been expanded?

    def __post_init__(self) -> None:
        self.game = self.description.make_game()
        self.game.reset()
        self.keys[key_of(self.game)] = 0
        self._start_look = look_of(self.game.screen())
        self.journal = Journal(self.folder, {"game": self.game.name, **provenance_of(self.game)})
        self._began = time.monotonic()
        self._reported = 0.0
        self._expanded = 0  # states, in this run
        self._frontiers = [1]  # sizes of the levels

    def run(self, jobs: int = 1, cluster: str | None = None) -> None:
        """Expand one level after the other until the horizon, until there are no new states, or until a limit.

        :param jobs: number of worker processes
        :param cluster: address of a dask scheduler; its workers are used instead of processes
        """
        start = pack(self.game.bare_state())
        if not self.journal.rows_path(0).exists():
            self.journal.write_start(start)
        sizes, known = np.array([len(start)]), 0
        workers = FrontierExpander(self.game, self.description.remote_name, jobs=jobs, cluster=cluster)
        try:
            for depth in range(self.limits.horizon):
                if depth and self._limit_reached():
                    return
                before = len(self.keys)
                sizes, finished = self._expand_level(depth, sizes, workers)
                if not finished:
                    return
                self.levels.append(_Level(depth, known, before - known))
                known = before
                self._frontiers.append(len(sizes))
                self.journal.remove_states(depth)
                if not len(sizes):
                    self.closed = True
                    return
        finally:
            workers.close()

    def _expand_level(
        self, depth: int, sizes: NDArray[np.int64], workers: FrontierExpander
    ) -> tuple[NDArray[np.int64], bool]:
        """Expand the states of a level that are not in the journal yet.

        Returns the packed sizes of the next level's states, and whether this level is complete.

        :param sizes: (n,) packed sizes of the level's states
        """
        done, next_sizes = 0, [np.empty(0, np.int64)]
        for rows in self.journal.read_rows(depth):
            done += len(rows.transitions)
            next_sizes.append(rows.sizes)
            for offset in range(0, len(rows.new_keys), KEY_BYTES):
                self.keys[rows.new_keys[offset : offset + KEY_BYTES]] = len(self.keys)
        if done < len(sizes):
            appender = self.journal.appender(depth, int(sum(s.sum() for s in next_sizes)))
            try:
                for block in workers.expand_all(self.journal.frontier(depth, sizes, done), len(sizes) - done):
                    rows, packed = self._number(block)
                    appender.append(rows, packed)
                    next_sizes.append(rows.sizes)
                    done += len(rows.transitions)
                    self._expanded += len(rows.transitions)
                    self._report(depth, done, len(sizes))
                    if self._limit_reached() and done < len(sizes):
                        return np.concatenate(next_sizes), False
            finally:
                appender.close()
        return np.concatenate(next_sizes), True

    def _number(self, block: Block) -> tuple[Rows, list[bytes]]:
        """Number the new states of a block in the order of their discovery. Returns its rows and the packed new states."""
        numbers = np.empty(len(block.keys), np.int64)
        new: list[bytes] = []
        for place, key in enumerate(block.keys):
            if key is not None and key not in self.keys:
                self.keys[key] = len(self.keys)
                new.append(key)
            numbers[place] = END if key is None else self.keys[key]
        packed = [block.states[key] for key in new]
        rows = Rows(
            transitions=numbers.reshape(block.rewards.shape),
            rewards=block.rewards,
            new_keys=b"".join(new),
            new_looks=b"".join(block.looks[key] for key in new),
            sizes=np.array([len(state) for state in packed], np.int64),
        )
        return rows, packed

    def _limit_reached(self) -> bool:
        limits = self.limits
        out_of_time = limits.time_limit is not None and time.monotonic() - self._began > limits.time_limit
        return len(self.keys) > limits.max_states or out_of_time

    def _report(self, depth: int, done: int, frontier: int) -> None:
        now = time.monotonic()
        if self.progress is None or now - self._reported < PROGRESS_INTERVAL:
            return
        self._reported = now
        recent = self._frontiers[-4:]
        growth = (recent[-1] / recent[0]) ** (1 / (len(recent) - 1)) if len(recent) > 1 and recent[0] else 1.0
        self.progress(
            BuildProgress(
                depth,
                self.limits.horizon,
                done,
                frontier,
                len(self.keys),
                self._expanded * self.game.num_actions,
                now - self._began,
                growth,
                self.game.num_actions,
            )
        )

    def to_mdp(self) -> TabularMDP:
        """The MDP of the complete levels. Transitions to later states end the episode."""
        size = self.levels[-1].first_state + self.levels[-1].size
        entries = [rows for level in self.levels for rows in self.journal.read_rows(level.number)]
        transitions = np.concatenate([rows.transitions for rows in entries])  # (S, A)
        transitions = np.where(transitions < size, transitions, END)
        looks = np.frombuffer(self._start_look + b"".join(rows.new_looks for rows in entries), np.uint8)
        screens, mapping = _screens(looks, size, len(self._start_look), self.game.screen())
        return TabularMDP.deterministic(
            transitions,
            np.concatenate([rows.rewards for rows in entries]),
            horizon=self.limits.horizon,
            depth=None if self.closed else len(self.levels),
            name=self.description.name,
            screens=screens,
            screen_mapping=mapping,
            provenance=provenance_of(self.game),
            make_game=self.description.make_game,
        )


def _screens(
    looks: NDArray[np.uint8], num_states: int, width: int, example: NDArray[Any] | None
) -> tuple[NDArray[Any] | None, NDArray[np.int32] | None]:
    """The distinct screens, and for each state the number of its screen. The screens are None if only their digests were stored.

    :param looks: the looks of at least `num_states` states in one array, `width` bytes each
    :param example: any screen, for its shape and dtype; None if the game has no screens
    """
    if example is None:
        return None, None
    rows = np.ascontiguousarray(looks.reshape(-1, width)[:num_states]).view(np.dtype((np.void, width))).ravel()
    distinct, mapping = in_order_of_first_use(rows)
    if example.nbytes != width:
        return None, mapping
    return np.frombuffer(distinct.tobytes(), example.dtype).reshape(-1, *example.shape), mapping


def provenance_of(game: Game) -> dict[str, Any]:
    """The versions, seeds and hashes that the states of the game depend on."""
    return {**library_versions(), **game.provenance()}


def library_versions() -> dict[str, str]:
    return {"sqirl": version("sqirl"), "gymnasium": version("gymnasium"), "numpy": version("numpy")}
