"""Enumerating a live game, breadth first, into a `TabularMDP`.

Level d holds the states first reached after d steps. An episode of T steps acts in the states of levels 0..T-1; what its
last step leads to is never acted in, so level T is not part of the MDP unless its states were known before. A limit that
strikes in the middle of level d leaves the MDP of the first d steps: exact as far as it goes, and known to be partial.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sqirl.envs.game import Game
from sqirl.envs.resolve import EnvLike, Subject, resolve
from sqirl.errors import InvalidMDP, WorkFailed
from sqirl.mdp.reach import breadth_first_tree
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.mdp.trace import play

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
    transitions: int
    seconds: float


def build_mdp(
    env: EnvLike,
    *,
    horizon: int | None = None,
    max_states: int = 1_000_000,
    time_limit: float | None = None,
    screens: bool = True,
    replays: int = 100,
    progress: Callable[[BuildProgress], None] | None = None,
) -> TabularMDP:
    """The exact MDP of `env` for episodes of `horizon` steps (the env's own if None).

    An env that carries its dynamics (toy_text's `P`) is read off; any other is played. `replays` transitions are then played
    again on a fresh copy of the game, from the start, and a difference fails the build. Stopped by `max_states` or by
    `time_limit` seconds, the result is partial (`mdp.is_partial`). A sticky id gives the sticky view of its game.
    """
    subject = resolve(env)
    chosen = subject.horizon if horizon is None else horizon
    if chosen is None:
        raise InvalidMDP(f"{subject.name} says nothing about the length of its episodes; give a horizon (--horizon T)")
    if chosen < 1:
        raise InvalidMDP(f"horizon {chosen} is below 1; an episode has at least one step")
    if subject.dynamics is not None:
        return _read_dynamics(subject, chosen)
    game = subject.make_game()
    table = _enumerate(game, chosen, max_states, time_limit, screens, progress)
    mdp = replace(table.to_mdp(chosen), name=subject.name, provenance=_provenance(game), make_game=subject.make_game)
    _replay_sample(mdp, table.keys, game.fresh(), replays)
    return mdp.sticky(subject.stickiness) if subject.stickiness else mdp


@dataclass
class _Table:
    """The rows found so far; state numbers are handed out in the order of discovery."""

    keys: dict[bytes, int]
    transitions: list[list[int]] = field(default_factory=list)
    rewards: list[list[float]] = field(default_factory=list)
    level_starts: list[int] = field(default_factory=list)  # number of states known before each expanded level
    keeps_screens: bool = True
    screen_numbers: dict[bytes, int] = field(default_factory=dict)
    pictures: list[np.ndarray] = field(default_factory=list)
    screen_mapping: list[int] = field(default_factory=list)
    closed: bool = False

    def number(self, game: Game) -> tuple[int, bool]:
        """The number of the game's current state, and whether it is new."""
        key = game.state_key()
        known = self.keys.get(key)
        if known is not None:
            return known, False
        self.keys[key] = len(self.keys)
        if self.keeps_screens:
            self._note_screen(game)
        return len(self.keys) - 1, True

    def _note_screen(self, game: Game) -> None:
        screen = game.screen()
        if screen is None:
            self.keeps_screens = False
            return
        index = self.screen_numbers.setdefault(screen.tobytes(), len(self.pictures))
        if index == len(self.pictures):
            self.pictures.append(screen)
        self.screen_mapping.append(index)

    def to_mdp(self, horizon: int) -> TabularMDP:
        depth = len(self.level_starts) - 1  # levels expanded in full
        if depth < 1:
            raise WorkFailed("the limit struck before one step was enumerated; raise --max-states or --time-limit")
        size = self.level_starts[depth]
        transitions = np.array(self.transitions[:size], np.int32)
        transitions[transitions >= size] = END
        mapped = np.array(self.screen_mapping[:size], np.int32)
        pictures = None
        if self.keeps_screens:
            pictures = np.stack(self.pictures[: int(mapped.max()) + 1])
        return TabularMDP.deterministic(
            transitions,
            np.array(self.rewards[:size]),
            horizon=horizon,
            depth=None if self.closed else depth,
            screens=pictures,
            screen_mapping=mapped if pictures is not None else None,
        )


def _enumerate(
    game: Game,
    horizon: int,
    max_states: int,
    time_limit: float | None,
    screens: bool,
    progress: Callable[[BuildProgress], None] | None,
) -> _Table:
    began = reported = time.monotonic()
    game.reset()
    table = _Table({}, level_starts=[0], keeps_screens=screens)
    table.number(game)
    frontier = [game.get_state()]
    for depth in range(horizon):
        known = len(table.keys)
        discovered: list[Any] = []
        for done, state in enumerate(frontier):
            _expand(game, state, table, discovered)
            now = time.monotonic()
            if len(table.keys) > max_states or (time_limit is not None and now - began > time_limit):
                return table
            if progress and now - reported > PROGRESS_INTERVAL:
                reported = now
                rows = len(table.transitions)
                progress(
                    BuildProgress(
                        depth, horizon, done + 1, len(frontier), len(table.keys), rows * game.num_actions, now - began
                    )
                )
        table.level_starts.append(known)
        frontier = discovered
        if not frontier:
            table.closed = True
            break
    return table


def _expand(game: Game, state: Any, table: _Table, discovered: list[Any]) -> None:
    """Append the row of `state` to the table, and the states that it newly leads to to `discovered`."""
    next_states, rewards = [], []
    for action in range(game.num_actions):
        game.set_state(state)
        reward, over = game.step(action)
        index, is_new = (END, False) if over else table.number(game)
        if is_new:
            discovered.append(game.get_state())
        next_states.append(index)
        rewards.append(reward)
    table.transitions.append(next_states)
    table.rewards.append(rewards)


def _read_dynamics(subject: Subject, horizon: int) -> TabularMDP:
    """The MDP that an env carries as `P`, with its distribution of start states."""
    assert subject.dynamics is not None
    base: Any = subject.dynamics.unwrapped
    return TabularMDP.from_dynamics(
        base.P,
        start=getattr(base, "initial_state_distrib", None),
        horizon=horizon,
        name=subject.name,
        provenance=_versions(),
        make_game=subject.make_game,
    )


def _replay_sample(mdp: TabularMDP, keys: dict[bytes, int], game: Game, replays: int) -> None:
    """Play a sample of transitions from the start on a fresh game, and compare reward, end and the state arrived in."""
    assert mdp.transitions is not None
    rng = np.random.default_rng(0)
    rows = rng.integers(mdp.transitions.size, size=replays)
    tree = breadth_first_tree(mdp)
    for seed, row in enumerate(rows.tolist()):
        state, action = divmod(row, mdp.num_actions)
        path = tree.path_to(state)
        play(game, path, seed=seed)  # another seed each time: chance that only repeats itself is found out
        reward, over = game.step(action)
        expected = int(mdp.transitions[state, action])
        arrived = END if over else keys.get(game.state_key(), END)
        arrived = arrived if arrived < mdp.num_states else END
        if reward != mdp.rewards[state, action] or arrived != expected:
            raise WorkFailed(
                f"{mdp.name or game.name} does not replay: after actions {[*path, action]} the table says reward "
                f"{mdp.rewards[state, action]:g} and state {expected}, the live game reward {reward:g} and state {arrived}; "
                "`sqirl check` shows why"
            )


def _provenance(game: Game) -> dict[str, Any]:
    return {**_versions(), **game.provenance()}


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"sqirl": version("sqirl"), "gymnasium": version("gymnasium"), "numpy": version("numpy")}
