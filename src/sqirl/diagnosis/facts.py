"""What an environment is: its spaces, its length, where its randomness is, how it is saved, how fast it is."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.diagnosis.features import are_pictures
from sqirl.diagnosis.simulator import EnvSimulator, Simulator, same
from sqirl.diagnosis.words import number
from sqirl.envs.calls import time_for_calls
from sqirl.envs.check import check_actions
from sqirl.envs.description import EnvDescription
from sqirl.errors import OutOfTime, WorkFailed, counted
from sqirl.play.observations import problem_with

#: Seeds of `reset` whose first observations are compared, and moments from which the same actions are played again.
SEEDS, MOMENTS = 6, 4
#: Actions that are played from each moment, and seconds for all of it, at most.
ACTIONS, SECONDS = 12, 3.0
#: Where a horizon comes from.
GIVEN, OWN_LIMIT, OF_TABLE = "given", "its time limit", "of the table"
LONGEST = "the longest episode that is possible; it has no time limit of its own"
LONGEST_DRAWN = "the longest episode among the outcomes that were drawn; it has no time limit of its own"
LONGEST_SEEN = "the longest episode of random play; it has no time limit of its own"


@dataclass(frozen=True)
class Facts:
    """The first section of a diagnosis."""

    env_id: str
    observations: str
    actions: str
    num_actions: int
    horizon: int
    horizon_is: str  # where it comes from
    random_start: bool | None  # None: not tested, because calls are slow
    random_steps: bool | None
    stickiness: float
    saved_by: str
    steps_per_second: float | None  # None: nothing was stepped, the dynamics are a table

    @property
    def randomness(self) -> str:
        """In words."""
        parts = ["its start differs from episode to episode"] if self.random_start else []
        if self.stickiness:
            parts.append(f"sticky actions (the last action is repeated with probability {self.stickiness:g})")
        elif self.random_steps:
            parts.append("the outcomes of actions")
        untested = [name for name, found in self._tests if found is None]
        if untested:
            parts.append(f"not tested, because calls are slow: {' and '.join(untested)}")
        of_table = self.steps_per_second is None
        none = "none: every episode with the same actions is the same" if of_table else "none was found"
        return " and ".join(parts) or none

    @property
    def _tests(self) -> list[tuple[str, bool | None]]:
        steps = [] if self.stickiness else [("the outcomes of actions", self.random_steps)]
        return [("the start", self.random_start), *steps]

    @property
    def lines(self) -> list[str]:
        speed = (
            [] if self.steps_per_second is None else [f"  speed         {number(self.steps_per_second)} steps a second"]
        )
        return [
            f"  observations  {self.observations}",
            f"  actions       {self.actions}",
            f"  horizon       {counted(self.horizon, 'step')} ({self.horizon_is})",
            f"  randomness    {self.randomness}",
            f"  saved by      {self.saved_by}",
            *speed,
        ]


@dataclass(frozen=True)
class Probe:
    """What trying out a simulator showed."""

    random_start: bool | None  # None: there was no time for a test
    random_steps: bool | None
    steps_per_second: float
    seconds_per_reset: float


def probe(simulator: Simulator, seconds: float = SECONDS) -> Probe:
    """Play a little: does the start, do outcomes differ from seed to seed, and how long does a step take?"""
    rng, began = np.random.default_rng(0), time.monotonic()
    first = simulator.reset(0)
    seconds_per_reset = time.monotonic() - began
    _check_observation(simulator, first, first)
    random_start: bool | None = None
    random_steps: bool | None = None
    with suppress(OutOfTime), time_for_calls(seconds):
        began_resets = time.monotonic()
        for seed in range(1, SEEDS):
            shown = simulator.reset(seed)
            _check_observation(simulator, shown, first)
            random_start = not same(first, shown) or bool(random_start)
            seconds_per_reset = (time.monotonic() - began_resets) / seed
        for moment in range(MOMENTS):
            random_steps = _outcomes_differ(simulator, 3 * moment, first, rng) or bool(random_steps)
    return Probe(random_start, random_steps, _speed(simulator, rng), seconds_per_reset)


def _outcomes_differ(simulator: Simulator, steps: int, first: Any, rng: np.random.Generator) -> bool:
    """Do the same actions after so many steps have other outcomes with another seed?"""
    simulator.reset(0)
    for _ in range(steps):
        if simulator.step(int(rng.integers(simulator.num_actions)))[2]:
            simulator.reset(0)
    saved = simulator.save()
    actions = rng.integers(simulator.num_actions, size=ACTIONS).tolist()
    seen = []
    for seed in range(3):
        simulator.restore(saved, seed)
        seen.append(_play(simulator, actions, first))
    return not all(same(seen[0], other) for other in seen[1:])


def _speed(simulator: Simulator, rng: np.random.Generator, seconds: float = 0.3) -> float:
    """Steps of random play in a second."""
    simulator.reset(0)
    began, steps = time.monotonic(), 0
    while not steps or time.monotonic() - began < seconds:
        steps += 1
        if simulator.step(int(rng.integers(simulator.num_actions)))[2]:
            simulator.reset(steps)
    return steps / (time.monotonic() - began)


def _play(simulator: Simulator, actions: list[int], first: Any) -> list[tuple[Any, float, bool]]:
    played = []
    for action in actions:
        observation, reward, over = simulator.step(action)
        _check_observation(simulator, observation, first)
        played.append((observation, reward, over))
        if over:
            break
    return played


def _check_observation(simulator: Simulator, observation: Any, first: Any) -> None:
    """Raise `WorkFailed` for an observation that no agent can learn from."""
    if isinstance(observation, np.ndarray | float):
        values = np.asarray(observation)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise WorkFailed(f"{simulator.name} shows an observation with NaN in it; every number must be known")
        if np.shape(first) != values.shape:
            raise WorkFailed(
                f"{simulator.name} shows observations of shapes {np.shape(first)} and {values.shape}; all must be equal"
            )
    if isinstance(simulator, EnvSimulator):
        problem = problem_with(simulator.env.observation_space, observation)
        if problem is not None:
            raise WorkFailed(f"{simulator.name} returned an observation that {problem}")
        check_actions(simulator.env, simulator.num_actions, simulator.name)


def spaces_of(description: EnvDescription, simulator: Simulator | None) -> tuple[str, str]:
    """The observation and the action space in words."""
    if isinstance(simulator, EnvSimulator):
        return _short(simulator.env.observation_space), _short(simulator.env.action_space)
    if description.is_bridge:
        shape = "x".join(map(str, description.view().observation_shape))
        return f"pictures of {shape}", f"Discrete({description.num_actions()})"
    return "the number of the state", f"Discrete({description.num_actions()})"


def sees_pictures(description: EnvDescription, simulator: Simulator) -> bool:
    """Does the agent see pictures?"""
    if isinstance(simulator, EnvSimulator):
        shape = getattr(simulator.env.observation_space, "shape", None)
        return shape is not None and are_pictures(shape)
    return description.is_bridge and are_pictures(description.view().observation_shape)


def _short(space: Any) -> str:
    """A space without the long lists of its bounds."""
    if isinstance(space, gym.spaces.Box):
        return f"Box of shape {space.shape}, {space.dtype}"
    if isinstance(space, gym.spaces.Dict):
        return "Dict(" + ", ".join(f"{name}: {_short(part)}" for name, part in space.items()) + ")"
    text = str(space)
    return type(space).__name__ if "<" in text else text  # '<function …>' says nothing
