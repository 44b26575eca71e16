"""The env that an id is trained in: its table where its MDP is at hand, else the live game."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sqirl.algorithms.full_atari import full_atari_env
from sqirl.algorithms.table_vec_env import TableVecEnv
from sqirl.envs.catalogue import lookup
from sqirl.envs.ids import EnvId, is_bridge_id, is_full_atari, parse_id
from sqirl.envs.registration import make_env
from sqirl.errors import UnknownEnv
from sqirl.mdp.play import Table, load_table
from sqirl.mdp.screens import Progress
from sqirl.mdp.store import user_folder

#: A limit beyond this is there to stop endless episodes, not a horizon.
LONGEST_HORIZON = 10_000


def reward_factor_of(env_id: EnvId) -> float:
    """What rewards are divided by for learning: the catalogue's factor, 1 for ids outside it."""
    try:
        return lookup(env_id).reward_factor
    except UnknownEnv:
        return 1.0


def training_env(
    env: str, *, live: bool = False, num_envs: int = 1, verbose: int = 0, progress: Progress | None = None
) -> VecEnv:
    """A vectorised env of an id, with rewards scaled for learning; what it plays from is said on stderr if verbose."""
    if is_full_atari(env):
        return full_atari_env(env, num_envs=num_envs)
    if not is_bridge_id(env):
        return DummyVecEnv([lambda: Monitor(_limited(env)) for _ in range(num_envs)])
    env_id = parse_id(env)
    factor = reward_factor_of(env_id)
    table = None if live else _table_at_hand(env_id, progress)
    if verbose:
        where = (
            "the live game"
            if table is None
            else f"its table ({table.mdp.num_states:,} states); live=True plays the game"
        )
        print(f"sqirl: {env} is played from {where}", file=sys.stderr)
    if table is not None:
        return TableVecEnv(table, num_envs, reward_factor=factor)

    def make() -> gym.Env[Any, Any]:
        return gym.wrappers.TransformReward(Monitor(make_env(env_id)), lambda reward: float(reward) / factor)

    return DummyVecEnv([make for _ in range(num_envs)])


def _limited(env: str) -> gym.Env[Any, Any]:
    """Episodes of envs without a limit of their own end, too: or an evaluation might never."""
    made = gym.make(env)
    limit = made.spec.max_episode_steps if made.spec is not None else None
    return made if limit else gym.wrappers.TimeLimit(made, LONGEST_HORIZON)


#: The table that was played last: the runs of a sweep come many to a worker, and to load one takes seconds.
_last: dict[tuple[EnvId, Path], Table] = {}


def _table_at_hand(env_id: EnvId, progress: Progress | None) -> Table | None:
    key = env_id, user_folder()
    if key not in _last:
        table = load_table(env_id, progress=progress)
        if table is None:
            return None
        _last.clear()
        _last[key] = table
    return _last[key]
