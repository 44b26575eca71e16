"""Observations of any fixed size as one vector: dicts, tuples, texts, and numbers that do not start at 0.

Networks of Stable-Baselines3 and of SQIRL take one array. Numbers out of a few are coded as one-hot vectors, as Stable-Baselines3
codes them. Pictures are divided by 255; smaller arrays of bytes are codes of a grid, as in MiniGrid, and stay as they are. The
words of a text are counted, each in a few places that its hash says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.calls import env_errors
from sqirl.errors import EnvFailed

#: Numbers that a text becomes, and how many of them count one word.
TEXT_NUMBERS, TEXT_PLACES = 64, 4
#: Arrays of bytes with three axes and sides of at least so many pixels are pictures.
SMALLEST_PICTURE = 36
#: Numbers of an observation, at most.
LONGEST_VECTOR = 10_000_000

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """One part of an observation: what it is called, how many numbers it becomes, and how."""

    name: str
    size: int
    encode: Callable[[Any], Any]
    words: str


class AsVector(gym.ObservationWrapper[Any, Any, Any]):
    """The env with its observations as one vector of float32."""

    def __init__(self, env: gym.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._name = name
        self._parts = list(_parts_of(env.observation_space, "", name))
        self._size = sum(part.size for part in self._parts)
        if not 1 <= self._size <= LONGEST_VECTOR:
            raise EnvFailed(
                f"{name} shows {self._size:,} numbers; an agent can learn from 1 to {LONGEST_VECTOR:,}; wrap the env"
            )
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self._size,), np.float32)

    @property
    def description(self) -> str:
        """'147 of image, 4 of direction (one-hot), 64 of mission (text)'."""
        return ", ".join(
            f"{part.size}{f' of {part.name}' if part.name else ''}{f' ({part.words})' if part.words else ''}"
            for part in self._parts
        )

    def observation(self, observation: Any) -> Vector:
        with env_errors(self._name, "step"):
            values = list(_values_of(self.env.observation_space, observation))
            encoded = [part.encode(value) for part, value in zip(self._parts, values, strict=True)]
            return np.concatenate([np.asarray(each, np.float32).ravel() for each in encoded])


def needs_vector(space: gym.Space[Any]) -> bool:
    """Do networks not take the space as it is?"""
    if isinstance(space, gym.spaces.Discrete):
        return bool(space.start)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return len(space.shape) > 1 or bool(np.any(space.start))
    if isinstance(space, gym.spaces.Box):
        return space.shape == ()
    return not isinstance(space, gym.spaces.MultiBinary) or len(space.shape) > 1


def _parts_of(space: gym.Space[Any], name: str, env: str) -> Iterator[Part]:
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        for key, part in _named(space):
            yield from _parts_of(part, f"{name}.{key}" if name else str(key), env)
    elif isinstance(space, gym.spaces.Box):
        factor = 1 / 255 if _is_picture(space) else 1.0
        words = "divided by 255" if factor < 1 else ""
        yield Part(name, int(np.prod(space.shape)), lambda value: np.asarray(value, np.float32) * factor, words)
    elif isinstance(space, gym.spaces.Discrete):
        first, n = int(space.start), int(space.n)
        yield Part(name, n, lambda value: _one_hot(np.array([int(value) - first]), [n]), "one-hot")
    elif isinstance(space, gym.spaces.MultiDiscrete):
        sizes, starts = space.nvec.ravel().tolist(), np.ravel(space.start)
        yield Part(name, sum(sizes), lambda value: _one_hot(np.ravel(value) - starts, sizes), "one-hot")
    elif isinstance(space, gym.spaces.MultiBinary):
        yield Part(name, int(np.prod(space.shape)), lambda value: value, "")
    elif _is_text(space):
        yield Part(name, TEXT_NUMBERS, text_vector, "text")
    else:
        raise EnvFailed(
            f"{env} shows {name or 'observations'} as {space}, which has no fixed size; wrap the env so that it shows an array"
        )


def _named(space: gym.spaces.Dict | gym.spaces.Tuple[Any]) -> list[tuple[Any, gym.Space[Any]]]:
    return list(space.spaces.items() if isinstance(space, gym.spaces.Dict) else enumerate(space.spaces))


def _values_of(space: gym.Space[Any], value: Any) -> Iterator[Any]:
    """The values of the parts, in their order."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        for key, part in _named(space):
            yield from _values_of(part, value[key])
    else:
        yield value


def _one_hot(digits: NDArray[Any], sizes: list[int]) -> Vector:
    vector = np.zeros(sum(sizes), np.float32)
    vector[np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int) + digits.astype(int)] = 1
    return vector


def _is_picture(space: gym.spaces.Box) -> bool:
    return space.dtype == np.uint8 and len(space.shape) == 3 and min(sorted(space.shape)[1:]) >= SMALLEST_PICTURE


def _is_text(space: gym.Space[Any]) -> bool:
    """Gymnasium's Text, or a space of texts that is not one of Gymnasium's, as MiniGrid's missions."""
    return isinstance(space, gym.spaces.Text) or type(space).__name__ == "MissionSpace"


def text_vector(text: str) -> Vector:
    """(TEXT_NUMBERS,) how often the words of a text occur, each in the places that its hash says."""
    vector = np.zeros(TEXT_NUMBERS, np.float32)
    for word in str(text).split():
        for byte in hashlib.blake2b(word.encode(), digest_size=TEXT_PLACES).digest():
            vector[byte % TEXT_NUMBERS] += 1
    return vector


def problem_with(space: gym.Space[Any], value: Any) -> str | None:
    """What is wrong with an observation of this space, as the end of a sentence; None if nothing is."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return _problem_with_parts(space, value)
    if _is_text(space):
        return None if isinstance(value, str) else f"is {type(value).__name__}, not a text"
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return "is no array: its parts have different lengths"
    shape = () if isinstance(space, gym.spaces.Discrete) else space.shape
    if array.shape != shape:
        return f"has the shape {array.shape}, but its observation_space says {shape}"
    if array.dtype.kind not in "biuf":
        return f"holds {array.dtype} values, not numbers"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return "contains NaN or infinite numbers; every number must be known"
    if isinstance(space, gym.spaces.Box):
        return None
    return None if space.contains(array.astype(space.dtype)) else f"is {value}, outside of {space}"


def _problem_with_parts(space: gym.spaces.Dict | gym.spaces.Tuple[Any], value: Any) -> str | None:
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            shown = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            return f"is {shown}, but its observation_space is a dict of {sorted(space.spaces)}"
    elif not isinstance(value, tuple | list) or len(value) != len(space.spaces):
        return f"is no tuple of {len(space.spaces)} parts"
    for key, part in _named(space):
        problem = problem_with(part, value[key])
        if problem is not None:
            return f"{problem} (in its part {key!r})"
    return None
