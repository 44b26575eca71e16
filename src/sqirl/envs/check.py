"""Tests by random walks whether an env can be enumerated. The report names the first problem found.

Four things must hold. A restored state has the key that it was saved with. Restoring a state and stepping with the same random
seed gives the same result every time, also on another copy of the env, and the same as in an episode without restoring. Where the
result depends on the seed, the env is random, and its outcomes are estimated from draws. States with equal keys behave equally.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from sqirl.envs.adapters import EmulatorStates, OwnSnapshots, ToyText
from sqirl.envs.calls import env_errors, naming_actions
from sqirl.envs.counters import step_counters
from sqirl.envs.description import EnvDescription, EnvLike, describe
from sqirl.envs.game import Game
from sqirl.envs.randomness import generator_states, global_randomness, step_with_seed
from sqirl.envs.starts import Starts, StartsBySeed, starts_of
from sqirl.errors import NotEnumerable, NotRestorable, SqirlError, counted

#: A walk of an env without a horizon has at most so many steps.
LONG_WALK = 100
#: Paths to rewards that later walks follow, at most, and how often a step of such a walk is random.
REMEMBERED_PATHS, STRAYING = 200, 0.1
#: Steps and seconds of random play that look for actions that draw random numbers, and how often each of these is repeated.
DRAWING_STEPS, DRAWING_SECONDS, REPEATED_DRAWS = 2000, 1.0, 1000
#: States hardly repeat if fewer steps than this share lead to a state that was seen before.
SELDOM = 0.1
#: A state in a message has at most so many letters.
LONGEST_STATE = 80


@dataclass(frozen=True)
class CheckReport:
    """The result of the random walks. `problem` is None if the env can be enumerated."""

    name: str
    how: str  # how the env is saved and restored
    num_actions: int
    steps: int
    distinct_states: int
    revisits: int  # how often a walk reached a key that was seen before
    starts: int  # different states after resets with many seeds
    all_starts: bool  # are these all the starts there are?
    randomness: str | None  # an example of an outcome that depends on the seed
    idle_draws: int  # draws of actions that draw random numbers, but whose outcomes were all the same
    counters: tuple[str, ...]  # attributes that count steps and are part of the state
    problem: str | None

    def __str__(self) -> str:
        """The first line says what building and analysing it would be about."""
        more = "" if self.all_starts else " or more"
        kind = "random steps, " if self.randomness else "" if self.problem else "deterministic steps, "
        starts = "one start" if self.starts == 1 else f"{self.starts:,}{more} random starts"
        lines = [
            f"{self.name}: {kind}{starts}, {self.num_actions} actions, saved by {self.how}",
            f"{counted(self.steps, 'step')} of random walks, {counted(self.distinct_states, 'state')}, "
            f"{counted(self.revisits, 'revisit')}",
        ]
        if self.randomness:
            lines.append(f"random: {self.randomness}")
        if self.idle_draws:
            lines.append(f"note: {idle_draws_in_words(self.idle_draws)}")
        lines += [counter_note(name) for name in self.counters]
        return "\n".join([*lines, f"problem: {self.problem}" if self.problem else f"ok: {self._way}"])

    @property
    def _way(self) -> str:
        if self.randomness is None and self.revisits < SELDOM * self.steps:
            return "its states can be saved and restored; they hardly repeat, so there may be too many to enumerate"
        if self.randomness is None:
            return "it can be enumerated"
        if self.how == ToyText.saved_by:
            return "its dynamics are read from P"
        return "it can be enumerated; its outcomes are estimated from draws, with intervals"


class Randomness(NamedTuple):
    """What random walks show of the outcomes of actions."""

    is_random: bool
    idle_draws: int = 0  # as in `CheckReport`


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

    :param env: whatever `describe` takes, except the file of an MDP
    :param steps: steps of all walks together; each step is checked
    :param horizon: steps of one walk; the env's own horizon if None, or 100 if it has none
    :param seed: seed of the random actions
    """
    description = describe(env)
    if description.file is not None:
        raise SqirlError(f"'{description.file}' is an MDP already; there is no env to check: sqirl analyze {env}")
    game = description.make_game()
    starts = starts_of(game)
    check_episodes(game)
    walker, length = Walker(game, starts, np.random.default_rng(seed)), horizon or description.horizon or LONG_WALK
    problem = walker.walk(steps, length)
    if problem is None and walker.randomness is None:
        walker.repeat_draws(steps, length)
    return CheckReport(
        description.name,
        game.saved_by,
        game.num_actions,
        walker.steps,
        len(walker.seen),
        walker.revisits,
        len(starts.states),
        starts.complete,
        walker.randomness,
        walker.idle_draws,
        tuple(step_counters(game)),
        problem,
    )


