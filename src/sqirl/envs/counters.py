"""Step counters inside an env. With one, every step leads to a new state, and an enumeration grows with the horizon.

`step_counters` finds them. `HeldAttributes` holds them at their value of the start. That changes the env if its rewards or ends
depend on them. It is done where the user asks for it (`--hold NAME`), and by `diagnose` where the states cannot be listed
otherwise (`--no-hold` forbids it). Every result says it.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from sqirl.envs.game import Game
from sqirl.errors import NotEnumerable

#: Steps of a walk that a counter must count one by one, and how many walks.
_COUNTED, _WALKS = 6, 3


class HeldAttributes(gym.Wrapper[Any, Any, Any, Any]):
    """The env with some attributes set back to their value of the start after every step.

    :param env: the env
    :param held: names of attributes of `env.unwrapped`
    """

    def __init__(self, env: gym.Env[Any, Any], held: tuple[str, ...]) -> None:
        super().__init__(env)
        self.held = held
        self._values: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        for name in self.held:
            if not hasattr(self.unwrapped, name):
                raise NotEnumerable(f"the env has no attribute '{name}' to hold; see `sqirl check` for its counters")
            self._values[name] = getattr(self.unwrapped, name)
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        for name, value in self._values.items():
            setattr(self.unwrapped, name, value)
        return result


def step_counters(game: Game) -> list[str]:
    """Attributes of a user's env that count the steps of an episode and are part of its state."""
    env = getattr(game, "env", None)
    if not isinstance(env, gym.Env):
        return []
    rng = np.random.default_rng(0)
    counting: set[str] | None = None
    for _ in range(_WALKS):
        game.reset()
        before = _integers(game)
        for _ in range(_COUNTED):
            over = game.step(int(rng.integers(game.num_actions)))[1]
            after = _integers(game)
            stepped = {name for name, value in after.items() if name in before and value == before[name] + 1}
            counting = stepped if counting is None else counting & stepped
            before = after
            if over or not counting:
                break
    return [name for name in sorted(counting or ()) if _is_in_key(game, name)]


def _integers(game: Any) -> dict[str, int]:
    return {name: value for name, value in vars(game.env.unwrapped).items() if type(value) is int}


def _is_in_key(game: Any, name: str) -> bool:
    """Does the key of the state change with the attribute?"""
    game.reset()
    base, key = game.env.unwrapped, game.state_key()
    value = getattr(base, name)
    setattr(base, name, value + 1)
    changed: bool = game.state_key() != key
    setattr(base, name, value)
    return changed
