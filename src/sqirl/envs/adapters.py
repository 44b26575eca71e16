"""Any Gymnasium env with discrete actions as a `Game`, by the best way it offers to be saved and restored.

In order of preference: the env's own `get_state`/`set_state` (and `state_key`, if it has one), the state index of a toy_text
env, and a pickle of the whole env.
"""

from __future__ import annotations

import copy
import hashlib
import io
import math
import pickle
import random
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs.game import Game
from sqirl.envs.game_env import GameEnv
from sqirl.errors import NotEnumerable, SqirlError, WorkFailed

#: A user's env is enumerated from the state that reset(seed=SEED) gives.
SEED = 0


def as_game(make: Callable[[], gym.Env[Any, Any]], name: str) -> Game:
    """The game behind the env that `make` returns; `make` is called again whenever a fresh copy is needed."""
    env = make()
    if isinstance(env.unwrapped, GameEnv):
        return env.unwrapped.game
    if not isinstance(getattr(env, "action_space", None), gym.spaces.Discrete):
        raise NotEnumerable(
            f"{name} has actions {getattr(env, 'action_space', None)}, but only Discrete(n) can be enumerated; "
            "wrap the env so that it offers a finite list of actions"
        )
    base = env.unwrapped
    if callable(getattr(base, "get_state", None)) and callable(getattr(base, "set_state", None)):
        return OwnSnapshots(make, name)
    if is_toy_text(base):
        return ToyText(make, name)
    return WholeEnvCopies(make, name)


def is_toy_text(base: Any) -> bool:
    """Does the env carry its dynamics as `P[s][a] = [(probability, next state, reward, done), …]` and its state as `s`?

    The state is there only after a reset, so the start distribution that goes with it is asked for instead.
    """
    return isinstance(getattr(base, "P", None), dict) and hasattr(base, "initial_state_distrib")


class GymGame:
    """What the three adapters share: stepping a Gymnasium env and keeping the observation with the snapshot."""

    saved_by: str

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], name: str) -> None:
        self.name = name
        self._make = make
        self.env = make()
        space = self.env.action_space
        assert isinstance(space, gym.spaces.Discrete)
        self.num_actions = int(space.n)
        self._first_action = int(space.start)
        self._start: Any = None
        self._screen_shape: tuple[int, ...] | None = None
        self.reset()

    def reset(self) -> None:
        """Back to the first start: what an env counts across its episodes is no part of the game."""
        if self._start is not None:
            self.set_state(self._start)
            return
        with self._blaming_the_env("reset"):
            observation, _ = self.env.reset(seed=SEED)
        self._observation = copy.copy(observation)  # some envs hand out one buffer again and again
        self._start = self.get_state()

    def step(self, action: int) -> tuple[float, bool]:
        with self._blaming_the_env("step"):
            observation, reward, terminated, truncated, _ = self.env.step(action + self._first_action)
            paid = float(reward)
        if not math.isfinite(paid):
            raise WorkFailed(f"{self.name} pays a reward of {paid} for action {action}; rewards must be finite")
        self._observation = copy.copy(observation)
        return paid, bool(terminated or truncated)

    @contextmanager
    def _blaming_the_env(self, method: str) -> Iterator[None]:
        """What goes wrong inside belongs to the user's env; say so in one line."""
        try:
            yield
        except SqirlError:
            raise
        except Exception as error:
            raise WorkFailed(f"{self.name}: {method}() failed with {type(error).__name__}: {error}") from error

    def get_state(self) -> Any:
        # The observation travels with the state: an env cannot be asked for it again
        with self._blaming_the_env("get_state"):
            return self._save(), self._observation

    def bare_state(self) -> Any:
        return self.get_state()

    def set_state(self, state: Any) -> None:
        saved, self._observation = state
        with self._blaming_the_env("set_state"):
            self._restore(saved)

    def state_key(self) -> bytes:
        return fingerprint(self._save())

    def _save(self) -> Any:
        raise NotImplementedError

    def _restore(self, saved: Any) -> None:
        raise NotImplementedError

    def screen(self) -> np.ndarray | None:
        """The observation where it is one plain array (or a number); None where it has parts."""
        if isinstance(self._observation, dict | tuple | str) or self._observation is None:
            return None
        screen = np.asarray(self._observation)
        self._screen_shape = self._screen_shape or screen.shape
        if screen.dtype == object or screen.shape != self._screen_shape:
            raise NotEnumerable(
                f"{self.name} observes arrays of shapes {self._screen_shape} and {screen.shape}; one is needed"
            )
        return screen

    def render(self) -> np.ndarray | None:
        picture = self.env.render() if self.env.render_mode == "rgb_array" else None
        return picture if isinstance(picture, np.ndarray) else None

    def fresh(self) -> Game:
        return type(self)(self._make, self.name)

    def reseed(self, seed: int) -> None:
        self.env.unwrapped.np_random = np.random.default_rng(seed)

    def provenance(self) -> Mapping[str, Any]:
        module = type(self.env.unwrapped).__module__.split(".")[0]
        try:
            return {module: version(module), "seed": SEED}
        except PackageNotFoundError:
            return {"seed": SEED}


