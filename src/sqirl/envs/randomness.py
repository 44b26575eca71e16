"""The random generators that an env may draw from: those inside it, and the global ones of Python and numpy."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs.game import Game

#: How deep inside an env its generators are looked for: env, part of the env, part of a part.
_DEPTH = 3


@contextmanager
def global_randomness(seed: int) -> Iterator[None]:
    """Seed the global generators of Python and numpy while inside, and leave them as they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (envs may use these)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def step_with_seed(game: Game, state: Any, action: int, seed: int) -> tuple[float, bool]:
    """(reward, game over) of an action in a state, with all randomness from the seed."""
    game.set_state(state)
    with global_randomness(seed):
        game.reseed(seed)
        return game.step(action)


def reseed_all(env: gym.Env[Any, Any], seed: int) -> None:
    """Give every generator inside the env a state that follows from the seed."""
    for number, generator in enumerate(_generators(env, _DEPTH, set())):
        if isinstance(generator, np.random.Generator):
            fresh = np.random.Generator(type(generator.bit_generator)([seed, number]))
            generator.bit_generator.state = fresh.bit_generator.state
        else:
            generator.seed((seed + number) % 2**32)


def generator_states(env: gym.Env[Any, Any]) -> bytes:
    """The states of the generators inside the env and of the global ones: they change when a random number is drawn."""
    states = [_state_of(generator) for generator in _generators(env, _DEPTH, set())]
    return pickle.dumps([*states, random.getstate(), np.random.get_state()])  # noqa: NPY002


def reset_draws(env: gym.Env[Any, Any], seed: int) -> bool:
    """Did the reset with this seed, which has just been made, draw from the env's own generator?"""
    fresh = gym.utils.seeding.np_random(seed)[0]
    return pickle.dumps(_state_of(fresh)) != pickle.dumps(_state_of(env.unwrapped.np_random))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def _generators(value: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    """The generators in a value, its attributes and its items, in an order that is the same in every copy."""
    if isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
        yield value
        return
    if depth == 0 or id(value) in seen or isinstance(value, str | bytes | int | float | np.ndarray | gym.spaces.Space):
        return
    seen.add(id(value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    for part in parts if parts is not None else getattr(value, "__dict__", {}).values():
        yield from _generators(part, depth if isinstance(value, gym.Wrapper) else depth - 1, seen)
