"""Adapters that make a `Game` of any Gymnasium env with discrete actions.

There are four ways to save and restore an env. In order of preference: the env's own `get_state` and `set_state` (and
`state_key`, if it has one), the state index of a toy_text env, the state of an Atari emulator, and a pickle of the whole env.
"""

from __future__ import annotations

import copy
import hashlib
import io
import pickle
import random
import sys
import types
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from sqirl.envs.actions import check_enumerable, discrete_actions
from sqirl.envs.calls import env_errors, finite_reward
from sqirl.envs.counters import HeldAttributes
from sqirl.envs.game import Game
from sqirl.envs.game_env import GameEnv
from sqirl.envs.own_states import saves_itself
from sqirl.envs.randomness import global_randomness, reseed_all
from sqirl.errors import NotEnumerable

#: A user's env is enumerated from the state after reset(seed=SEED).
SEED = 0
#: Fingerprints that are remembered, at most.
REMEMBERED_KEYS = 200_000


def as_game(make: Callable[[], gym.Env[Any, Any]], name: str) -> Game:
    """The env that `make` returns, as a game.

    :param make: makes the env; it is called again for every further copy
    :param name: the name of the env in error messages
    """
    make = _with_discrete_actions(make)
    env = make()
    if isinstance(env.unwrapped, GameEnv):
        return env.unwrapped.game
    check_enumerable(env, name)
    base = env.unwrapped
    if saves_itself(env):
        return OwnSnapshots(make, name)
    if is_toy_text(base):
        return ToyText(make, name)
    if env is base and hasattr(base, "ale") and callable(getattr(base.ale, "cloneState", None)):
        return EmulatorStates(make, name)
    if isinstance(base, EzPickle):
        raise NotEnumerable(
            f"{name} cannot be copied: its class is an EzPickle, whose copies start anew; "
            "give it get_state() and set_state(state)"
        )
    return WholeEnvCopies(make, name)


def _with_discrete_actions(make: Callable[[], gym.Env[Any, Any]]) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: discrete_actions(make())


def is_toy_text(base: Any) -> bool:
    """Does the env store its dynamics as `P[s][a] = [(probability, next state, reward, done), …]` and its state as `s`?

    The attribute `s` exists only after a reset, so this checks for the distribution of start states instead.
    """
    return isinstance(getattr(base, "P", None), dict) and hasattr(base, "initial_state_distrib")


def show_pictures(env: gym.Env[Any, Any]) -> None:
    """Let `env.render()` return pictures, if the env can draw them, also where it was made without a render_mode."""
    base = env.unwrapped
    if base.render_mode is None and "rgb_array" in (base.metadata or {}).get("render_modes", ()):
        base.render_mode = "rgb_array"


