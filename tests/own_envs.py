"""Small envs with every kind of space, for `train`, `watch` and `tune`: a corridor of five cells with a reward at its end."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

LENGTH, HORIZON = 5, 8
BACK, FORTH = 0, 1


class Walk(gym.Env[Any, Any]):
    """Action 1 goes to the right; the last cell pays 1 and ends the episode. The optimal return is 1."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}
    observation_space: gym.Space[Any] = gym.spaces.Discrete(LENGTH)
    action_space: gym.Space[Any] = gym.spaces.Discrete(2)
    max_steps: int | None = HORIZON

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = min(LENGTH - 1, max(0, self.x + (1 if self.goes_right(action) else -1)))
        done = self.x == LENGTH - 1
        return self.seen(), float(done), done, False, {}

    def seen(self) -> Any:
        return self.x

    def goes_right(self, action: Any) -> bool:
        return bool(action == 1)

    def render(self) -> Any:
        picture = np.full((8, 8 * LENGTH, 3), 255, np.uint8)
        picture[:, 8 * self.x : 8 * self.x + 8] = (200, 30, 30)
        return picture


class FirstActionIsOne(Walk):
    action_space = gym.spaces.Discrete(2, start=1)

    def goes_right(self, action: Any) -> bool:
        assert action in (1, 2)
        return bool(action == 2)


class MultiDiscreteActions(Walk):
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def goes_right(self, action: Any) -> bool:
        return bool(action[0] == 1 and action[1] == 2)


class BinaryActions(Walk):
    action_space = gym.spaces.MultiBinary(2)

    def goes_right(self, action: Any) -> bool:
        return bool(action[0] and action[1])


class DictActions(Walk):
    action_space = gym.spaces.Dict(go=gym.spaces.Discrete(2), hold=gym.spaces.Discrete(2, start=3))

    def goes_right(self, action: Any) -> bool:
        return bool(action["go"] == 1 and action["hold"] == 3)


class TupleActions(Walk):
    action_space = gym.spaces.Tuple((gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 2])))

    def goes_right(self, action: Any) -> bool:
        return bool(action[0] == 1 and action[1][1] == 1)


class ManyActions(Walk):
    action_space = gym.spaces.MultiBinary(20)


class DictObservations(Walk):
    observation_space = gym.spaces.Dict(
        grid=gym.spaces.Box(0, 255, (3, 3, 1), np.uint8), cell=gym.spaces.Discrete(LENGTH), task=gym.spaces.Text(20)
    )

    def seen(self) -> Any:
        return {"grid": np.full((3, 3, 1), self.x, np.uint8), "cell": self.x, "task": "go right"}


class TupleObservations(Walk):
    observation_space = gym.spaces.Tuple((gym.spaces.Discrete(LENGTH, start=1), gym.spaces.Box(0, 9, (1,))))

    def seen(self) -> Any:
        return self.x + 1, np.array([self.x], np.float32)


class TextObservations(Walk):
    observation_space = gym.spaces.Text(20)

    def seen(self) -> Any:
        return f"cell {'abcde'[self.x]}"


class CellsFromOne(Walk):
    observation_space = gym.spaces.Discrete(LENGTH, start=1)

    def seen(self) -> Any:
        return self.x + 1


class SequenceObservations(Walk):
    observation_space = gym.spaces.Sequence(gym.spaces.Discrete(3))

    def seen(self) -> Any:
        return (1,) * self.x
