"""One build: enumerates the states of a game, level by level, and makes the MDP of the levels that are complete.

Level d holds the states that are first reached after d steps. All that a build discovers is written to a journal on disk
(`journal.py`), so a build that was stopped can be resumed: the states that it goes on from are played again (`recover.py`). In
memory there are the blocks in progress and the table of keys, about 190 bytes for each state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.description import EnvDescription
from sqirl.envs.game import Game
from sqirl.envs.starts import Starts, starts_of
from sqirl.errors import EnvFailed, WorkFailed, counted
from sqirl.mdp.arrays import in_order_of_first_use
from sqirl.mdp.expand import Block, expand, expand_last, key_of, look_of, pack
from sqirl.mdp.frontier import FrontierExpander
from sqirl.mdp.journal import KEY_BYTES, Journal, Level, Rows
from sqirl.mdp.recover import Origins, PackedStates, played_again
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.runtime.memory import available_memory

#: Seconds between two calls of the progress callback, at least.
PROGRESS_INTERVAL = 0.1
#: From this many states on, a last level is expanded for its rewards alone, which takes less time. A smaller one is expanded like
#: the others, because it may show that the game has no more states.
LARGE_LAST_LEVEL = 2000
#: Bytes that the table of a finished build takes for each state and action, while it is made.
BYTES_PER_TRANSITION = 32
#: How often the looks of all states are in memory then.
COPIES_OF_LOOKS = 3


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
    pace: float = 0.0  # processor seconds for a transition, in this run and those before; 0 if not known

    @property
    def speed(self) -> float:
        """Transitions per second in this run."""
        return self.transitions / max(self.seconds, 1e-9)

    @property
    def core_hours_left(self) -> float:
        """Hours that one core takes for the rest, at the pace so far."""
        return self.transitions_to_come * self.pace / 3600

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


def growth_of(sizes: list[int]) -> float:
    """By what factor the last levels grow from one to the next: the mean over at most three steps."""
    recent = sizes[-4:]
    return float((recent[-1] / recent[0]) ** (1 / (len(recent) - 1))) if len(recent) > 1 and recent[0] else 1.0


@dataclass(frozen=True, eq=False)
class _StartStates:
    """The starts of a build, which are its states 0..n-1."""

    drawn: Starts
    keys: list[bytes]
    looks: list[bytes]
    packed: list[bytes]


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
    starts: int | None = None  # draw so many starts; None finds all where they are few
    keys: dict[bytes, int] = field(default_factory=dict)  # key of a state -> its number
    levels: list[Level] = field(default_factory=list)  # those whose states are all expanded
    closed: bool = False  # have all states that the game can reach been expanded?

    def __post_init__(self) -> None:
        self.game = self.description.make_game()
        self.first = self._draw_starts()
        identity = journal_identity(self.description, self.game, self.starts)
        shape = self.game.num_actions, len(self.first.looks[0])
        self.journal = Journal(self.folder, identity, self.first.keys, shape)
        self.keys |= {key: number for number, key in enumerate(self.first.keys)}
        self._origins = Origins(len(self.first.keys))
        self._began = time.monotonic()
        self._reported = 0.0
        self._expanded = 0  # states, in this run
        self._work = [0.0, 0]  # processor seconds and transitions, in this run and those before
        self._frontiers = [len(self.keys)]  # sizes of the levels

    def _draw_starts(self) -> _StartStates:
        found = starts_of(self.game, sample=self.starts)
        keys, looks, packed = [], [], []
        for state in found.states:
            self.game.set_state(state)
            keys.append(key_of(self.game))
            looks.append(look_of(self.game.screen()))
            packed.append(pack(self.game.bare_state()))
        return _StartStates(found, keys, looks, packed)

    def run(self, jobs: int = 1, cluster: str | None = None) -> None:
        """Expand one level after the other until the horizon, until there are no new states, or until a limit.

        :param jobs: number of worker processes
        :param cluster: address of a dask scheduler; its workers are used instead of processes
        """
        level, states = Level(0, 0, len(self.first.keys)), PackedStates(self.folder)
        states.extend(self.first.packed)
        workers = FrontierExpander(self.game, self.description.remote_name, jobs=jobs, cluster=cluster)
        try:
            while level.number < self.limits.horizon and level.size:
                if level.number and self._limit_reached():
                    return
                self._check_memory()
                level = replace(level, only_rewards=self._is_large_and_last(level))
                following = PackedStates(self.folder)
                try:
                    if not self._expand_level(level, states, following, workers):
                        return
                except EnvFailed as error:
                    raise EnvFailed(f"{error}; in a state {counted(level.number, 'step')} after the start") from error
                self.levels.append(level)
                level = level.next(len(self.keys) - level.first_state - level.size)
                self._frontiers.append(level.size)
                states.close()
                states = following
            self.closed = not level.size and not self.levels[-1].only_rewards
        finally:
            states.close()
            workers.close()

    def _is_large_and_last(self, level: Level) -> bool:
        """Is the level large, the last one of the horizon, and not begun by a build with a longer horizon?"""
        is_last = level.number == self.limits.horizon - 1
        return is_last and level.size >= LARGE_LAST_LEVEL and not self.journal.rows_path(level).exists()

    def _expand_level(
        self, level: Level, states: PackedStates, following: PackedStates, workers: FrontierExpander
    ) -> bool:
        """Expand the states of a level that are not in the journal yet. Returns whether this level is complete.

        :param states: the last states of the level; the others are played again
        :param following: gets the new states that are discovered now
        """
        done = 0
        for rows in self.journal.read_rows(level):
            done += len(rows.transitions)
            self._take(rows)
        if done == level.size:
            return True
        appender = self.journal.appender(level)
        try:
            expansion = expand_last if level.only_rewards else expand
            for block in workers.expand_all(self._frontier(level, states, done), level.size - done, expansion):
                rows, packed = self._number(block, level.first_state + done)
                following.extend(packed)
                appender.append(rows)
                self._take(rows)
                done += len(rows.transitions)
                self._expanded += len(rows.transitions)
                self._report(level, done)
                if level.number and self._limit_reached() and done < level.size:  # an MDP has at least its starts
                    return False
        finally:
            appender.close()
        return True

    def _frontier(self, level: Level, states: PackedStates, done: int) -> Iterator[bytes]:
        """The packed states of a level without the first `done`."""
        missing = level.size - len(states)  # discovered in another run
        numbers = level.first_state + np.arange(min(done, missing), missing)
        yield from played_again(self.game, self.first.packed, self._origins, self.keys, numbers, self.folder)
        yield from states.read(skip=max(0, done - missing))

    def _take(self, rows: Rows) -> None:
        """Note the new states of a block, and what it took."""
        for offset in range(0, len(rows.new_keys), KEY_BYTES):
            self.keys[rows.new_keys[offset : offset + KEY_BYTES]] = rows.known + offset // KEY_BYTES
        if len(self.keys) != rows.known + rows.num_new:
            raise WorkFailed(f"the journal in '{self.folder}' names a state twice; remove the folder to start again")
        self._origins.add(rows)
        self._work[0] += rows.seconds
        self._work[1] += rows.transitions.size if rows.seconds else 0  # a converted journal does not know

    def _number(self, block: Block, first: int) -> tuple[Rows, list[bytes]]:
        """Number the new states of a block in the order of their discovery. Returns its rows and the packed new states."""
        known, new = len(self.keys), dict[bytes, int]()
        numbers = np.empty(len(block.keys), np.int32)
        for place, key in enumerate(block.keys):
            if key is None:
                numbers[place] = END
                continue
            number = self.keys.get(key)
            numbers[place] = new.setdefault(key, known + len(new)) if number is None else number
        rows = Rows(
            first=first,
            known=known,
            transitions=numbers.reshape(block.rewards.shape),
            rewards=block.rewards,
            new_keys=b"".join(new),
            new_looks=b"".join(block.looks[key] for key in new),
            seconds=block.seconds,
        )
        return rows, [block.states[key] for key in new]

    def _limit_reached(self) -> bool:
        limits = self.limits
        out_of_time = limits.time_limit is not None and time.monotonic() - self._began > limits.time_limit
        return len(self.keys) > limits.max_states or out_of_time

    def _check_memory(self) -> None:
        """Raise `WorkFailed` if the table of the states that are known would not fit into memory."""
        of_a_state = self.game.num_actions * BYTES_PER_TRANSITION + COPIES_OF_LOOKS * len(self.first.looks[0])
        needed, free = len(self.keys) * of_a_state, available_memory()
        if free is not None and needed > free:
            raise WorkFailed(
                f"the table of {len(self.keys):,} states and {self.game.num_actions:,} actions takes {needed / 1e9:.1f} GB of "
                f"memory, and {free / 1e9:.1f} GB are free; lower --max-states or --horizon, or go on with more (--pack)"
            )

    def _report(self, level: Level, done: int) -> None:
        now = time.monotonic()
        if self.progress is None or now - self._reported < PROGRESS_INTERVAL:
            return
        self._reported = now
        self.progress(
            BuildProgress(
                level.number,
                self.limits.horizon,
                done,
                level.size,
                len(self.keys),
                self._expanded * self.game.num_actions,
                now - self._began,
                growth_of(self._frontiers),
                self.game.num_actions,
                self._work[0] / max(1, self._work[1]),
            )
        )

    def to_mdp(self) -> TabularMDP:
        """The MDP of the complete levels. Transitions to later states end the episode."""
        size = self.levels[-1].first_state + self.levels[-1].size
        entries = [rows for level in self.levels for rows in self.journal.read_rows(level)]
        transitions = np.concatenate([rows.transitions for rows in entries])  # (S, A)
        transitions = np.where(transitions < size, transitions, END)
        starts, facts = self.first, self.first.drawn.facts()
        looks = np.frombuffer(b"".join([*starts.looks, *(rows.new_looks for rows in entries)]), np.uint8)
        screens, mapping = _screens(looks, size, len(starts.looks[0]), self.game.screen())
        return TabularMDP.deterministic(
            transitions,
            np.concatenate([rows.rewards for rows in entries]),
            start_states=np.arange(len(starts.keys), dtype=np.int32),
            start_probabilities=starts.drawn.probabilities,
            start_seeds=starts.drawn.seeds,
            horizon=self.limits.horizon,
            depth=None if self.closed else len(self.levels),
            name=self.description.name,
            screens=screens,
            screen_mapping=mapping,
            provenance={**provenance_of(self.game), **({"starts": facts} if facts else {})},
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


def journal_identity(description: EnvDescription, game: Game, starts: int | None) -> dict[str, Any]:
    """What a journal must agree with: the env, the versions, seeds and hashes, and the number of starts that was asked for."""
    asked = {} if starts is None else {"starts": starts}
    return {"env": description.file_stem, "game": game.name, **provenance_of(game), **asked}


def provenance_of(game: Game) -> dict[str, Any]:
    """The versions, seeds and hashes that the states of the game depend on."""
    return {**library_versions(), **game.provenance()}


def library_versions() -> dict[str, str]:
    return {"sqirl": version("sqirl"), "gymnasium": version("gymnasium"), "numpy": version("numpy")}