class GymGame:
    """The base class of the three adapters: it steps a Gymnasium env and stores the observation with each state."""

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
        self._painter: GymGame | None = None
        self.reset()

    def reset(self) -> None:
        """Restore the start state of the first reset: counters that the env keeps across episodes must not change the game."""
        if self._start is not None:
            self.set_state(self._start)
            return
        with env_errors(self.name, "reset"):
            observation, _ = self.env.reset(seed=SEED)
        self._observation = copy.copy(observation)  # some envs return the same buffer every time
        self._start = self.get_state()

    def start(self, seed: int) -> None:
        """Reset with a seed. Every start is drawn from the same state of the env, so counters of episodes do not differ."""
        self.set_state(self._start)
        with global_randomness(seed), env_errors(self.name, "reset"):
            observation, _ = self.env.reset(seed=seed)
        self._observation = copy.copy(observation)

    def step(self, action: int) -> tuple[float, bool]:
        with env_errors(self.name, "step"):
            observation, reward, terminated, truncated, _ = self.env.step(action + self._first_action)
            over = bool(terminated or truncated)
        value = finite_reward(reward, self.name, f" for action {action}")
        self._observation = copy.copy(observation)
        return value, over

    def get_state(self) -> Any:
        # The observation is stored with the state: an env cannot return it a second time
        with env_errors(self.name, "get_state"):
            return self._save(), self._observation

    def bare_state(self) -> Any:
        return self.get_state()

    def set_state(self, state: Any) -> None:
        saved, self._observation = state
        with env_errors(self.name, "set_state"):
            self._restore(saved)

    def state_key(self) -> bytes:
        return fingerprint(self._save())

    def _save(self) -> Any:
        raise NotImplementedError

    def _restore(self, saved: Any) -> None:
        raise NotImplementedError

    def screen(self) -> NDArray[Any] | None:
        """The observation if it is one array or a number; None if it is a dict, a tuple or a text."""
        if isinstance(self._observation, dict | tuple | str) or self._observation is None:
            return None
        screen = np.asarray(self._observation)
        self._screen_shape = self._screen_shape or screen.shape
        if screen.dtype == object or screen.shape != self._screen_shape:
            raise NotEnumerable(
                f"{self.name} returns observations of shapes {self._screen_shape} and {screen.shape}; all must be equal"
            )
        return screen

    def render(self) -> NDArray[Any] | None:
        """A picture of the current state, drawn by another copy of the env: what drawing leaves in an env is no state."""
        if self._painter is None:
            self._painter = type(self)(self._make, self.name)
            show_pictures(self._painter.env)
        painter = self._painter
        painter.set_state(self.get_state())
        show_pictures(painter.env)  # a restored copy has the render_mode of the env that was saved
        with env_errors(self.name, "render"):
            picture = painter.env.render() if painter.env.render_mode == "rgb_array" else None
        return picture if isinstance(picture, np.ndarray) else None

    def fresh(self) -> Game:
        return type(self)(self._make, self.name)

    def reseed(self, seed: int) -> None:
        self.env.unwrapped.np_random = np.random.default_rng(seed)
        reseed_all(self.env, seed)

    def provenance(self) -> Mapping[str, Any]:
        module = type(self.env.unwrapped).__module__.split(".")[0]
        held = {"held": list(self.env.held)} if isinstance(self.env, HeldAttributes) else {}
        try:
            return {module: version(module), "seed": SEED, **held}
        except PackageNotFoundError:
            return {"seed": SEED, **held}


class OwnSnapshots(GymGame):
    """An env with its own `get_state` and `set_state`."""

    saved_by = "its own get_state/set_state"

    def reset(self) -> None:
        """Reset the env before its start is restored: what `get_state` leaves out begins anew, and replays detect it."""
        if self._start is not None:
            with global_randomness(SEED), env_errors(self.name, "reset"):
                self.env.reset(seed=SEED)
        super().reset()

    def _save(self) -> Any:
        return self.env.unwrapped.get_state()  # type: ignore[attr-defined]

    def _restore(self, saved: Any) -> None:
        self.env.unwrapped.set_state(saved)  # type: ignore[attr-defined]

    def state_key(self) -> bytes:
        own_key = getattr(self.env.unwrapped, "state_key", None)
        with env_errors(self.name, "state_key"):
            return fingerprint(own_key() if callable(own_key) else self._save())


class ToyText(GymGame):
    """A toy_text env of Gymnasium: its state is one integer. Its random generator is not part of the state."""

    saved_by = "its state index"
    start = None  # type: ignore[assignment]  # P comes with the distribution of starts

    def _save(self) -> int:
        return int(self.env.unwrapped.s)  # type: ignore[attr-defined]

    def _restore(self, saved: int) -> None:
        self.env.unwrapped.s = saved  # type: ignore[attr-defined]


class EmulatorStates(GymGame):
    """A Gymnasium env of ale-py. The emulator's random generator (of sticky actions) is not part of the state."""

    saved_by = "states of the emulator"
    start = None  # type: ignore[assignment]  # a seed only starts the generator of sticky actions

    def _save(self) -> bytes:
        # Without its generator: a restored state draws its sticky actions anew
        state: bytes = self.env.unwrapped.ale.cloneState().serialize()  # type: ignore[attr-defined]
        return state

    def _restore(self, saved: bytes) -> None:
        from ale_py import ALEState

        self.env.unwrapped.ale.restoreState(ALEState(saved))  # type: ignore[attr-defined]

    def render(self) -> NDArray[Any] | None:
        screen = self.screen()  # after a restore the emulator itself shows an old screen
        return screen if screen is not None and screen.ndim == 3 else super().render()


