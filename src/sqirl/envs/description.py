"""`EnvDescription`: what the package needs to know about one environment. `describe` makes it from an id or an env.

Its suite, its horizon, its number of actions and the name of its files are fields and methods of the description.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs import suites
from sqirl.envs.actions import combinations
from sqirl.envs.adapters import as_game, is_toy_text, show_pictures
from sqirl.envs.catalogue import CatalogueRow, find_row, near_matches
from sqirl.envs.counters import HeldAttributes
from sqirl.envs.game import Game
from sqirl.envs.game_env import GameEnv
from sqirl.envs.ids import EnvId, is_bridge_id, is_full_atari_id, parse_id
from sqirl.envs.named import named_env
from sqirl.envs.naming import HOLD, asked_horizon, is_mdp_file, name_with, similar_files, split_held, split_name
from sqirl.envs.own_states import distrusted
from sqirl.envs.suites import FULL_ATARI, OURS, OWN, Suite
from sqirl.envs.view import View
from sqirl.errors import InvalidMDP, SqirlError, UnknownEnv
from sqirl.runtime.files import safe_file_name

#: What an environment can be given by: its name (see `describe`), a parsed id, an MDP's file, a game, an env, or toy_text's `P`.
EnvLike = str | EnvId | Path | Game | gym.Env[Any, Any] | Mapping[int, Any]


@dataclass(frozen=True, eq=False)
class EnvDescription:
    """One environment. Make it with `describe`.

    :param name: the id, or the text that the user typed; results are stored under it
    :param suite: the suite with its discount, network and experimental setup
    :param horizon: steps of an episode; None if the environment has no limit
    :param stickiness: probability of repeating the previous action
    :param reward_factor: for learning, rewards are divided by this number
    :param bridge_id: the parsed id, if it is a BRIDGE id
    :param row: the paper's results, if it is one of the 155 environments
    :param dynamics: an env with toy_text's `P`, or such a `P`
    :param remote_name: a text that `describe` understands in another process; None for an object of this process
    :param make_game: makes the game that a build enumerates
    :param make_own_env: makes the live env, if it is not a BRIDGE id
    :param file: the .npz file, if it is the MDP in a file; `sqirl.mdp.store.open_mdp` reads it
    :param variant: whose details observations, networks and algorithms have: see `sqirl.envs.suites.OURS`
    """

    name: str
    suite: Suite
    horizon: int | None = None
    stickiness: float = 0.0
    reward_factor: float = 1.0
    bridge_id: EnvId | None = None
    row: CatalogueRow | None = None
    dynamics: Any = None
    remote_name: str | None = None
    own_actions: int = 1  # the number of actions of a user's env
    make_game: Callable[[], Game] = lambda: _no_game()
    make_own_env: Callable[[], gym.Env[Any, Any]] | None = None
    file: Path | None = None
    variant: str = OURS

    @property
    def network(self) -> str:
        """The name of the network that learns it."""
        return self.suite.network_of(self.variant)

    @property
    def is_bridge(self) -> bool:
        """Is it a game with a BRIDGE id, in the catalogue or not?"""
        return self.bridge_id is not None

    @property
    def is_full_length(self) -> bool:
        """Is it a full-length Atari game?"""
        return self.suite is FULL_ATARI

    @property
    def file_stem(self) -> str:
        """The name of its files (its MDP, its build, its figures) without the ending."""
        return self.bridge_id.stem if self.bridge_id is not None else safe_file_name(self.name)

    @property
    def game_title(self) -> str:
        """The id without its prefix and its suffix."""
        return self.bridge_id.stem if self.bridge_id is not None else self.suite.title_of(self.name)

    def num_actions(self) -> int:
        """The number of actions; a game that is not in our tables is loaded to count them."""
        if self.bridge_id is not None:
            return suites.num_actions_of(self.bridge_id)
        if self.is_full_length:
            return suites.num_actions_of_full_length(self.name)
        return self.own_actions

    def view(self, screen_shape: tuple[int, ...] | None = None) -> View:
        """How screens of the game become observations.

        :param screen_shape: the shape of a screen, which the view of MiniGrid depends on; if None, a game is made to get it
        """
        if self.bridge_id is None:
            raise InvalidMDP(f"{self.name} is not a game of a BRIDGE suite; it has no view, only its own observations")
        return suites.view_of(self.bridge_id, screen_shape or _screen_shape(self.make_game), variant=self.variant)

    def make_env(self, *, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """The live environment, with its horizon and its sticky actions.

        :param render_mode: None or "rgb_array"
        """
        if self.bridge_id is not None:
            return self.make_game_env(render_mode=render_mode)
        if self.make_own_env is None:
            raise UnknownEnv(
                f"{self.name or 'a table of dynamics'} has no environment that can be stepped; give an env or an id"
            )
        env = self.make_own_env()
        if render_mode == "rgb_array":
            show_pictures(env)
        return env

    def make_game_env(self, *, render_mode: str | None = None) -> GameEnv:
        """The live environment of a BRIDGE id.

        :param render_mode: None or "rgb_array"
        """
        assert self.bridge_id is not None and self.horizon is not None
        game = self.make_game()
        view = self.view(_screen_shape(lambda: game))
        return GameEnv(game, view, horizon=self.horizon, stickiness=self.stickiness, render_mode=render_mode)

    def deterministic(self) -> EnvDescription:
        """The same game without sticky actions. A build enumerates its states."""
        return self if self.bridge_id is None else describe(self.bridge_id.deterministic())


def describe(
    target: EnvLike | EnvDescription, *, env_kwargs: Mapping[str, Any] | None = None, variant: str | None = None
) -> EnvDescription:
    """The description of an environment: the one way to open what a user names. Nothing is enumerated.

    A name is a BRIDGE id, any Gymnasium id (the package that registers it is imported), 'module:Class', 'module:factory',
    'file.py:Class', 'module:Id-v0', or an .npz file with an MDP. An env that is given by its name is made once. Keyword arguments
    of the env are part of its name: 'FrozenLake-v1 {"is_slippery": false}'.

    :param target: a name, an env, a game, toy_text's `P`, or a description, which is returned as it is
    :param env_kwargs: keyword arguments for making an env that is given by its name
    :param variant: the variant of the description, if it is not to be OURS
    """
    if variant is not None:
        return replace(describe(target, env_kwargs=env_kwargs), variant=variant)
    if isinstance(target, str):
        return _describe_text(name_with(target, env_kwargs))
    if env_kwargs:
        raise UnknownEnv(f"arguments {dict(env_kwargs)} were given, but {type(target).__name__} is made already")
    if isinstance(target, EnvDescription):
        return target
    if isinstance(target, EnvId):
        return _describe_bridge(target)
    if isinstance(target, Path):
        return _describe_file(target)
    if isinstance(target, gym.Env):
        return _describe_env(target)
    if isinstance(target, Game):
        return EnvDescription(target.name, OWN, make_game=target.fresh)
    if isinstance(target, Mapping):
        return EnvDescription("", OWN, dynamics=target)
    raise UnknownEnv(f"{target!r} is not an env; give an id, 'module:Class', an env, a game, or toy_text's P")


def _describe_text(text: str) -> EnvDescription:
    bare, kwargs = split_name(text)
    if kwargs and (is_bridge_id(bare) or is_mdp_file(bare)):
        raise UnknownEnv(f"{bare} takes no arguments, but {kwargs} were given; leave --env-kwargs out")
    if is_bridge_id(text):
        return _describe_bridge(_parsed(text))
    if is_mdp_file(text):
        return _describe_file(Path(text))
    if is_full_atari_id(text):  # the emulator is loaded, and the id checked, only when a game is made
        return EnvDescription(
            text,
            FULL_ATARI,
            stickiness=FULL_ATARI.stickiness,
            remote_name=text,
            make_game=lambda: as_game(lambda: without_bookkeeping(named_env(text)()), text),
            make_own_env=lambda: named_env(text)(),
        )
    asked = asked_horizon(kwargs)
    make = _ending_after(asked, named_env(text))
    env = make()
    if isinstance(env.unwrapped, GameEnv):
        return replace(_describe_env(env), remote_name=text)
    name = name_with(env.spec.id, kwargs) if env.spec and ":" not in bare else text
    held = split_held(kwargs)[1]
    dynamics = _dynamics(env)
    if held and dynamics is not None:
        raise SqirlError(f"{bare} has its dynamics as a table, P, which no attribute changes; leave out --hold")
    if dynamics is None:
        env.close()
    found = EnvDescription(
        name,
        OWN,
        asked or time_limit(env),
        dynamics=dynamics,
        remote_name=name,
        own_actions=_actions_of(env),
        make_game=lambda: as_game(lambda: without_bookkeeping(make()), name),
        make_own_env=make,
    )
    return _holding(found, held) if held else found


def holding(description: EnvDescription, names: Sequence[str]) -> EnvDescription:
    """The same user's env with these attributes held at their value of the start; its name says it where it has one."""
    if description.remote_name is not None:  # not described anew: that would import its file again, as other classes
        name = name_with(description.remote_name, {HOLD: list(names)})
        description = replace(description, name=name, remote_name=name)
    return _holding(description, tuple(names))


