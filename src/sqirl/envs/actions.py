"""Actions: spaces of a few combinations as one `Discrete` space, and the names of actions (`UP`, not 2)."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs.game import Game
from sqirl.errors import NotEnumerable

#: Combinations of actions that are numbered as one Discrete space, at most.
MAX_COMBINATIONS = 1024
#: Actions that an env may have for its states to be enumerated: each is taken in every state.
MAX_ACTIONS = 10_000
#: More bits than this are not counted: their number of combinations would itself fill the memory.
_MANY_BITS = 10_000


class Combinations(gym.spaces.Discrete):
    """The actions of another space, numbered from 0: those of a MultiDiscrete, MultiBinary, Dict or Tuple space.

    The last part changes fastest, as in `itertools.product`. A Discrete space that starts at another number is numbered, too.
    """

    def __init__(self, original: gym.Space[Any]) -> None:
        number = combinations(original)
        assert number is not None
        super().__init__(number)
        self.original = original

    def action(self, number: int) -> Any:
        """The action of the other space with this number."""
        return _decoded(self.original, int(number))

    def name(self, number: int) -> str:
        """'(1, 0)', or 'gas=1 steer=0' of a Dict."""
        action = self.action(number)
        if isinstance(action, dict):
            return " ".join(f"{key}={_shown(part)}" for key, part in action.items())
        return _shown(action)


class NumberedActions(gym.ActionWrapper[Any, Any, Any]):
    """An env whose actions are the numbers of `Combinations`."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.action_space = Combinations(env.action_space)

    def action(self, action: Any) -> Any:
        space = self.action_space
        assert isinstance(space, Combinations)
        return space.action(action)


def discrete_actions(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The env with actions 0..n-1, if its action space is discrete and has few combinations; else the env as it is."""
    space = getattr(env, "action_space", None)
    if isinstance(space, gym.spaces.Discrete) and not int(space.start):
        return env
    number = combinations(space)
    if number is None or (number > MAX_COMBINATIONS and not isinstance(space, gym.spaces.Discrete)):
        return env
    return NumberedActions(env)


def combinations(space: gym.Space[Any] | None) -> int | None:
    """The number of different actions of a space; None if it is not finite, or not known."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return math.prod(int(n) for n in space.nvec.ravel())
    if isinstance(space, gym.spaces.MultiBinary):
        return int(2 ** min(math.prod(space.shape), _MANY_BITS))
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        numbers = [combinations(part) for part in _parts(space)]
        return None if None in numbers else math.prod(number for number in numbers if number is not None)
    return None


def check_enumerable(env: gym.Env[Any, Any], name: str) -> None:
    """Raise `NotEnumerable` if there are too many actions to try all of them in every state."""
    space = getattr(env, "action_space", None)
    number = combinations(space)
    if number is None:
        raise NotEnumerable(
            f"{name} has actions {space}, but only finitely many can be tried in every state: Discrete, and MultiDiscrete, "
            f"MultiBinary, Dict or Tuple with at most {MAX_COMBINATIONS:,} combinations; wrap the env so that its action space "
            "is Discrete"
        )
    limit = MAX_ACTIONS if isinstance(space, gym.spaces.Discrete) else MAX_COMBINATIONS
    if number > limit:
        raise NotEnumerable(
            f"{name} has {_many(number)} actions, more than {limit:,}; wrap the env so that it has fewer"
        )


def too_many_combinations(space: gym.Space[Any]) -> str | None:
    """The reason why discrete parts are not numbered as one Discrete space; None if there is another."""
    number = combinations(space)
    if number is None or number <= MAX_COMBINATIONS or isinstance(space, gym.spaces.Discrete):
        return None
    return f"its parts have {_many(number)} combinations, more than {MAX_COMBINATIONS:,}"


def _many(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"about 10^{math.log10(number):.0f}"


def _parts(space: gym.spaces.Dict | gym.spaces.Tuple[Any]) -> list[gym.Space[Any]]:
    return list(space.spaces.values() if isinstance(space, gym.spaces.Dict) else space.spaces)


def _decoded(space: gym.Space[Any], number: int) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        return int(space.start) + number
    if isinstance(space, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        sizes = space.nvec if isinstance(space, gym.spaces.MultiDiscrete) else np.full(space.shape, 2)
        digits = np.array(np.unravel_index(number, sizes.ravel())).reshape(sizes.shape)
        return (digits + getattr(space, "start", 0)).astype(space.dtype)
    assert isinstance(space, gym.spaces.Dict | gym.spaces.Tuple)
    parts = _parts(space)
    numbers = [int(digit) for digit in np.unravel_index(number, [combinations(part) or 1 for part in parts])]
    chosen = [_decoded(part, digit) for part, digit in zip(parts, numbers, strict=True)]
    return dict(zip(space.spaces, chosen, strict=True)) if isinstance(space, gym.spaces.Dict) else tuple(chosen)


def _shown(part: Any) -> str:
    if isinstance(part, np.ndarray):
        return _shown(tuple(part.ravel().tolist()))
    return f"({', '.join(map(_shown, part))})" if isinstance(part, tuple) else str(part)


def action_names(game: Game) -> tuple[str, ...] | None:
    """The name of each action of a game; None if it does not tell them."""
    env = getattr(game, "env", None) or getattr(game, "_env", None)
    return names_of_actions(env, game.num_actions, getattr(game, "_actions", None))


def names_of_actions(env: Any, num_actions: int, listed: Any = None) -> tuple[str, ...] | None:
    """The name of each action of an env; None if it does not tell them.

    They are looked for where Gymnasium's envs have them: `get_action_meanings()` (Atari), a list `action_names`, an enumeration
    `actions` (MiniGrid), constants of the module such as `LEFT = 0` (toy_text), or the emulator's own list of actions. Numbered
    combinations are named by their parts.

    :param listed: the emulator's own list
    """
    base: Any = getattr(env, "unwrapped", None)
    space = getattr(env, "action_space", None)
    original = space.original if isinstance(space, Combinations) else space
    is_product = isinstance(space, Combinations) and not isinstance(original, gym.spaces.Discrete)
    meanings = getattr(base, "get_action_meanings", None)
    for found in (
        meanings() if callable(meanings) else None,
        getattr(base, "action_names", None),
        None if is_product else getattr(base, "actions", None),
        listed,
        None if is_product else _module_constants(base, num_actions, int(getattr(original, "start", 0))),
        [space.name(number) for number in range(num_actions)] if is_product and space else None,
    ):
        names = _as_names(found)
        if len(names) >= num_actions:
            return names[:num_actions]
    return None


def _as_names(found: Any) -> tuple[str, ...]:
    """The names in a list of texts or of members of an enumeration; empty if it is something else."""
    if not isinstance(found, Sequence | enum.EnumMeta) or isinstance(found, str):
        return ()
    names = [getattr(action, "name", action) for action in found]
    return tuple(map(str, names)) if all(isinstance(name, str) for name in names) else ()


def _module_constants(base: Any, num_actions: int, first: int) -> list[str]:
    """Constants of the env's module with the values of the actions, each of which has one name."""
    module = sys.modules.get(type(base).__module__)
    by_value: dict[int, list[str]] = {}
    for name, value in vars(module).items() if module is not None else ():
        if name.isupper() and type(value) is int:
            by_value.setdefault(value, []).append(name)
    numbers = range(first, first + num_actions)
    if any(len(by_value.get(action, ())) != 1 for action in numbers):
        return []
    return [by_value[action][0] for action in numbers]
