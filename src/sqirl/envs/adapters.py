"""Any Gymnasium env with discrete actions as a `Game`, by the best way it offers to be saved and restored.

In order of preference: the env's own `get_state`/`set_state` (and `state_key`, if it has one), the state index of a toy_text
env, and a pickle (or deep copy) of the whole env.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs.env import GameEnv
from sqirl.envs.game import Game
from sqirl.errors import NotEnumerable

#: A user's env is enumerated from the state that reset(seed=SEED) gives.
SEED = 0


def as_game(make: Callable[[], gym.Env[Any, Any]], name: str) -> Game:
    """The game behind the env that `make` returns; `make` is called again whenever a fresh copy is needed."""
    env = make()
    if isinstance(env.unwrapped, GameEnv):
        return env.unwrapped.game
    if not isinstance(env.action_space, gym.spaces.Discrete):
        raise NotEnumerable(
            f"{name} has actions {env.action_space}, but only Discrete(n) can be enumerated; "
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

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], name: str) -> None:
        self.name = name
        self._make = make
        self.env = make()
        space = self.env.action_space
        assert isinstance(space, gym.spaces.Discrete)
        self.num_actions = int(space.n)
        self._first_action = int(space.start)
        self.reset()

    def reset(self) -> None:
        self._observation, _ = self.env.reset(seed=SEED)

    def step(self, action: int) -> tuple[float, bool]:
        self._observation, reward, terminated, truncated, _ = self.env.step(action + self._first_action)
        return float(reward), bool(terminated or truncated)

    def get_state(self) -> Any:
        # The observation travels with the state: an env cannot be asked for it again
        return self._save(), self._observation

    def set_state(self, state: Any) -> None:
        saved, self._observation = state
        self._restore(saved)

    def state_key(self) -> bytes:
        return fingerprint(self._save())

    def _save(self) -> Any:
        raise NotImplementedError

    def _restore(self, saved: Any) -> None:
        raise NotImplementedError

    def screen(self) -> np.ndarray | None:
        """The observation where it is one plain array (or a number); None where it has parts."""
        space = self.env.observation_space
        if isinstance(space, gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiBinary | gym.spaces.MultiDiscrete):
            return np.asarray(self._observation)
        return None

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

    def _save(self) -> Any:
        return self.env.unwrapped.get_state()  # type: ignore[attr-defined]

    def _restore(self, saved: Any) -> None:
        self.env.unwrapped.set_state(saved)  # type: ignore[attr-defined]

    def state_key(self) -> bytes:
        own_key = getattr(self.env.unwrapped, "state_key", None)
        return fingerprint(own_key() if callable(own_key) else self._save())


class ToyText(GymGame):
    """Gymnasium's toy_text: the state is one integer, and the generator that it draws from is none of the state."""

    def _save(self) -> int:
        return int(self.env.unwrapped.s)  # type: ignore[attr-defined]

    def _restore(self, saved: int) -> None:
        self.env.unwrapped.s = saved  # type: ignore[attr-defined]


class WholeEnvCopies(GymGame):
    """Any other env: a pickle of all of it, wrappers included; a deep copy where it does not pickle."""

    def _save(self) -> Any:
        try:
            return pickle.dumps(self.env, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as no_pickle:
            try:
                return copy.deepcopy(self.env)
            except Exception as no_copy:
                raise NotEnumerable(
                    f"{self.name} can be neither pickled ({no_pickle}) nor deep-copied ({no_copy}); "
                    "give it get_state() and set_state(state)"
                ) from no_copy

    def _restore(self, saved: Any) -> None:
        # The saved copy stays untouched, so that it can be restored again
        self.env = pickle.loads(saved) if isinstance(saved, bytes) else copy.deepcopy(saved)

    def state_key(self) -> bytes:
        return fingerprint(self.env)


def fingerprint(value: Any) -> bytes:
    """16 bytes that are equal for equal values, whatever the identities inside.

    A pickle of equal values may differ (it notes which parts are the same object), so the value is walked instead.
    Random generators are left out: an env that is deterministic does not depend on them, and one that draws numbers it
    never uses (toy_text does) would otherwise never visit a state twice.
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest.update, value, on_path=())
    return digest.digest()


def _feed(update: Callable[[bytes], None], value: Any, on_path: tuple[int, ...]) -> None:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        update(
            f"{type(value).__name__}:".encode() + (value if isinstance(value, bytes) else repr(value).encode()) + b";"
        )
        return
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        update(f"array:{value.dtype}:{value.shape}:".encode() + np.ascontiguousarray(value).tobytes())
        return
    if isinstance(value, np.random.Generator | np.random.RandomState) or callable(value) or id(value) in on_path:
        return
    path = (*on_path, id(value))
    update(f"{type(value).__qualname__}(".encode())
    for part in _parts(value):
        _feed(update, part, path)
    update(b")")


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [part for key in sorted(value, key=repr) for part in (key, value[key])]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, list | tuple | np.ndarray):
        return list(value)
    # Spaces and specs never change (and a space carries a generator of its own); a generator's seed is none of the state
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    attributes = {**getattr(value, "__dict__", {}), **{name: getattr(value, name, None) for name in slots}}
    skipped = (gym.spaces.Space, gym.envs.registration.EnvSpec)
    return [
        part
        for name in sorted(attributes)
        if name != "_np_random_seed" and not isinstance(attributes[name], skipped)
        for part in (name, attributes[name])
    ]