def _holding(description: EnvDescription, names: tuple[str, ...]) -> EnvDescription:
    make = description.make_own_env
    assert make is not None

    def make_bare() -> gym.Env[Any, Any]:
        return HeldAttributes(without_bookkeeping(make()), names)

    return replace(
        description,
        make_game=lambda: as_game(make_bare, description.name),
        make_own_env=lambda: _with_limit(make_bare(), time_limit(make())),
    )


def without_own_states(description: EnvDescription) -> EnvDescription:
    """The same user's env, saved in another way than by its own get_state and set_state."""
    make = description.make_own_env
    assert make is not None
    return replace(
        description,
        make_game=lambda: as_game(lambda: distrusted(without_bookkeeping(make())), description.name),
        make_own_env=lambda: distrusted(make()),
    )


def _ending_after(horizon: int | None, make: Callable[[], gym.Env[Any, Any]]) -> Callable[[], gym.Env[Any, Any]]:
    """Makes envs whose episodes have that horizon instead of their own limit, where one is asked for."""
    if horizon is None:
        return make
    return lambda: gym.wrappers.TimeLimit(without_bookkeeping(make()), horizon)


def _parsed(text: str) -> EnvId:
    try:
        return parse_id(text)
    except UnknownEnv as error:
        raise UnknownEnv(f"{error}{near_matches(text)}") from error