def counter_note(name: str) -> str:
    """What a step counter does, and how to do without it."""
    return (
        f"note: its attribute {name} counts steps and is part of its state, so every step leads to new states; if neither "
        f"rewards nor ends should depend on it, hold it: --hold {name}"
    )


def idle_draws_in_words(draws: int) -> str:
    """What is known of an env whose steps draw random numbers, but whose outcomes did not differ."""
    return f"taken as deterministic: its steps draw random numbers, but {draws:,} draws showed no random outcome"


def check_actions(env: gym.Env[Any, Any], num_actions: int, name: str) -> None:
    """Raise `NotEnumerable` if the env does not have the actions any more that it began with."""
    space = getattr(env, "action_space", None)
    if not isinstance(space, gym.spaces.Discrete) or int(space.n) != num_actions:
        raise NotEnumerable(
            f"{name} changes its action space from Discrete({num_actions}) to {space}; it must stay the same"
        )


def check_episodes(game: Game, episodes: int = 5) -> None:
    """Play the first steps of some episodes, one after the other, in one env that is never restored.

    Raises `NotEnumerable` where its observations or its actions are not those that it began with.
    """
    env = getattr(game.fresh(), "env", None)
    if not isinstance(env, gym.Env):
        return
    shape, rng = None, np.random.default_rng(0)
    for seed in range(episodes):
        with global_randomness(seed), env_errors(game.name, "reset"):
            observation = env.reset(seed=seed)[0]
        shape = check_shape(game.name, observation, shape)
        check_actions(env, game.num_actions, game.name)
        action = int(rng.integers(game.num_actions))
        with global_randomness(seed), env_errors(game.name, "step", [action]):
            observation = env.step(action + int(getattr(env.action_space, "start", 0)))[0]
        check_shape(game.name, observation, shape)


