"""`build_empirical`: the MDP of an env with random outcomes that it does not tell, estimated from draws.

States are found level by level, as in an exact build. In each state, each action is taken many times with different seeds, and
the frequencies of what follows are its probabilities.

A state is the whole state of the env, if play comes back to the same states. If it hardly does, but what the agent sees repeats
(in Blackjack the cards that were drawn differ, and their sum repeats), then observations are the states. What the agent does not
see is then drawn as random play met it: every draw starts from another state that showed this observation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sqirl.envs.adapters import fingerprint
from sqirl.envs.description import EnvDescription
from sqirl.envs.game import Game
from sqirl.envs.randomness import global_randomness, step_with_seed
from sqirl.envs.starts import Starts, StartsBySeed, starts_of
from sqirl.errors import EnvFailed, WorkFailed, counted
from sqirl.mdp.enumeration import PROGRESS_INTERVAL, BuildProgress, Limits, provenance_of
from sqirl.mdp.expand import key_of, pack, unpack
from sqirl.mdp.tabular import END, Outcomes, TabularMDP

#: Draws of each action in each state, if no other number is asked for.
DRAWS = 100
#: Steps of random play that decide what the states are, and that collect states which look alike.
PROBE_STEPS, POOL_STEPS = 600, 10_000
#: Episodes whose starts give the probabilities of first observations.
START_EPISODES = 2000
#: Shares of a time limit after which both end early.
POOL_SHARE, START_SHARE = 0.2, 0.3
#: Observations are the states if so large a share of the whole states is met once only, and at most so large a share of them.
NEW_STATES, NEW_OBSERVATIONS = 0.5, 0.2

_Row = dict[tuple[int, float], int]  # (next state, reward) -> how often


def build_empirical(
    description: EnvDescription,
    limits: Limits,
    *,
    draws: int | None = None,
    starts: int | None = None,
    progress: Callable[[BuildProgress], None] | None = None,
) -> TabularMDP:
    """The estimated MDP. `mdp.outcomes.draws` says how many draws each row has, and `sqirl.mdp.scope` says it in words.

    :param draws: draws of each action in each state; `DRAWS` if None
    :param starts: seeds for finding random starts; see `sqirl.mdp.build.build_mdp`
    """
    game = description.make_game()
    sees = _sees_repeat(game, limits.horizon)
    found = _Observations(game, limits, draws or DRAWS) if sees else _States(game, limits, draws or DRAWS)
    found.progress = progress
    first = found.find_starts(starts)
    found.expand_levels()
    provenance = {**provenance_of(game), **({"starts": first.facts()} if first.facts() else {})}
    return found.to_mdp(description, first, {**provenance, **({"states": "observations"} if sees else {})})


def _sees_repeat(game: Game, horizon: int) -> bool:
    """Do observations repeat in random play where whole states do not?"""
    states: dict[bytes, int] = {}
    seen: dict[bytes, int] = {}
    for observation in _random_play(game, PROBE_STEPS, horizon):
        whole = key_of(game)
        states[whole] = states.get(whole, 0) + 1
        seen[observation] = seen.get(observation, 0) + 1
    once = [sum(count == 1 for count in counts.values()) / PROBE_STEPS for counts in (states, seen)]
    return once[0] > NEW_STATES and once[1] <= NEW_OBSERVATIONS


def _random_play(game: Game, steps: int, horizon: int) -> Iterator[bytes]:
    """What is observed at each of so many steps of random episodes. The game is then in the state that shows it."""
    rng, done = np.random.default_rng(0), 0
    for episode in range(steps):
        _start(game, episode)
        for _ in range(horizon):
            yield _observed(game)
            done += 1
            if done == steps:
                return
            action, seed = int(rng.integers(game.num_actions)), int(rng.integers(2**31))
            with global_randomness(seed):
                over = game.step(action)[1]
            if over:
                break


def _start(game: Game, seed: int) -> None:
    if isinstance(game, StartsBySeed):
        game.start(seed)
    else:
        game.reset()
        game.reseed(seed)


def _observed(game: Any) -> bytes:
    return fingerprint(getattr(game, "_observation", None) if hasattr(game, "_observation") else game.screen())


@dataclass(eq=False)
class _States:
    """An estimated MDP while it grows, whose states are whole states of the env."""

    game: Game
    limits: Limits
    draws: int
    keys: dict[bytes, int] = field(default_factory=dict)
    saved: list[list[bytes]] = field(default_factory=list)  # of each state: packed states to draw from
    rows: list[_Row] = field(default_factory=list)  # row s·A + a
    row_draws: list[int] = field(default_factory=list)
    depth: int = 0
    closed: bool = False
    progress: Callable[[BuildProgress], None] | None = None

    def __post_init__(self) -> None:
        self._began, self._reported, self._seed = time.monotonic(), 0.0, 0

    def key(self) -> bytes:
        """Of the state that the game is in now."""
        return key_of(self.game)

    def find_starts(self, sample: int | None) -> Starts:
        """The starts; they become the states 0..n-1."""
        starts = starts_of(self.game, sample=sample)
        for state in starts.states:
            self.game.set_state(state)
            self.number(self.key())
        return starts

    def number(self, key: bytes) -> int:
        """The number of a state; a new one is kept, to draw from."""
        if key not in self.keys:
            self.keys[key] = len(self.keys)
            self.saved.append([pack(self.game.bare_state())])
        return self.keys[key]

    def expand_levels(self) -> None:
        """Draw from one level after the other until the horizon, until there are no new states, or until a limit."""
        first, last = 0, len(self.keys)
        while self.depth < self.limits.horizon and first < last:
            for state in range(first, last):
                for action in range(self.game.num_actions):
                    try:
                        self.draw_row(state, action)
                    except EnvFailed as error:
                        raise EnvFailed(f"{error}; in a state {counted(self.depth, 'step')} after the start") from error
                if not self.depth and self._is_late():  # an MDP has at least its starts
                    raise WorkFailed(
                        f"the draws of the first step took longer than {self.limits.time_limit:.0f} s; "
                        "raise --time-limit, or lower --draws or --starts"
                    )
                if self.depth and self._limit_reached():
                    del self.rows[first * self.game.num_actions :], self.row_draws[first * self.game.num_actions :]
                    return
                self._report(state - first, last - first)
            self.depth += 1
            first, last = last, len(self.keys)
        self.closed = first == last

    def draw_row(self, state: int, action: int) -> None:
        """Take an action in a state many times."""
        row: _Row = {}
        count = self.draws_of(state)
        sources = [unpack(packed) for packed in self.saved[state][:count]]
        for place in range(count):
            self._seed += 1
            reward, over = step_with_seed(self.game, sources[place % len(sources)], action, self._seed)
            following = END if over else self.number(self.key())
            row[following, reward] = row.get((following, reward), 0) + 1
        self.rows.append(row)
        self.row_draws.append(count)

    def draws_of(self, state: int) -> int:
        return self.draws

    def _limit_reached(self) -> bool:
        return len(self.keys) > self.limits.max_states or self._is_late()

    def _is_late(self, share: float = 1.0) -> bool:
        """Is so large a share of the time over?"""
        return self.limits.time_limit is not None and time.monotonic() - self._began > share * self.limits.time_limit

    def _report(self, done: int, frontier: int) -> None:
        now = time.monotonic()
        if self.progress is None or now - self._reported < PROGRESS_INTERVAL:
            return
        self._reported = now
        actions = self.game.num_actions
        self.progress(
            BuildProgress(
                self.depth, self.limits.horizon, done, frontier, len(self.keys), sum(self.row_draws), now - self._began,
                1.0, actions,
            )
        )  # fmt: skip

    def to_mdp(self, description: EnvDescription, starts: Starts, provenance: dict[str, Any]) -> TabularMDP:
        """The MDP of the levels that are complete. Transitions to later states end the episode."""
        size = len(self.rows) // self.game.num_actions
        entries = [
            (following if following < size else END, reward, count / total)
            for row, total in zip(self.rows, self.row_draws, strict=True)
            for (following, reward), count in sorted(row.items())
        ]
        next_states, rewards, probabilities = zip(*entries, strict=True)
        outcomes = Outcomes(
            np.cumsum([0, *map(len, self.rows)], dtype=np.int64),
            np.array(next_states, np.int32),
            np.array(probabilities, np.float64),
            np.array(rewards, np.float64),
            np.array(self.row_draws, np.int64),
        )
        return TabularMDP(
            rewards=outcomes.expected_rewards(self.game.num_actions),
            outcomes=outcomes,
            start_states=np.arange(len(starts.probabilities), dtype=np.int32),
            start_probabilities=starts.probabilities,
            start_seeds=starts.seeds,
            horizon=self.limits.horizon,
            depth=None if self.closed else self.depth,
            name=description.name,
            provenance=provenance,
            make_game=description.make_game,
        )


class _Observations(_States):
    """The same with observations as states. Each has a pool of whole states that showed it, and each is drawn from once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pools: dict[bytes, list[bytes]] = {}

    def key(self) -> bytes:
        return _observed(self.game)

    def find_starts(self, sample: int | None) -> Starts:
        counts: dict[int, int] = {}
        for observation in _random_play(self.game, POOL_STEPS, self.limits.horizon):
            self._pool(observation)
            if self._is_late(POOL_SHARE):
                break
        for seed in range(sample or START_EPISODES):
            _start(self.game, seed)
            number = self.number(self.key())
            counts[number] = counts.get(number, 0) + 1
            if self._is_late(START_SHARE):
                break
        episodes = sum(counts.values())
        share = np.array([counts[number] for number in range(len(counts))]) / episodes
        return Starts((), share, None, episodes, complete=sample is None and min(counts.values()) > 1)

    def _pool(self, key: bytes) -> list[bytes]:
        """The states that showed this observation, with the one that the game is in now, if they are not enough."""
        pool = self._pools.setdefault(key, [])
        if len(pool) < self.draws:
            pool.append(pack(self.game.bare_state()))
        return pool

    def number(self, key: bytes) -> int:
        pool = self._pool(key)
        if key not in self.keys:
            self.keys[key] = len(self.keys)
            self.saved.append(pool)
        return self.keys[key]

    def draws_of(self, state: int) -> int:
        return min(self.draws, len(self.saved[state]))
