"""Full-length Atari as in the paper: Stable-Baselines3's own wrappers, sticky actions, no restart when a life is lost."""

from __future__ import annotations

from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from sqirl.envs.ids import STICKINESS
from sqirl.errors import MissingExtra, UnknownEnv

STACKED = 4


def full_atari_env(env: str, *, num_envs: int, seed: int | None = None, clip_reward: bool = True) -> VecEnv:
    """Frames of 84×84, four of them stacked, four skipped; rewards clipped to their sign for learning."""
    try:
        import ale_py
        import cv2  # noqa: F401 (the wrappers need it)
    except ImportError as error:
        raise MissingExtra("Full-length Atari", "atari,train") from error
    import gymnasium as gym
    from stable_baselines3.common.env_util import make_atari_env

    gym.register_envs(ale_py)
    if env not in gym.registry:
        raise UnknownEnv(f"no Atari game '{env}'; names are like PongNoFrameskip-v4")
    wrappers = {
        "terminal_on_life_loss": False, "clip_reward": clip_reward, "action_repeat_probability": STICKINESS,
    }  # fmt: skip
    return VecFrameStack(make_atari_env(env, n_envs=num_envs, seed=seed, wrapper_kwargs=wrappers), STACKED)