def _describe_file(path: Path) -> EnvDescription:
    """The MDP in a file. Its arrays are read, and its horizon is known, when it is opened."""
    if not os.path.isfile(path):  # False, not an error, for a name that is too long
        what = " behind the link" if os.path.islink(path) else ""
        raise UnknownEnv(f"no file{what} '{path}'{similar_files(path)}")
    return EnvDescription(str(path), OWN, remote_name=str(path.resolve()), file=path)


def _describe_bridge(env_id: EnvId) -> EnvDescription:
    row = find_row(env_id)
    return EnvDescription(
        str(env_id),
        suites.SUITES[env_id.suite],
        env_id.horizon,
        env_id.stickiness,
        row.reward_factor if row is not None else 1.0,
        env_id,
        row,
        remote_name=str(env_id),
        make_game=lambda: suites.make_game(env_id),
    )


def _describe_env(env: gym.Env[Any, Any]) -> EnvDescription:
    base = env.unwrapped
    name = env.spec.id if env.spec else type(base).__name__
    if isinstance(base, GameEnv):
        played: dict[str, Any] = {"horizon": base.horizon, "stickiness": base.stickiness, "make_game": base.game.fresh}
        if is_bridge_id(name):
            return replace(_describe_bridge(parse_id(name)), **played)
        return EnvDescription(
            name, OWN, own_actions=_actions_of(env), make_own_env=lambda: copy.deepcopy(env), **played
        )
    bare = without_bookkeeping(copy.deepcopy(env))
    return EnvDescription(
        name,
        OWN,
        time_limit(env),
        dynamics=_dynamics(env),
        own_actions=_actions_of(env),
        make_game=lambda: as_game(lambda: copy.deepcopy(bare), name),
        make_own_env=lambda: copy.deepcopy(env),
    )


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """The most steps of an episode: the smallest limit of the env's registration, of its wrappers, and its own `max_steps`.

    None if it has no limit.
    """
    limits = [env.spec.max_episode_steps] if env.spec and env.spec.max_episode_steps else []
    own = getattr(env.unwrapped, "max_steps", None)
    limits += [own] if type(own) is int and own > 0 else []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def _actions_of(env: gym.Env[Any, Any]) -> int:
    return combinations(getattr(env, "action_space", None)) or 1


def _with_limit(env: gym.Env[Any, Any], limit: int | None) -> gym.Env[Any, Any]:
    """The env with a limit on its episodes: if its counter is held, it may never end by itself."""
    return env if limit is None else gym.wrappers.TimeLimit(env, limit)


#: Gymnasium's wrappers that only count steps or check calls. With their counters, every step would be a new state.
_BOOKKEEPING = (gym.wrappers.TimeLimit, gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)


def without_bookkeeping(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The env without the wrappers of `_BOOKKEEPING`, also where they are inside other wrappers."""
    while isinstance(env, _BOOKKEEPING):
        env = env.env
    if isinstance(env, gym.Wrapper):
        env.env = without_bookkeeping(env.env)
    return env


def _dynamics(env: gym.Env[Any, Any]) -> Any:
    """The env if its `P` is complete, else None. Other wrappers may change rewards, actions or ends, which `P` does not show."""
    bare = env
    while isinstance(bare, _BOOKKEEPING):
        bare = bare.env
    return bare if is_toy_text(bare) else None


def _screen_shape(make_game: Callable[[], Game]) -> tuple[int, ...]:
    screen = make_game().screen()
    assert isinstance(screen, np.ndarray)
    return screen.shape


def _no_game() -> Game:
    raise UnknownEnv("a table of dynamics (P) has no game; give an env or an id")
