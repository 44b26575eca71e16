"""Whether an env is saved by its own `get_state` and `set_state`, which may be wrong."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

#: An env with this attribute is saved in another way.
_DISTRUSTED = "sqirl_distrusts_its_states"


def saves_itself(env: gym.Env[Any, Any]) -> bool:
    """Does the env have `get_state` and `set_state`, and are they not distrusted?"""
    base = env.unwrapped
    own = all(callable(getattr(base, method, None)) for method in ("get_state", "set_state"))
    return own and not is_distrusted(env)


def is_distrusted(env: gym.Env[Any, Any]) -> bool:
    return hasattr(env.unwrapped, _DISTRUSTED)


def distrusted(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The env, marked so that its own get_state and set_state are not used."""
    setattr(env.unwrapped, _DISTRUSTED, True)
    return env