class OwnSnapshots(GymGame):
    """An env with its own `get_state` and `set_state`."""

    saved_by = "its own get_state/set_state"

    def _save(self) -> Any:
        return self.env.unwrapped.get_state()  # type: ignore[attr-defined]

    def _restore(self, saved: Any) -> None:
        self.env.unwrapped.set_state(saved)  # type: ignore[attr-defined]

    def state_key(self) -> bytes:
        own_key = getattr(self.env.unwrapped, "state_key", None)
        return fingerprint(own_key() if callable(own_key) else self._save())


class ToyText(GymGame):
    """Gymnasium's toy_text: the state is one integer, and the generator that it draws from is none of the state."""

    saved_by = "its state index"

    def _save(self) -> int:
        return int(self.env.unwrapped.s)  # type: ignore[attr-defined]

    def _restore(self, saved: int) -> None:
        self.env.unwrapped.s = saved  # type: ignore[attr-defined]


class WholeEnvCopies(GymGame):
    """Any other env: a pickle of all of it, wrappers included. Functions in it, which pickle cannot save, stay where they are."""

    saved_by = "copies of the whole env"

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], name: str) -> None:
        self._functions: list[Any] = []  # in the order in which a pickle meets them, which is the same in every copy
        super().__init__(make, name)

    def _save(self) -> bytes:
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        pickler.persistent_id = self._number_of_function  # type: ignore[method-assign]
        try:
            pickler.dump(self.env)
        except Exception as error:
            raise NotEnumerable(
                f"{self.name} cannot be copied ({type(error).__name__}: {error}); give it get_state() and set_state(state)"
            ) from error
        return buffer.getvalue()

    def _restore(self, saved: bytes) -> None:
        unpickler = pickle.Unpickler(io.BytesIO(saved))
        unpickler.persistent_load = self._functions.__getitem__  # type: ignore[method-assign]
        self.env = unpickler.load()

    def _number_of_function(self, value: Any) -> int | None:
        if not isinstance(value, types.FunctionType | types.ModuleType):
            return None
        for number, known in enumerate(self._functions):
            if known is value:
                return number
        self._functions.append(value)
        return len(self._functions) - 1

    def state_key(self) -> bytes:
        return fingerprint(self.env)


def fingerprint(value: Any) -> bytes:
    """16 bytes that are equal for equal values and, short of a hash collision, for no others.

    A pickle of equal values may differ (it notes which parts are the same object), so the value is walked instead, through what
    pickle itself would save of it. Random generators are left out: an env that is deterministic does not depend on them,
    and one that draws numbers it never uses (toy_text does) would otherwise never visit a state twice.
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest.update, value, path=())
    return digest.digest()


#: Parts of an env that say nothing about its state: they never change, or they are sources of chance.
_STATELESS = (
    gym.spaces.Space,
    gym.envs.registration.EnvSpec,
    np.random.Generator,
    np.random.RandomState,
    random.Random,
)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)


def _feed(update: Callable[[bytes], None], value: Any, path: tuple[int, ...]) -> None:
    """Write `value` unambiguously: every piece carries its type and its length, so no two values read alike."""
    kind = type(value)
    if isinstance(value, _STATELESS):
        return
    if id(value) in path:  # a cycle: how far up it leads tells it from any other
        _piece(update, "up", str(len(path) - path.index(id(value))).encode())
    elif value is None or kind in (bool, int, float, complex, str):
        _piece(update, kind.__name__, repr(value).encode())
    elif kind in (bytes, bytearray):
        _piece(update, kind.__name__, bytes(value))
    elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        _piece(update, f"array {value.dtype} {value.shape}", np.ascontiguousarray(value).tobytes())
    elif isinstance(value, _CODE):
        name = getattr(value, "__qualname__", getattr(value, "__name__", repr(kind)))
        _piece(update, "code", f"{getattr(value, '__module__', '')}.{name}".encode())
    else:
        parts = _parts(value)
        _piece(update, f"{kind.__module__}.{kind.__qualname__}", str(len(parts)).encode())
        for part in parts:
            _feed(update, part, (*path, id(value)))


def _piece(update: Callable[[bytes], None], label: str, content: bytes) -> None:
    update(f"{label}:{len(content)}:".encode() + content)


def _parts(value: Any) -> list[Any]:
    """What a container or an object consists of, in an order that does not depend on identities."""
    kind = type(value)
    if kind is dict:
        return [part for key in sorted(value, key=repr) for part in (key, value[key])]
    if kind in (set, frozenset):
        return sorted(value, key=repr)
    if kind in (list, tuple) or isinstance(value, np.ndarray):
        return list(value.ravel()) if isinstance(value, np.ndarray) else list(value)
    try:
        _, arguments, state, items, pairs = (*value.__reduce_ex__(4), None, None, None)[:5]
    except TypeError as error:
        raise NotEnumerable(
            f"a {kind.__module__}.{kind.__qualname__} inside the env cannot be looked into ({error}); "
            "give the env get_state(), set_state(state) and state_key()"
        ) from error
    if isinstance(state, dict):  # what Gymnasium notes of its generator is no more state than the generator
        state = {name: part for name, part in state.items() if name not in ("_np_random", "_np_random_seed")}
    return [arguments, state, list(items or ()), list(pairs or ())]
