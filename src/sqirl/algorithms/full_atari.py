"""Full-length Atari games as the paper sets them up: the usual preprocessing, sticky actions, no end at a lost life."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecFrameStack, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sqirl.algorithms.one_vec_env import OneVecEnv
from sqirl.envs.ids import STICKINESS
from sqirl.errors import MissingExtra, UnknownEnv

STACKED = 4
FRAMESKIP = 4
#: Games at once where nothing else limits them: the more share a network's answer, the less each of them waits for it.
MOST_GAMES = 32


def full_atari_env(env: str, *, num_envs: int, seed: int | None = None, clip_reward: bool = True) -> VecEnv:
    """Frames of 84×84, four of them stacked, four skipped; rewards clipped to their sign for learning."""
    games: VecEnv = VecMonitor(AtariGames(env, num_envs, seed=seed))  # it sees the game's own rewards
    return VecFrameStack(SignsOfRewards(games) if clip_reward else games, STACKED)


class AtariGames(OneVecEnv):
    """ale-py's own vectorised games, whose emulators run on threads, as Stable-Baselines3 wants them.

    Up to 30 random frames of waiting and a press of FIRE come before an episode; a frame is the maximum of the last two of
    the four that an action lasts for, in grey, 84×84. Rewards are the game's. The same seed plays the same games on any
    number of threads: as many as torch has in this process, which in a sweep is a worker's share of the machine.
    """

    def __init__(
        self,
        env: str,
        num_envs: int,
        *,
        seed: int | None = None,
        stickiness: float = STICKINESS,
        waiting: int = 30,
        fire: bool = True,
    ) -> None:
        try:
            import ale_py
            from ale_py.vector_env import AtariVectorEnv
        except ImportError as error:
            raise MissingExtra("Full-length Atari", "atari,train") from error
        gym.register_envs(ale_py)
        if env not in gym.registry:
            raise UnknownEnv(f"no Atari game '{env}'; names are like PongNoFrameskip-v4")
        self.games = AtariVectorEnv(
            gym.spec(env).kwargs["game"],
            num_envs,
            num_threads=min(num_envs, th.get_num_threads()),
            repeat_action_probability=stickiness,
            autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
            frameskip=FRAMESKIP,
            stack_num=1,  # VecFrameStack does it, with blank frames before a start
            noop_max=waiting,
            use_fire_reset=fire,
            reward_clipping=False,
        )
        self.render_mode = None
        super().__init__(num_envs, self.games.single_observation_space, self.games.single_action_space)
        self.seed(seed)

    def reset(self) -> VecEnvObs:
        seeds = None if self._seeds[0] is None else np.array(self._seeds) % 2**31
        self._reset_seeds()
        self._reset_options()
        observations, _ = self.games.reset(seed=seeds)
        return np.array(observations)

    def step_async(self, actions: np.ndarray) -> None:
        self.games.send(np.asarray(actions, np.int64))

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, told = self.games.recv()
        ends = terminated | truncated
        infos: list[dict[str, Any]] = [{"lives": lives} for lives in told["lives"].tolist()]
        for lane in np.flatnonzero(ends).tolist():
            infos[lane]["terminal_observation"] = told["final_obs"][lane]
            infos[lane]["TimeLimit.truncated"] = bool(truncated[lane] and not terminated[lane])
        return np.array(observations), rewards.astype(np.float32), ends, infos


class SignsOfRewards(VecEnvWrapper):
    """Rewards of -1, 0 and 1, whatever the game pays."""

    def reset(self) -> VecEnvObs:
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, ends, infos = self.venv.step_wait()
        return observations, np.sign(rewards), ends, infos
