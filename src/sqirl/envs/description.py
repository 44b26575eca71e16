"""What an environment is: resolved once from what a user names into one frozen `EnvDescription`.

Everything that the rest of the package asks about an environment (its suite, its horizon, its network, where its MDP may be
stored) is a field or a method of the description.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs import suites
from sqirl.envs.adapters import as_game, is_toy_text
from sqirl.envs.catalogue import CatalogueRow, find_row
from sqirl.envs.game import Game
from sqirl.envs.game_env import GameEnv
from sqirl.envs.ids import EnvId, is_bridge_id, is_full_atari_id, parse_id
from sqirl.envs.named import named_env
from sqirl.envs.suites import FULL_ATARI, OWN, Suite
from sqirl.envs.view import View
from sqirl.errors import InvalidMDP, UnknownEnv
from sqirl.runtime.files import safe_file_name

EnvLike = str | EnvId | Game | gym.Env[Any, Any] | Mapping[int, Any]


@dataclass(frozen=True, eq=False)
class EnvDescription:
    """One environment.

    `name` keys its results; it is an id, or what the user typed. `remote_name` is a text that another process can describe
    again; None for an object that lives in this process only. `dynamics` is an env with toy_text's `P`, or such a `P`.
    """

    name: str
    suite: Suite
    horizon: int | None = None  # steps of an episode; None if the environment does not say
    stickiness: float = 0.0
    reward_factor: float = 1.0  # rewards are divided by it for learning
    bridge_id: EnvId | None = None
    row: CatalogueRow | None = None  # what the paper says of it, for the 155 rows
    dynamics: Any = None
    remote_name: str | None = None
    make_game: Callable[[], Game] = lambda: _no_game()
    make_own_env: Callable[[], gym.Env[Any, Any]] | None = None

    @property
    def is_bridge(self) -> bool:
        """Is it a short game of the BRIDGE suites (with an id of ours, in the catalogue or not)?"""
        return self.bridge_id is not None

    @property
    def is_full_game(self) -> bool:
        """Is it a whole Atari game?"""
        return self.suite is FULL_ATARI

    @property
    def file_stem(self) -> str:
        """The name of its files: its MDP, its build, its figures."""
        return self.bridge_id.stem if self.bridge_id is not None else safe_file_name(self.name)

    @property
    def game_title(self) -> str:
        """The name of the game without the decoration of its id."""
        return self.bridge_id.stem if self.bridge_id is not None else self.suite.title_of(self.name)

    def num_actions(self) -> int:
        """How many actions an agent can choose from; a game that is not in our tables is asked."""
        if self.bridge_id is not None:
            return suites.num_actions_of(self.bridge_id)
        if self.is_full_game:
            return suites.num_actions_of_full_game(self.name)
        env = self.make_env()
        try:
            return int(getattr(env.action_space, "n", 1))
        finally:
            env.close()

    def view(self, screen_shape: tuple[int, ...] | None = None) -> View:
        """What an agent sees of the game; the view of a MiniGrid level depends on the shape of its grid."""
        if self.bridge_id is None:
            raise InvalidMDP(f"{self.name} is not a game of a BRIDGE suite; its observations are its own")
        return suites.view_of(self.bridge_id, screen_shape or _screen_shape(self.make_game))

    def make_env(self, *, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """The live environment, with its horizon and its sticky actions."""
        if self.bridge_id is not None:
            return self.make_game_env(render_mode=render_mode)
        if self.make_own_env is None:
            raise UnknownEnv(f"{self.name or 'a table of dynamics'} has no environment that can be played")
        return self.make_own_env()

    def make_game_env(self, *, render_mode: str | None = None) -> GameEnv:
        """The live environment of a BRIDGE id."""
        assert self.bridge_id is not None and self.horizon is not None
        game = self.make_game()
        view = self.view(_screen_shape(lambda: game))
        return GameEnv(game, view, horizon=self.horizon, stickiness=self.stickiness, render_mode=render_mode)

    def deterministic(self) -> EnvDescription:
        """The same game without sticky actions: its states are what a build enumerates."""
        return self if self.bridge_id is None else describe(self.bridge_id.deterministic())

    def with_name(self, name: str) -> EnvDescription:
        return replace(self, name=name)


def describe(target: EnvLike | EnvDescription) -> EnvDescription:
    """The description of an id, 'module:Class', an env, a game, or toy_text's P. Nothing is enumerated yet."""
    if isinstance(target, EnvDescription):
        return target
    if isinstance(target, str):
        return _describe_text(target)
    if isinstance(target, EnvId):
        return _describe_bridge(target)
    if isinstance(target, gym.Env):
        return _describe_env(target)
    if isinstance(target, Game):
        return EnvDescription(target.name, OWN, make_game=target.fresh)
    if isinstance(target, Mapping):
        return EnvDescription("", OWN, dynamics=target)
    raise UnknownEnv(f"{target!r} is no env; give an id, 'module:Class', an env, a game, or dynamics as toy_text's P")


def _describe_text(text: str) -> EnvDescription:
    if is_bridge_id(text):
        return _describe_bridge(parse_id(text))
    if is_full_atari_id(text):  # whether the game exists is known when its emulator is loaded
        return EnvDescription(
            text,
            FULL_ATARI,
            stickiness=FULL_ATARI.stickiness,
            remote_name=text,
            make_game=lambda: as_game(lambda: without_bookkeeping(named_env(text)()), text),
            make_own_env=lambda: named_env(text)(),
        )
    make = named_env(text)
    env = make()
    if isinstance(env.unwrapped, GameEnv):
        return _describe_env(env)
    name = env.spec.id if env.spec and ":" not in text else text
    return EnvDescription(
        name,
        OWN,
        env.spec.max_episode_steps if env.spec else None,
        dynamics=_dynamics(env),
        remote_name=text,
        make_game=lambda: as_game(lambda: without_bookkeeping(make()), name),
        make_own_env=make,
    )


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
        return EnvDescription(name, OWN, base.horizon, base.stickiness, make_game=base.game.fresh)
    bare = without_bookkeeping(copy.deepcopy(env))
    return EnvDescription(
        name,
        OWN,
        env.spec.max_episode_steps if env.spec else None,
        dynamics=_dynamics(env),
        make_game=lambda: as_game(lambda: copy.deepcopy(bare), name),
        make_own_env=lambda: copy.deepcopy(env),
    )


#: Gymnasium's own wrappers that only count and check. What they count would make every moment a state of its own.
_BOOKKEEPING = (gym.wrappers.TimeLimit, gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)


def without_bookkeeping(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The env with those wrappers removed, wherever they are."""
    while isinstance(env, _BOOKKEEPING):
        env = env.env
    if isinstance(env, gym.Wrapper):
        env.env = without_bookkeeping(env.env)
    return env


def _dynamics(env: gym.Env[Any, Any]) -> Any:
    """The env if its own P describes all of it. A wrapper may change rewards, actions or ends, and P would not show it."""
    bare = env
    while isinstance(bare, _BOOKKEEPING):
        bare = bare.env
    return bare if is_toy_text(bare) else None


def _screen_shape(make_game: Callable[[], Game]) -> tuple[int, ...]:
    screen = make_game().screen()
    assert isinstance(screen, np.ndarray)
    return screen.shape


def _no_game() -> Game:
    raise UnknownEnv("an MDP given as a table of dynamics has no game behind it")
