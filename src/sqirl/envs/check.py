"""Tests by random walks whether an env can be enumerated. The report names the first problem found.

Three things must hold. Restoring a state and stepping gives the same result every time, also on another copy of the env. The
result does not depend on the env's random generator. States with equal keys behave equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sqirl.envs.adapters import ToyText
from sqirl.envs.description import EnvDescription, EnvLike, describe
from sqirl.envs.game import Game


@dataclass(frozen=True)
class CheckReport:
    """The result of the random walks. `problem` is None if the env can be enumerated."""

    name: str
    how: str  # how the env is saved and restored
    num_actions: int
    steps: int
    distinct_states: int
    revisits: int  # how often a walk reached a key that was seen before
    problem: str | None

    def __str__(self) -> str:
        walks = (
            f"{self.name}: {self.num_actions} actions, saved by {self.how}; {self.steps:,} steps of random walks, "
            f"{self.distinct_states:,} states, {self.revisits:,} revisits"
        )
        return f"{walks}\n{'ok: it can be enumerated' if self.problem is None else 'problem: ' + self.problem}"


@dataclass(frozen=True)
class _Outcome:
    reward: float
    over: bool
    key: bytes | None

    def __str__(self) -> str:
        where = "the end of the game" if self.over else f"state {self.key.hex()[:8]}" if self.key else "?"
        return f"reward {self.reward:g} and {where}"


def check_env(
    env: EnvLike | EnvDescription, *, steps: int = 2000, horizon: int | None = None, seed: int = 0
) -> CheckReport:
    """Check with random walks whether the states of `env` can be saved, restored and enumerated.

    :param env: an id, 'module:Class', an env, a game, or the description of one
    :param steps: steps of all walks together; each step is checked
    :param horizon: steps of one walk; the env's own horizon if None, or 100 if it has none
    :param seed: seed of the random actions
    """
    description = describe(env)
    game = description.make_game()
    walker = _Walker(game, np.random.default_rng(seed))
    problem = walker.walk(steps, horizon or description.horizon or 100)
    return CheckReport(
        description.name, game.saved_by, game.num_actions, walker.steps, len(walker.seen), walker.revisits, problem
    )


class _Walker:
    """Walks through a game and stores one state for each key."""

    def __init__(self, game: Game, rng: np.random.Generator) -> None:
        self.game, self.other, self.rng = game, game.fresh(), rng
        self.seen: dict[bytes, tuple[Any, list[int]]] = {}  # key -> a state with that key, the path to it
        self.steps = self.revisits = 0

    def walk(self, steps: int, horizon: int) -> str | None:
        """The first problem found, or None."""
        while self.steps < steps:
            self.game.reset()
            path: list[int] = []
            for _ in range(horizon):
                action = int(self.rng.integers(self.game.num_actions))
                state, key = self.game.get_state(), self.game.state_key()
                problem = self._check(state, key, path, action)
                if problem or self.steps >= steps:
                    return problem
                self.game.set_state(state)
                _, over = self.game.step(action)
                path.append(action)
                if over:
                    break
        return None

    def _check(self, state: Any, key: bytes, path: list[int], action: int) -> str | None:
        self.steps += 1
        where = f"after actions {path}" if path else "at the start"
        first = _outcome(self.game, state, action)
        again = _outcome(self.game, state, action)
        if again != first:
            return f"{where}, action {action} gave {first} once and {again} when restored and stepped again"
        elsewhere = _outcome(self.other, state, action)
        if elsewhere != first:
            return f"{where}, action {action} gave {first}, but {elsewhere} in another copy of the env restored to the same state"
        reseeded = _outcome(self.game, state, action, reseed=int(self.rng.integers(2**31)))
        if reseeded != first:
            way_out = "; `sqirl analyze` reads its dynamics from P instead" if isinstance(self.game, ToyText) else ""
            return (
                f"{where}, action {action} gave {first}, but {reseeded} with another random seed: the env is stochastic, "
                f"and an enumeration would record only one of its outcomes{way_out}"
            )
        if key not in self.seen:
            self.seen[key] = (state, list(path))
            return None
        self.revisits += 1
        other_state, other_path = self.seen[key]
        same_key = _outcome(self.game, other_state, action)
        if same_key != first:
            return (
                f"actions {path} and {other_path} lead to states with the same key, but action {action} then gives {first} "
                f"and {same_key}: the key does not contain the whole state"
            )
        return None


def _outcome(game: Game, state: Any, action: int, reseed: int | None = None) -> _Outcome:
    game.set_state(state)
    if reseed is not None:
        game.reseed(reseed)
    reward, over = game.step(action)
    return _Outcome(reward, over, None if over else game.state_key())
