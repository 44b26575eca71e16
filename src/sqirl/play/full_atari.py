"""Full-length Atari games as the paper sets them up: the usual preprocessing, sticky actions, no end at a lost life."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecFrameStack, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sqirl.envs.atari import rom_of_full_length
from sqirl.envs.suites import FULL_ATARI
from sqirl.errors import MissingExtra, SqirlError
from sqirl.play.vec_env import BatchedVecEnv

STACKED = 4
FRAMESKIP = 4


def full_atari_env(env: str, *, num_envs: int, seed: int | None = None) -> VecEnv:
    """Frames of 84×84, four of them stacked, four skipped; rewards clipped to their sign for learning."""
    games = VecMonitor(AtariGames(env, num_envs, seed=seed))  # it sees the game's own rewards
    return VecFrameStack(SignRewards(games), STACKED)


class AtariGames(BatchedVecEnv):
    """ale-py's own vectorised games, whose emulators run on threads, in the form of a `VecEnv`.

    An episode begins with up to 30 frames of no-op and one frame of FIRE. A sticky action replaces FIRE in a quarter of the
    episodes, as it may replace any action of the agent, who has to press FIRE after every lost life. A picture is the
    maximum of the last two of the four frames that an action lasts for, in grey, 84×84. Rewards are those of the game. The
    same seed and actions give the same games on any number of threads. There are as many threads as torch has in this process.
    """

    def __init__(
        self,
        env: str,
        num_envs: int,
        *,
        seed: int | None = None,
        stickiness: float = FULL_ATARI.stickiness,
        max_noops: int = 30,
        fire: bool = True,
        max_frames: int = 108_000,
    ) -> None:
        """`max_noops`: frames of no-op before an episode, at most; `max_frames`: frames after which an episode is cut off."""
        if num_envs < 1:
            raise SqirlError(f"num_envs = {num_envs} is below 1")
        try:
            from ale_py.vector_env import AtariVectorEnv
        except ImportError as error:
            raise MissingExtra("Full-length Atari", "atari,train") from error
        self.games: Any = AtariVectorEnv(
            rom_of_full_length(env),
            num_envs,
            max_num_frames_per_episode=max_frames,
            num_threads=min(num_envs, th.get_num_threads()),
            repeat_action_probability=stickiness,
            autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
            frameskip=FRAMESKIP,
            stack_num=1,  # VecFrameStack does it, with blank frames before a start
            noop_max=max_noops,
            use_fire_reset=fire,
            reward_clipping=False,
        )
        self.render_mode = None
        super().__init__(num_envs, self.games.single_observation_space, self.games.single_action_space)
        self.seed(seed)
        self._step_pending = False

    def reset(self) -> VecEnvObs:
        if self._step_pending:
            # A step whose result was not fetched, as after Ctrl-C: its result would be taken for that of the next step
            self.step_wait()
        seeds = None if self._seeds[0] is None else np.array(self._seeds) % 2**31
        self._reset_seeds()
        self._reset_options()
        observations, _ = self.games.reset(seed=seeds)
        return np.array(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        actions = np.asarray(actions)
        if not np.issubdtype(actions.dtype, np.integer) or not ((actions >= 0) & (actions < self.num_actions)).all():
            # The emulators would never return
            raise SqirlError(f"actions {actions.tolist()} are not all whole numbers in 0..{self.num_actions - 1}")
        self.games.send(actions.astype(np.int64))
        self._step_pending = True

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, details = self.games.recv()
        self._step_pending = False
        ends = terminated | truncated
        infos: list[dict[str, Any]] = [{"lives": lives} for lives in details["lives"].tolist()]
        for lane in np.flatnonzero(ends).tolist():
            infos[lane]["terminal_observation"] = details["final_obs"][lane]
            infos[lane]["TimeLimit.truncated"] = bool(truncated[lane] and not terminated[lane])
        return np.array(observations), rewards.astype(np.float32), ends, infos

    @property
    def num_actions(self) -> int:
        return int(self.games.single_action_space.n)

    def close(self) -> None:
        """The emulators and their threads end with the last reference to them."""
        self.games = None


class SignRewards(VecEnvWrapper):
    """Rewards clipped to their sign: -1, 0 or 1."""

    def reset(self) -> VecEnvObs:
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, ends, infos = self.venv.step_wait()
        return observations, np.sign(rewards), ends, infos