def check_shape(name: str, observation: Any, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape of an observation that is an array. Raises `NotEnumerable` if it is not the one that is expected."""
    now = observation.shape if isinstance(observation, np.ndarray) else shape
    if shape is not None and now != shape:
        raise NotEnumerable(f"{name} returns observations of shapes {shape} and {now}; all must be equal")
    return now


def find_randomness(description: EnvDescription, *, steps: int) -> Randomness:
    """Do the outcomes of actions depend on a random seed, as far as so many steps of random walks tell?

    Raises `NotRestorable` if they depend on something else, so that no state can be restored.
    """
    if description.is_bridge:
        return Randomness(False)
    game = description.make_game()
    check_episodes(game)
    walker = Walker(game, starts_of(game, sample=2), np.random.default_rng(0))
    length = description.horizon or LONG_WALK
    problem = walker.walk(steps, length, until_random=True)
    if problem is None and walker.randomness is None:
        walker.repeat_draws(DRAWING_STEPS, length)
    if problem is not None and walker.randomness is None:
        advice = (
            "get_state() must return all of the state, set_state() must restore it, and all randomness must come from "
            "self.np_random"
        )
        raise NotRestorable(f"{description.name}: {problem}" + ("" if walker.hint() else f"; {advice}"))
    return Randomness(walker.randomness is not None, walker.idle_draws)


class Walker:
    """Walks through a game and stores one state for each key."""

    def __init__(self, game: Game, starts: Starts, rng: np.random.Generator) -> None:
        self.game, self.other, self.starts, self.rng = game, game.fresh(), starts, rng
        self.continuous = game.fresh()  # its episodes are never restored
        self.seen: dict[bytes, tuple[Any, list[int]]] = {}  # key -> a state with that key, the path to it
        self.steps = self.revisits = 0
        self.randomness: str | None = None
        self.idle_draws = 0
        self.rewarded: list[list[int]] = []  # paths whose last action earned a reward
        self._walks = 0

    def walk(self, steps: int, horizon: int, *, until_random: bool = False) -> str | None:
        """The first problem found, or None. If asked to, it ends where it finds that outcomes are random."""
        while self.steps < steps:
            self._begin()
            path: list[int] = []
            guide = self._guide()
            for t in range(horizon):
                strays = t >= len(guide) or self.rng.random() < STRAYING
                action = int(self.rng.integers(self.game.num_actions)) if strays else guide[t]
                with naming_actions([*path, action]):
                    problem, over = self._step(path, action)
                if problem or self.steps >= steps or (until_random and self.randomness):
                    return problem
                path.append(action)
                if over:
                    break
        return None

    def repeat_draws(self, steps: int, horizon: int) -> None:
        """Find actions that draw random numbers by random play, and repeat them with other seeds until an outcome differs.

        So rare outcomes are found that a few repetitions of every action would miss.
        """
        env = getattr(self.game, "env", None)
        if not isinstance(env, gym.Env):
            return
        until, repeated, path = time.monotonic() + DRAWING_SECONDS, set[tuple[bytes, int]](), list[int]()
        self._begin()
        for _ in range(steps):
            state, key, action = (
                self.game.get_state(),
                self.game.state_key(),
                int(self.rng.integers(self.game.num_actions)),
            )
            before = generator_states(self.game.env)  # type: ignore[attr-defined]
            with naming_actions([*path, action]):
                over = self.game.step(action)[1]
            after, is_drawn = self.game.get_state(), generator_states(self.game.env) != before  # type: ignore[attr-defined]
            if is_drawn and (key, action) not in repeated:
                repeated.add((key, action))
                if self._differs(state, path, action, until):
                    return
                self.game.set_state(after)
            path = [*path, action]
            if over or len(path) == horizon:
                self._begin()
                path = []
            if time.monotonic() > until:
                return

    def _differs(self, state: Any, path: list[int], action: int, until: float) -> bool:
        """Does the action have another outcome with one of many seeds?"""
        first = _outcome(self.game, state, action, 0)
        for seed in range(1, REPEATED_DRAWS):
            other = _outcome(self.game, state, action, seed)
            if other != first:
                self.randomness = f"{_where(path)}, action {action} gave {first}, and {other} with another random seed"
                self.idle_draws = 0
                return True
            self.idle_draws += 1
            if time.monotonic() > until:
                break
        return False

    def _begin(self) -> None:
        """Reset the episode that is never restored, and restore its start in the game."""
        if isinstance(self.continuous, StartsBySeed):
            seeds = self.starts.seeds
            self.continuous.start(int(self.rng.choice(seeds)) if seeds is not None else 0)
        else:
            self.continuous.reset()
        self.game.set_state(self.continuous.get_state())

    def _guide(self) -> list[int]:
        """Actions that have earned a reward, for every second walk: what a state leaves out often shows at a reward."""
        self._walks += 1
        if self._walks % 2 or not self.rewarded:
            return []
        return self.rewarded[self.rng.integers(len(self.rewarded))]

    def _step(self, path: list[int], action: int) -> tuple[str | None, bool]:
        """Take an action and check it. Returns the problem, or None, and whether the episode is over."""
        state, key = self.game.get_state(), self.game.state_key()
        problem = self._comes_back(state, key, path) or self._check(state, key, path, action)
        if problem:
            return problem, True
        seed = int(self.rng.integers(2**31))
        restored = _outcome(self.game, state, action, seed)
        if isinstance(env := getattr(self.game, "env", None), gym.Env):
            check_actions(env, self.game.num_actions, self.game.name)
        if restored.reward and len(self.rewarded) < REMEMBERED_PATHS:
            self.rewarded.append([*path, action])
        return self._goes_on(path, action, seed, restored), restored.over

    def _comes_back(self, state: Any, key: bytes, path: list[int]) -> str | None:
        """Is the key after set_state(state) the key that it had?"""
        self.game.set_state(state)
        if self.game.state_key() == key:
            return None
        now = self.game.get_state()
        shown = ""
        if isinstance(self.game, OwnSnapshots):
            shown = f": get_state() returned {_short(state[0])} before and {_short(now[0])} after"
        return f"{_where(path)}, set_state(get_state()) does not bring the env back to the same state{shown}"

    def _goes_on(self, path: list[int], action: int, seed: int, restored: _Outcome) -> str | None:
        """Does the same action have the same outcome in an episode in which nothing was restored?"""
        with global_randomness(seed):
            self.continuous.reseed(seed)
            reward, over = self.continuous.step(action)
        played = _Outcome(reward, over, None if over else self.continuous.state_key())
        if played == restored:
            return None
        return (
            f"{_where(path)}, action {action} gave {played} in an episode without restoring, and {restored} where the state was "
            f"saved and restored before each step{self.hint()}"
        )

    def _check(self, state: Any, key: bytes, path: list[int], action: int) -> str | None:
        self.steps += 1
        where = _where(path)
        seed, other_seed = (int(number) for number in self.rng.integers(2**31, size=2))
        first = _outcome(self.game, state, action, seed)
        again = _outcome(self.game, state, action, seed)
        if again != first:
            return (
                f"{where}, action {action} gave {first} once and {again} when restored and stepped again{self.hint()}"
            )
        elsewhere = _outcome(self.other, state, action, seed)
        if elsewhere != first:
            return f"{where}, action {action} gave {first}, but {elsewhere} in another copy of the env restored to the same state"
        reseeded = _outcome(self.game, state, action, other_seed)
        if reseeded != first and self.randomness is None:
            again, elsewhere = _outcome(self.game, state, action, seed), _outcome(self.game, state, action, other_seed)
            if (again, elsewhere) != (first, reseeded):  # it depends on something else than the seed
                return f"{where}, action {action} gave {first} and {again} with the same seed{self.hint()}"
            self.randomness = f"{where}, action {action} gave {first}, and {reseeded} with another random seed"
        if key not in self.seen:
            self.seen[key] = (state, list(path))
            return None
        self.revisits += 1
        other_state, other_path = self.seen[key]
        same_key = _outcome(self.game, other_state, action, seed)
        if same_key != first:
            return (
                f"actions {path} and {other_path} lead to states with the same key, but action {action} then gives {first} "
                f"and {same_key}: the key does not contain the whole state"
            )
        return None

    def hint(self) -> str:
        """How to do without randomness that is in no generator of Python; empty if that is not known."""
        if isinstance(self.game, EmulatorStates):
            return "; switch its sticky actions off: --env-kwargs '{\"repeat_action_probability\": 0}'"
        return ""


def _where(path: list[int]) -> str:
    return f"after actions {path}" if path else "at the start"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_STATE else f"{text[:LONGEST_STATE]}…"


def _outcome(game: Game, state: Any, action: int, seed: int) -> _Outcome:
    reward, over = step_with_seed(game, state, action, seed)
    return _Outcome(reward, over, None if over else game.state_key())
