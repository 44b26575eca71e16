"""Enumerating a live game, breadth first, into a `TabularMDP`.

Level d holds the states first reached after d steps. An episode of T steps acts in the states of levels 0..T-1; what its
last step leads to is never acted in, so level T is not part of the MDP unless its states were known before. A limit that
strikes in the middle of level d leaves the MDP of the first d steps: exact as far as it goes, and known to be partial.

Everything that a build finds goes through a journal on disk (`journal.py`), so that it can be stopped by anything and goes on
where it was. In memory there are the blocks under way and the key table: about 180 bytes a state.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sqirl.envs.description import EnvDescription, EnvLike, describe
from sqirl.envs.game import Game
from sqirl.errors import InvalidMDP, WorkFailed
from sqirl.mdp.arrays import in_order_of_first_use
from sqirl.mdp.expand import KEY_BYTES, Block, key_of, look_of, pack
from sqirl.mdp.frontier import FrontierExpander
from sqirl.mdp.journal import Journal, Rows
from sqirl.mdp.reach import breadth_first_tree, check_length
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.mdp.trace import play

#: Steps that a replay goes on at random after the transition that it was made for.
REPLAY_WALK = 10

#: How often the progress callback is called, in seconds.
PROGRESS_INTERVAL = 0.1


@dataclass(frozen=True)
class BuildProgress:
    """How far an enumeration has come: `done` of `frontier` states of level `depth` are expanded."""

    depth: int
    horizon: int
    done: int
    frontier: int
    states: int
    transitions: int  # in this run
    seconds: float  # in this run
    growth: float  # frontier of this level over that of the one before, smoothed
    num_actions: int

    @property
    def speed(self) -> float:
        """Transitions per second in this run."""
        return self.transitions / max(self.seconds, 1e-9)

    @property
    def transitions_to_come(self) -> float:
        """What is left if the frontier goes on growing as it does."""
        steps = np.arange(1, self.horizon - self.depth)
        return self.num_actions * float(self.frontier - self.done + self.frontier * (self.growth**steps).sum())

    @property
    def seconds_left(self) -> float:
        return self.transitions_to_come / max(self.speed, 1e-9)


def build_mdp(
    env: EnvLike,
    *,
    horizon: int | None = None,
    max_states: int = 1_000_000,
    time_limit: float | None = None,
    replays: int = 100,
    jobs: int = 1,
    cluster: str | None = None,
    folder: Path | None = None,
    progress: Callable[[BuildProgress], None] | None = None,
) -> TabularMDP:
    """The exact MDP of `env` for episodes of `horizon` steps (the env's own if None).

    An env that carries its dynamics (toy_text's `P`) is read off; any other is played, by `jobs` processes or by the workers of
    the dask `cluster` at that address. `replays` transitions are then played again on a fresh copy of the game, from the
    start, and a difference fails the build. Stopped by `max_states` or by `time_limit` seconds, the result is partial
    (`mdp.is_partial`). With a `folder`, whatever stops it, the same call goes on where it was. A sticky id gives the
    sticky view of its game.
    """
    description = describe(env)
    chosen = description.horizon if horizon is None else horizon
    if chosen is None:
        raise InvalidMDP(
            f"{description.name} says nothing about the length of its episodes; give a horizon (--horizon T)"
        )
    check_length(chosen)
    if description.dynamics is not None:
        return _read_dynamics(description, chosen)
    with tempfile.TemporaryDirectory(prefix="sqirl-build-") as temporary:
        limits = Limits(chosen, max_states, time_limit)
        build = Enumeration(description, folder or Path(temporary), limits, progress)
        try:
            build.run(jobs, cluster)
            mdp = build.to_mdp()
        finally:
            build.journal.close()
        _replay_sample(mdp, build.keys, build.game.fresh(), replays)
    return mdp.sticky(description.stickiness) if description.stickiness else mdp


@dataclass(frozen=True)
class Limits:
    horizon: int
    max_states: int
    time_limit: float | None


@dataclass(frozen=True, eq=False)
class _Level:
    """A level that is expanded in full."""

    number: int
    first_state: int
    size: int


@dataclass(eq=False)
class Enumeration:
    """One build: the key table in memory, all else in the journal."""

    description: EnvDescription
    folder: Path
    limits: Limits
    progress: Callable[[BuildProgress], None] | None = None
    keys: dict[bytes, int] = field(default_factory=dict)
    levels: list[_Level] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self.game = self.description.make_game()
        self.game.reset()
        self.keys[key_of(self.game)] = 0
        self._start_look = look_of(self.game.screen())
        self.journal = Journal(self.folder, {"game": self.game.name, **_provenance(self.game)})
        self._began = time.monotonic()
        self._reported = 0.0
        self._expanded = 0  # states, in this run
        self._frontiers = [1]

    def run(self, jobs: int = 1, cluster: str | None = None) -> None:
        """Expand level after level until the horizon, the end of the game's states, or a limit."""
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
                self.journal.forget_states(depth)
                if not len(sizes):
                    self.closed = True
                    return
        finally:
            workers.close()

    def _expand_level(self, depth: int, sizes: np.ndarray, workers: FrontierExpander) -> tuple[np.ndarray, bool]:
        """(packed sizes of the next level's states, whether this level is done); goes on where the journal ends."""
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
        """Hand out state numbers in the order of discovery."""
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
        """The MDP of the levels that are expanded in full."""
        size = self.levels[-1].first_state + self.levels[-1].size
        entries = [rows for level in self.levels for rows in self.journal.read_rows(level.number)]
        transitions = np.concatenate([rows.transitions for rows in entries])
        transitions = np.where(transitions < size, transitions, END)
        looks = np.frombuffer(self._start_look + b"".join(rows.new_looks for rows in entries), np.uint8)
        return TabularMDP.deterministic(
            transitions,
            np.concatenate([rows.rewards for rows in entries]),
            horizon=self.limits.horizon,
            depth=None if self.closed else len(self.levels),
            name=self.description.name,
            provenance=_provenance(self.game),
            make_game=self.description.make_game,
            **_screens(looks, size, len(self._start_look), self.game.screen()),
        )


def _screens(looks: np.ndarray, num_states: int, width: int, example: np.ndarray | None) -> dict[str, Any]:
    """Each distinct screen once and the state's place among them; the mapping alone where only digests were kept."""
    if example is None:
        return {}
    rows = np.ascontiguousarray(looks.reshape(-1, width)[:num_states]).view(np.dtype((np.void, width))).ravel()
    distinct, mapping = in_order_of_first_use(rows)
    screens = None
    if example.nbytes == width:
        screens = np.frombuffer(distinct.tobytes(), example.dtype).reshape(-1, *example.shape)
    return {"screens": screens, "screen_mapping": mapping}


def _read_dynamics(description: EnvDescription, horizon: int) -> TabularMDP:
    """The MDP that an env carries as `P`, with its distribution of start states."""
    assert description.dynamics is not None
    carrier = description.dynamics
    return TabularMDP.from_dynamics(
        carrier if isinstance(carrier, Mapping) else carrier.P,
        start=getattr(carrier, "initial_state_distrib", None),
        horizon=horizon,
        name=description.name,
        provenance=_versions(),
        make_game=description.make_game,
    )


def _replay_sample(mdp: TabularMDP, keys: dict[bytes, int], game: Game, replays: int) -> None:
    """Play a sample on a fresh game: from the start to random rows of the table, and on at random from there.

    The path to a row is the one by which its state was discovered. The walk beyond reaches states by other paths, so it
    detects keys that leave something out. Every replay has its own seed, so it detects random numbers that were merely equal
    in every earlier replay.
    """
    assert mdp.transitions is not None
    rng = np.random.default_rng(0)
    tree = breadth_first_tree(mdp)
    for seed, row in enumerate(rng.integers(mdp.transitions.size, size=replays).tolist()):
        state, action = divmod(row, mdp.num_actions)
        path = tree.path_to(state)
        play(game, path, seed=seed)
        for _ in range(REPLAY_WALK):
            path.append(action)
            reward, over = game.step(action)
            expected = int(mdp.transitions[state, action])
            arrived = END if over else keys.get(key_of(game), END)
            arrived = arrived if arrived < mdp.num_states else END
            if reward != mdp.rewards[state, action] or arrived != expected:
                raise WorkFailed(
                    f"{mdp.name or game.name} does not replay: after actions {path} the table says reward "
                    f"{mdp.rewards[state, action]:g} and state {expected}, the live game reward {reward:g} and state "
                    f"{arrived}; `sqirl check` shows why"
                )
            if expected == END:
                break
            state, action = expected, int(rng.integers(mdp.num_actions))


def _provenance(game: Game) -> dict[str, Any]:
    return {**_versions(), **game.provenance()}


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"sqirl": version("sqirl"), "gymnasium": version("gymnasium"), "numpy": version("numpy")}