class WholeEnvCopies(GymGame):
    """Any other env: a pickle of the whole env with its wrappers.

    Pickle cannot save modules, nor functions that have no name in a module. Of a module the pickle holds the name. Such functions
    are kept in a list, and the pickle holds their place in it.
    """

    saved_by = "copies of the whole env"

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], name: str) -> None:
        self._keys: dict[bytes, bytes] = {}  # digest of a pickle -> fingerprint
        self._functions: list[Any] = []  # in the order in which pickle visits them, which is the same in every copy
        super().__init__(make, name)

    def _save(self) -> bytes:
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        pickler.persistent_id = self._label  # type: ignore[method-assign]
        try:
            pickler.dump(self.env)
        except Exception as error:
            raise NotEnumerable(
                f"{self.name} cannot be copied ({type(error).__name__}: {error}); give it get_state() and set_state(state)"
            ) from error
        return buffer.getvalue()

    def _restore(self, saved: bytes) -> None:
        unpickler = pickle.Unpickler(io.BytesIO(saved))
        unpickler.persistent_load = self._labelled  # type: ignore[method-assign]
        self.env = unpickler.load()

    def _labelled(self, label: int | str) -> Any:
        return sys.modules[label] if isinstance(label, str) else self._functions[label]

    def _label(self, value: Any) -> int | str | None:
        """The name of a module, the place of a function that pickle cannot save; None for what it saves itself."""
        if isinstance(value, types.ModuleType):
            return value.__name__
        if not isinstance(value, types.FunctionType) or _is_named(value):
            return None
        for number, known in enumerate(self._functions):
            if known is value:
                return number
        self._functions.append(value)
        return len(self._functions) - 1

    def state_key(self) -> bytes:
        """The fingerprint of the env. Equal pickles have equal fingerprints, so those of recent pickles are remembered."""
        base = self.env.unwrapped
        generator, base._np_random = base._np_random, None  # it is no part of the key
        try:
            pickled = hashlib.blake2b(self._save(), digest_size=16).digest()
        finally:
            base._np_random = generator
        if pickled not in self._keys:
            if len(self._keys) >= REMEMBERED_KEYS:
                self._keys.clear()
            self._keys[pickled] = fingerprint(self.env)
        return self._keys[pickled]


def _is_named(function: types.FunctionType) -> bool:
    """Is it found by its name in its module? Then pickle saves the name."""
    return getattr(sys.modules.get(function.__module__), function.__qualname__, None) is function


def fingerprint(value: Any) -> bytes:
    """16 bytes that are equal for equal values, and different for different values (except for a hash collision).

    The pickles of two equal values may differ, because pickle records which parts are the same object. So this function visits
    the same parts that pickle would save, and hashes them. Random generators are left out. A deterministic env does not depend on
    them, and an env that draws numbers without using them (as toy_text does) would otherwise never visit a state twice.
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest.update, value, path=())
    return digest.digest()


#: Parts of an env that are not part of its state: they never change, or they are random generators.
_STATELESS = (
    gym.spaces.Space,
    gym.envs.registration.EnvSpec,
    np.random.Generator,
    np.random.RandomState,
    random.Random,
)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)


def _feed(update: Callable[[bytes], None], value: Any, path: tuple[int, ...]) -> None:
    """Hash `value`. Every piece is hashed with its type and its length, so two different values never give the same bytes."""
    kind = type(value)
    if isinstance(value, _STATELESS):
        return
    if id(value) in path:  # a cycle: hash how many levels up it refers to
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
        if not isinstance(owner := getattr(value, "__self__", value), _CODE):  # the object of a bound method
            _feed(update, owner, path)
    else:
        parts = _parts(value)
        _piece(update, f"{kind.__module__}.{kind.__qualname__}", str(len(parts)).encode())
        for part in parts:
            _feed(update, part, (*path, id(value)))


def _piece(update: Callable[[bytes], None], label: str, content: bytes) -> None:
    update(f"{label}:{len(content)}:".encode() + content)


def _parts(value: Any) -> list[Any]:
    """The parts of a container or an object, in an order that does not depend on memory addresses."""
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
            f"a {kind.__module__}.{kind.__qualname__} inside the env cannot be hashed ({error}); "
            "give the env get_state(), set_state(state) and state_key()"
        ) from error
    if isinstance(state, dict):  # Gymnasium's random generator and its seed
        state = {name: part for name, part in state.items() if name not in ("_np_random", "_np_random_seed")}
    return [arguments, state, list(items or ()), list(pairs or ())]
