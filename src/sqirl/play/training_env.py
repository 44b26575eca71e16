"""The vectorised env that an environment is trained in: its table where its MDP is stored, else the live game."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecTransposeImage

from sqirl.envs.description import EnvDescription, describe
from sqirl.mdp.store import user_folder
from sqirl.play.full_atari import full_atari_env
from sqirl.play.live import LivePlayer
from sqirl.play.own_env import EPISODE_LIMIT, own_training_env
from sqirl.play.players import Player, TablePlayer
from sqirl.play.table import Table, load_table, truncates
from sqirl.play.vec_env import TableVecEnv
from sqirl.runtime.progress import CountProgress


def training_env(
    env: EnvDescription | str,
    *,
    live: bool = False,
    num_envs: int = 1,
    verbose: int = 0,
    progress: CountProgress | None = None,
) -> VecEnv:
    """A vectorised env with rewards scaled for learning; if verbose, what it plays from is printed on stderr.

    :param env: an id, 'module:Class', or a description
    :param live: play the game itself even where its table is stored
    :param progress: called while screens are drawn
    """
    description = describe(env)
    if description.is_full_length:
        return full_atari_env(description.name, num_envs=num_envs)
    if not description.is_bridge:
        return DummyVecEnv([lambda: Monitor(_own_env(description)) for _ in range(num_envs)])
    table = None if live else _stored_table(description, progress)
    if verbose:
        where = (
            "the live game"
            if table is None
            else f"its table ({table.mdp.num_states:,} states); live=True plays the game"
        )
        print(f"sqirl: {description.name} is played from {where}", file=sys.stderr)
    factor = description.reward_factor
    if table is not None:
        return TableVecEnv(table, num_envs, reward_factor=factor)

    def make() -> gym.Env[Any, Any]:
        env = description.make_game_env()
        env.truncates = truncates(description)
        return gym.wrappers.TransformReward(Monitor(env), lambda reward: float(reward) / factor)

    return DummyVecEnv([make for _ in range(num_envs)])


def _own_env(description: EnvDescription) -> gym.Env[Any, Any]:
    """The user's env with a limit on its episodes: without one an evaluation might never end."""
    return own_training_env(description.make_env(), description.name, description.horizon)


#: The table that was used last: a worker of a sweep does many runs on one game, and loading a table takes seconds.
_last: dict[tuple[str, str, Path], Table] = {}


def _stored_table(description: EnvDescription, progress: CountProgress | None) -> Table | None:
    key = description.name, description.variant, user_folder()
    if key not in _last:
        table = load_table(description, progress=progress)
        if table is None:
            return None
        _last.clear()
        _last[key] = table
    return _last[key]


def player_of(env: VecEnv, *, buffer_size: int) -> Player:
    """The player of a vectorised env; that of a live one remembers the frames of `buffer_size` transitions."""
    base = env.unwrapped
    if isinstance(base, TableVecEnv):
        return TablePlayer(base.table, reward_factor=base.reward_factor)
    return LivePlayer(env, capacity=frames_kept(buffer_size), stacked=frames_stacked(env), horizon=horizon_of(env))


def frames_kept(buffer_size: int) -> int:
    """Episodes bring a few frames more than transitions: those that the first stored step is stacked of."""
    return int(1.25 * buffer_size) + 1024


def frames_stacked(env: VecEnv) -> int:
    """How many frames of the past an observation of images is stacked of, if the env says it."""
    wrapper: Any = env
    while wrapper is not None:
        if isinstance(wrapper, VecFrameStack):
            return int(wrapper.stacked_obs.n_stack)
        wrapper = getattr(wrapper, "venv", None)
    if not isinstance(env, VecTransposeImage):
        return 1
    try:
        return int(env.get_attr("view")[0].stacked)
    except AttributeError:
        return 1


def horizon_of(env: VecEnv) -> int | None:
    """The most steps that an episode can have, if the env says it."""
    for name in ("horizon", "_max_episode_steps"):
        try:
            known = env.get_attr(name)[0]
        except (AttributeError, ValueError):
            continue
        if known and known < EPISODE_LIMIT:  # our own limit is no horizon
            return int(known)
    return None
