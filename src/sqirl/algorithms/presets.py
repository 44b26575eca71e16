"""The paper's hyperparameters (appendix C) and the models they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sqirl.algorithms.gorp import GORP
from sqirl.algorithms.networks import ImpalaCNN, MiniGridCNN
from sqirl.algorithms.sqirl import SQIRL
from sqirl.algorithms.table_replay import TableReplayBuffer
from sqirl.algorithms.table_vec_env import TableVecEnv

#: Envs side by side for PPO and DQN.
NUM_ENVS = 8


@dataclass(frozen=True)
class Setting:
    """What a kind of environment asks of all algorithms."""

    gamma: float
    network: str  # "nature", "minigrid", "impala" or "mlp"


BRIDGE_SETTINGS = {
    "atari": Setting(gamma=1.0, network="nature"),
    "procgen": Setting(gamma=1.0, network="nature"),
    "minigrid": Setting(gamma=0.99, network="minigrid"),
}
FULL_ATARI = Setting(gamma=0.99, network="impala")
#: Envs of the user's own: nothing is known of them.
OWN = Setting(gamma=0.99, network="mlp")


def _policy(setting: Setting) -> dict[str, Any]:
    """`policy` and `policy_kwargs` for Stable-Baselines3's algorithms and ours: all are linear on the features of images.

    Stable-Baselines3 would put two layers of 64 on top of features that are not its own, for PPO of tanh: those of IMPALA are
    so large at first that most of these are saturated, and PPO plays one action for ever.
    """
    if setting.network == "mlp":
        return {"policy": "MlpPolicy"}
    extractor = {"minigrid": MiniGridCNN, "impala": ImpalaCNN}.get(setting.network)
    kwargs = {} if extractor is None else {"policy_kwargs": {"features_extractor_class": extractor, "net_arch": []}}
    return {"policy": "CnnPolicy", **kwargs}


def make_ppo(env: VecEnv, setting: Setting, *, rollout: int = 128, **kwargs: Any) -> PPO:
    """Stable-Baselines3's PPO; the paper takes the better of rollout 128 and 1280."""
    return PPO(
        env=env,
        n_steps=rollout,
        batch_size=256,
        n_epochs=4,
        learning_rate=2.5e-4,
        gae_lambda=0.95,
        ent_coef=0.01,
        clip_range=0.1,
        vf_coef=0.5,
        gamma=setting.gamma,
        **_policy(setting),
        **kwargs,
    )


def make_dqn(env: VecEnv, setting: Setting, *, timesteps: int, epsilon_steps: int = 500_000, **kwargs: Any) -> DQN:
    """Stable-Baselines3's DQN; the paper takes the better of ε decaying over 0.5 and over 5 million steps.

    Four env steps for each gradient step: with eight envs, two gradient steps after every step of all. Over a table the
    buffer holds keys of observations, not pictures.
    """
    base = env.unwrapped
    table: dict[str, Any] = {}
    if isinstance(base, TableVecEnv):
        table = {"replay_buffer_class": TableReplayBuffer, "replay_buffer_kwargs": {"env": base}}
    return DQN(
        env=env,
        learning_starts=0,
        buffer_size=100_000,
        target_update_interval=8_000,
        exploration_fraction=epsilon_steps / timesteps,  # above 1: a short run ends before ε has
        exploration_final_eps=0.01,
        batch_size=32,
        train_freq=1,
        gradient_steps=max(1, env.num_envs // 4),
        learning_rate=1e-4,
        gamma=setting.gamma,
        **table,
        **_policy(setting),
        **kwargs,
    )


def make_sqirl(env: VecEnv, setting: Setting, *, k: int, m: int, **kwargs: Any) -> SQIRL:
    """Deep SQIRL as in appendix C, which its defaults are."""
    return SQIRL(env=env, k=k, m=m, gamma=setting.gamma, **_policy(setting), **kwargs)


def make_gorp(env: VecEnv, setting: Setting, *, k: int, m: int, **kwargs: Any) -> GORP:
    return GORP(env=env, k=k, m=m, gamma=setting.gamma, **kwargs)


def make_model(algorithm: str, env: VecEnv, setting: Setting, options: dict[str, Any], **kwargs: Any) -> BaseAlgorithm:
    """The model of one of the four algorithms."""
    make: Any = {"sqirl": make_sqirl, "gorp": make_gorp, "ppo": make_ppo, "dqn": make_dqn}[algorithm]
    model: BaseAlgorithm = make(env, setting, **options, **kwargs)
    if isinstance(model, PPO | DQN) and model.device.type == "cpu":
        model.policy.to(memory_format=th.channels_last)  # type: ignore[call-overload]  # a quarter faster, nothing else
    return model
