"""Envs of a user's own, good and bad."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Corridor(gym.Env):
    """Walk right along n cells; the last one pays. No snapshots of its own: it is copied whole."""

    action_space = gym.spaces.Discrete(2)
    render_mode = None

    def __init__(self, length: int = 6) -> None:
        self.length = length
        self.observation_space = gym.spaces.Discrete(length)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def outcome(self, action: int) -> tuple[int, float]:
        cell = min(max(self.cell + (1 if action else -1), 0), self.length - 1)
        return cell, float(cell == self.length - 1)

    def step(self, action: int):
        self.cell, reward = self.outcome(action)
        return self.cell, reward, self.cell == self.length - 1, False, {}


class CorridorWithSnapshots(Corridor):
    """The same with its own get_state and set_state."""

    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        self.cell = state


class Slippery(Corridor):
    """Stochastic: slips back half of the time."""

    def outcome(self, action: int) -> tuple[int, float]:
        return super().outcome(action if self.np_random.random() < 0.5 else 0)


class IdleRandom(Corridor):
    """Draws random numbers that change nothing."""

    def outcome(self, action: int) -> tuple[int, float]:
        self.np_random.random()
        return super().outcome(action)


class ForgetfulKey(CorridorWithSnapshots):
    """A key that leaves out whether the lever was pulled, on which the reward depends."""

    def reset(self, **kwargs: Any):
        self.visits = 0
        return super().reset(**kwargs)

    def outcome(self, action: int) -> tuple[int, float]:
        self.visits += 1
        cell, reward = super().outcome(action)
        return cell, reward + 0.125 * (self.visits % 2)

    def get_state(self) -> tuple[int, int]:
        return self.cell, self.visits

    def set_state(self, state: tuple[int, int]) -> None:
        self.cell, self.visits = state

    def state_key(self) -> int:
        return self.cell


class HiddenGlobal(CorridorWithSnapshots):
    """Depends on something outside its state: the number of steps ever taken."""

    steps = 0

    def outcome(self, action: int) -> tuple[int, float]:
        HiddenGlobal.steps += 1
        cell, reward = super().outcome(action)
        return cell, reward + (HiddenGlobal.steps % 7 == 0)


class Unpicklable(Corridor):
    """Cannot be copied at all."""

    def __init__(self) -> None:
        super().__init__()
        self.handle = open(__file__)  # noqa: SIM115

    def __deepcopy__(self, memo: Any):
        raise TypeError("holds an open file")


class Continuous(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


def not_an_env() -> int:
    return 3


def broken() -> gym.Env:
    raise RuntimeError("no licence file")


class Serial(gym.Env):
    """Shows a number that it never shows again, and pays that number for the next action."""

    observation_space, action_space = gym.spaces.Box(0, 1e6, (1,), np.float32), gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.serial = 0

    def _show(self) -> np.ndarray:
        self.serial += 1
        return np.array([self.serial], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action):
        reward = float(self.serial)
        return self._show(), reward, False, False, {}
