"""Envs that are wrong, each in one way: what `train` and `watch` must refuse with one line."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import gymnasium as gym
import numpy as np

from own_envs import Walk

Vector = gym.spaces.Box(-1, 1, (3,), np.float32)


class Hostile(Walk):
    """Correct until step 5; a subclass replaces what is returned from then on."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        good = super().step(action)
        return self.bad(*good) if self.steps >= 5 else good

    def bad(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        return observation, reward, terminated, truncated, info


class RaisesInStep(Hostile):
    def bad(self, *good: Any) -> Any:
        raise KeyError("lost")


class RaisesManyLines(Hostile):
    def bad(self, *good: Any) -> Any:
        raise RuntimeError("first line\nsecond line\nthird line")


class RaisesNothingToSay(Hostile):
    def bad(self, *good: Any) -> Any:
        raise AssertionError


class RaisesInReset(Walk):
    def reset(self, **_: Any) -> Any:
        raise ValueError("no level")


class RaisesInInit(Walk):
    def __init__(self) -> None:
        raise OSError("no such level")


class ExitsInStep(Hostile):
    def bad(self, *good: Any) -> Any:
        sys.exit(0)


class ExitsInReset(Walk):
    def reset(self, **_: Any) -> Any:
        sys.exit(3)


class ExitsInInit(Walk):
    def __init__(self) -> None:
        sys.exit(0)


class NaNReward(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return (observation, float("nan"), *rest)


class InfiniteReward(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return (observation, float("-inf"), *rest)


class HugeReward(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return (observation, 1e308, *rest)


class RewardOfText(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return (observation, "much", *rest)


class NoReward(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return (observation, None, *rest)


class RewardVector(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return (observation, np.array([1.0, 2.0]), *rest)


class EndVector(Hostile):
    def bad(self, observation: Any, reward: Any, *rest: Any) -> Any:
        return observation, reward, np.array([True, False]), False, {}


class OldStep(Hostile):
    def bad(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        return observation, reward, terminated, info


class OldReset(Walk):
    def reset(self, **_: Any) -> Any:
        self.x = 0
        return 0


class OldResetWithoutSeed(Walk):
    def reset(self) -> Any:  # type: ignore[override]
        self.x = 0
        return 0


class StepReturnsNothing(Hostile):
    def bad(self, *good: Any) -> Any:
        return None


class NoInfo(Hostile):
    def bad(self, *good: Any) -> Any:
        return (*good[:4], None)


class OutsideOfItsSpace(Hostile):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return (99, *rest)


class Vectors(Hostile):
    observation_space = Vector

    def seen(self) -> Any:
        return np.zeros(3, np.float32)


class WrongShape(Vectors):
    def seen(self) -> Any:
        return np.zeros(4, np.float32)


class WrongShapeLater(Vectors):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return (np.zeros((3, 1), np.float32), *rest)


class NaNObservation(Vectors):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return (np.array([0, np.nan, 0], np.float32), *rest)


class InfiniteObservation(Vectors):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return (np.array([0, np.inf, 0], np.float32), *rest)


class TextForNumbers(Vectors):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return (["a", "b", "c"], *rest)


class Ragged(Vectors):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return ([1, [2, 3]], *rest)


class NoObservation(Vectors):
    def bad(self, observation: Any, *rest: Any) -> Any:
        return (None, *rest)


class MissingPart(Hostile):
    observation_space = gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Discrete(2))

    def seen(self) -> Any:
        return {"a": 0}


class BadPart(Hostile):
    observation_space = gym.spaces.Dict(a=gym.spaces.Discrete(2), b=Vector)

    def seen(self) -> Any:
        return {"a": 0, "b": np.zeros(2)}


class NumberForText(Hostile):
    observation_space = gym.spaces.Text(5)

    def seen(self) -> Any:
        return 7


class EmptyObservation(Hostile):
    observation_space = gym.spaces.Dict({})

    def seen(self) -> Any:
        return {}


class HugeObservation(Hostile):
    observation_space = gym.spaces.Dict(a=gym.spaces.MultiDiscrete([10**8, 10**8]))

    def seen(self) -> Any:
        return {"a": np.array([1, 1])}


class ChangesObservations(Walk):
    def reset(self, **given: Any) -> Any:
        self.observation_space = gym.spaces.Discrete(7)
        return super().reset(**given)


class ChangesActions(Walk):
    def reset(self, **given: Any) -> Any:
        self.action_space = gym.spaces.Discrete(3)
        return super().reset(**given)


class NoSpaces(gym.Env[Any, Any]):
    def reset(self, **_: Any) -> Any:
        return 0, {}


class SpaceIsANumber(Walk):
    observation_space: Any = 5


class NeverEnds(Walk):
    max_steps = None

    def step(self, action: Any) -> Any:
        return 0, 0.0, False, False, {}


class ContinuousActions(Walk):
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


class Unpicklable(Walk):
    """Correct, but it cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class BreaksLater(Walk):
    """Correct until the variable BREAKS is set."""

    def step(self, action: Any) -> Any:
        if os.environ.get("BREAKS"):
            raise RuntimeError("broken since")
        return super().step(action)
