"""A `Game` as a finite-horizon Gymnasium environment, with or without sticky actions."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs.game import Game
from sqirl.envs.view import View


class GameEnv(gym.Env[np.ndarray, int]):
    """Plays a game for at most `horizon` steps; `view` says what an agent observes.

    Reaching the horizon is `terminated`, not `truncated`: the MDP is finite-horizon, so nothing may bootstrap past its end.
    With `stickiness` p, every step but the first repeats the action executed before it with probability p;
    `info["executed_action"]` tells what was played. All randomness comes from the seed given to `reset`: the same seed
    gives the same episode, and a reset without a seed goes on with the same generator.
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
        self.action_space: Any = gym.spaces.Discrete(game.num_actions)
        self.observation_space = gym.spaces.Box(0, 255, view.observation_shape, np.uint8)
        self._frames: deque[np.ndarray] = deque(maxlen=view.stacked)
        self.t = 0
        self._executed: int | None = None
        game.reset()

    def _observe(self) -> np.ndarray:
        """What the agent sees of the current state, the last ones, and the time."""
        screen = self.game.screen()
        assert screen is not None
        if self.t == 0:
            self._frames.extend([np.zeros(self.view.frame_shape, np.uint8)] * self.view.stacked)
        self._frames.append(self.view.frame_of(screen))
        time_left = np.array([(self.horizon - self.t) / self.horizon])
        return self.view.assemble(np.stack(self._frames)[None], time_left)[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.game.reset()
        self.t = 0
        self._executed = None
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        executed = int(action)
        if self._executed is not None and self.stickiness and self.np_random.random() < self.stickiness:
            executed = self._executed
        reward, over = self.game.step(executed)
        self.t += 1
        self._executed = executed
        terminated = over or self.t >= self.horizon
        return self._observe(), reward, terminated, False, {"executed_action": executed}

    def render(self) -> np.ndarray | None:
        return self.game.render() if self.render_mode == "rgb_array" else None

    def get_state(self) -> Any:
        """Everything that the episode's future depends on, the generator of sticky actions included."""
        return self.game.get_state(), self.t, self._executed, self.np_random.bit_generator.state, tuple(self._frames)

    def set_state(self, state: Any) -> None:
        game_state, self.t, self._executed, generator, frames = state
        self.game.set_state(game_state)
        self._frames.extend(frames)
        self.np_random.bit_generator.state = generator
