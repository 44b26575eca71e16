"""A `Game` as a finite-horizon Gymnasium environment, with or without sticky actions."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.game import Game
from sqirl.envs.view import View


class GameEnv(gym.Env[NDArray[np.uint8], int]):
    """A game as an environment with episodes of at most `horizon` steps.

    An episode that reaches the horizon is `terminated`, not `truncated`: the MDP has a finite horizon, and no algorithm may
    bootstrap past its end. If the attribute `truncates` is set, it is `truncated`. With sticky actions, every step but the first
    repeats the previously executed action with probability `stickiness`; `info["executed_action"]` is the action that was
    executed. All randomness comes from the seed given to `reset`. The same seed gives the same episode. A reset without a seed
    continues with the same random generator.

    :param game: the game to play
    :param view: how screens of the game become observations
    :param horizon: the largest number of steps of an episode
    :param stickiness: probability of repeating the previous action
    :param render_mode: None or "rgb_array"
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's convention)

    def __init__(
        self, game: Game, view: View, *, horizon: int, stickiness: float = 0.0, render_mode: str | None = None
    ) -> None:
        self.game = game
        self.view = view
        self.horizon = horizon
        self.stickiness = stickiness
        self.render_mode = render_mode
        self.truncates = False
        self.action_space: Any = gym.spaces.Discrete(game.num_actions)
        self.observation_space = gym.spaces.Box(0, 255, view.observation_shape, np.uint8)
        self._frames: deque[NDArray[np.uint8]] = deque(maxlen=view.stacked)
        self.t = 0
        self._executed: int | None = None
        game.reset()

    def _observe(self) -> NDArray[np.uint8]:
        """(*observation_shape): made of the last frames and the remaining time."""
        screen = self.game.screen()
        assert screen is not None
        if self.t == 0:
            self._frames.extend([np.zeros(self.view.frame_shape, np.uint8)] * self.view.stacked)
        self._frames.append(self.view.frame_of(screen))
        time_left = np.array([(self.horizon - self.t) / self.horizon])
        observation: NDArray[np.uint8] = self.view.assemble(np.stack(self._frames)[None], time_left)[0]
        return observation

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.game.reset()
        self.t = 0
        self._executed = None
        return self._observe(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        executed = int(action)
        if self._executed is not None and self.stickiness and self.np_random.random() < self.stickiness:
            executed = self._executed
        reward, over = self.game.step(executed)
        self.t += 1
        self._executed = executed
        late = not over and self.t >= self.horizon
        terminated, truncated = over or (late and not self.truncates), late and self.truncates
        return self._observe(), reward, terminated, truncated, {"executed_action": executed}

    def render(self) -> NDArray[Any] | None:
        return self.game.render() if self.render_mode == "rgb_array" else None

    def get_state(self) -> Any:
        """The whole state of the episode, with the random generator of sticky actions."""
        return self.game.get_state(), self.t, self._executed, self.np_random.bit_generator.state, tuple(self._frames)

    def set_state(self, state: Any) -> None:
        game_state, self.t, self._executed, generator, frames = state
        self.game.set_state(game_state)
        self._frames.extend(frames)
        self.np_random.bit_generator.state = generator
