"""Envs that a user may bring to `sqirl diagnose`: good, odd and hostile ones."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    """A corridor of six cells with a Dict observation; the last cell pays 1 and ends the episode."""

    action_space: Any = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Dict({"cell": gym.spaces.Discrete(6), "more": gym.spaces.Box(0, 1, (2,))})
    render_mode = None

    def look(self) -> Any:
        return {"cell": self.cell, "more": np.array([self.cell / 6, 0.0], np.float32)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.cell = 0
        return self.look(), {}

    def step(self, action: int):
        self.cell = max(self.cell + (1 if action else -1), 0)
        return self.look(), float(self.cell == 5), self.cell == 5, False, {}


class Slips(Walk):
    def step(self, action: int):
        return super().step(action if self.np_random.random() < 0.8 else 1 - action)


class StartsAnywhere(Walk):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(5))
        return self.look(), {}


class OwnGenerator(Walk):
    """Draws from a generator of its own, which it seeds in reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self.dice = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def step(self, action: int):
        return super().step(action if self.dice.random() < 0.8 else 1 - action)


class Uncopyable(Walk):
    def __deepcopy__(self, memo: Any):
        raise TypeError("holds a licence")

    def __reduce_ex__(self, protocol: Any):
        raise TypeError("holds a licence")


class Saves(Walk):
    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        self.cell = state


class Counts(Walk):
    """Counts its steps. What the last cell pays falls with them."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self.elapsed = 0
        return super().reset(seed=seed)

    def step(self, action: int):
        self.elapsed += 1
        seen, reward, over, cut, more = super().step(action)
        return seen, reward * (1 - self.elapsed / 10_000), over, cut, more


class PaysLate(Counts):
    """Pays for action 1 in its third step only: without the counter there is nothing to earn."""

    def step(self, action: int):
        seen, _, over, cut, more = super().step(action)
        return seen, float(self.elapsed == 3 and action == 1), over, cut, more


class Alternate(gym.Env):
    """Pays for 1, 0, 1, 0, … and always looks the same after the start: the action depends on the clock, or on what was seen."""

    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(3)
    render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.turn = 0
        return 0, {}

    def step(self, action: int):
        reward = float(action == (self.turn + 1) % 2)
        self.turn = (self.turn + 1) % 2
        return 0, reward, False, False, {}


class Crossroads(gym.Env):
    """The first action decides where the agent is, but the two places look the same and need different second actions."""

    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(3)
    render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.place = int(seed or 0) % 1
        return 0, {}

    def step(self, action: int):
        if self.place == 0:
            self.place = 1 + action
            return 1, 0.0, False, False, {}
        return 2, float(action == self.place - 1), True, False, {}


class Raises(Walk):
    def step(self, action: int):
        raise RuntimeError("engine crashed")


class NeverEnds(Walk):
    def step(self, action: int):
        self.cell = (self.cell + 1) % 5
        return self.look(), 0.0, False, False, {}


class BadReward(Walk):
    def step(self, action: int):
        return self.look(), float("nan"), False, False, {}


class BadObservation(Walk):
    def look(self) -> Any:
        return np.array([np.nan], np.float32)


class BoxActions(Walk):
    action_space = gym.spaces.Box(-1, 1, (2,))


class ChangesSpaces(Walk):
    def step(self, action: int):
        self.action_space = gym.spaces.Discrete(3)
        return super().step(action)


class Lies(Walk):
    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        pass


class HalfRestored(Walk):
    """Its set_state goes to an even cell."""

    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        self.cell = state // 2 * 2


class KeyedWalk(Walk):
    """Begins in cell 2; cell 0 has a key, and with it the last cell pays 1, else 0.1: 4 states without the key and 5 with it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.cell, self.key = 2, False
        return self.look(), {}

    def step(self, action: int):
        seen, reward, over, cut, more = super().step(action)
        self.key = self.key or self.cell == 0
        return seen, reward * (1.0 if self.key else 0.1), over, cut, more


class ForgetsTheKey(KeyedWalk):
    """Its get_state leaves out the key."""

    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        self.cell = state


class Slow(Walk):
    """A step takes a tenth of a second."""

    def step(self, action: int):
        time.sleep(0.1)
        return super().step(action)


class SlowAndLong(Slow):
    """Its episodes do not end before the horizon."""

    def step(self, action: int):
        seen, reward, _, cut, more = super().step(action)
        return seen, reward, False, cut, more


class GrowsInEpisodeThree(Walk):
    """Its observations have three numbers from the third episode on."""

    episodes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self.episodes += 1
        return super().reset(seed=seed)

    def look(self) -> Any:
        return np.zeros(3 if self.episodes > 2 else 2, np.float32)


class SlipsRarely(Walk):
    """One action of one cell has another outcome once in fifty times."""

    def step(self, action: int):
        if self.cell == 2 and action == 1 and self.np_random.random() < 0.02:
            self.cell = 0
            return self.look(), -100.0, True, False, {}
        return super().step(action)


class DrawsIdly(Walk):
    """Draws a random number that changes nothing."""

    def step(self, action: int):
        self.np_random.random()
        return super().step(action)


class StartsRarelyElsewhere(Walk):
    """One episode in fifty starts in another cell."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.cell = 3 if self.np_random.random() < 0.02 else 0
        return self.look(), {}


class Lock(gym.Env):
    """Twelve digits must be right, one after the other, and each has four values."""

    action_space, observation_space = gym.spaces.Discrete(4), gym.spaces.Discrete(14)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.digit = 0
        return 0, {}

    def step(self, action: int):
        if action != 7 * self.digit % 4:
            return 13, 0.0, True, False, {}
        self.digit += 1
        return self.digit, float(self.digit == 12), self.digit == 12, False, {}


class OutsideItsSpace(Walk):
    """Shows numbers that its observation space does not have."""

    observation_space = gym.spaces.Discrete(2)

    def look(self) -> Any:
        return self.cell
