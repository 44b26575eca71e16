"""What deep SQIRL and GORP share as Stable-Baselines3 algorithms: iterations of whole episodes."""

from __future__ import annotations

import json
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import safe_mean
from stable_baselines3.common.vec_env import VecEnv

from sqirl.algorithms.checks import check_k_and_m
from sqirl.algorithms.sb3 import quiet_logger
from sqirl.envs.actions import too_many_combinations
from sqirl.envs.description import describe
from sqirl.envs.suites import OWN
from sqirl.errors import SqirlError
from sqirl.play.episodes import Act, Episodes, play_episodes
from sqirl.play.own_env import EPISODE_LIMIT
from sqirl.play.players import Player
from sqirl.play.training_env import horizon_of, player_of, training_env

#: Plays so many episodes with these actions; None if they were stopped before their end.
PlayEpisodes = Callable[[Act, int], Episodes | None]


class IteratedAlgorithm(BaseAlgorithm):
    """Iteration i plays whole episodes, learns from them, and fixes what is done at timestep i.

    All randomness of iteration i comes from (seed, i). A run that is stopped and resumed from its last whole iteration is
    therefore the same as one that was never stopped. The arguments are those of `SQIRL` and `GORP`.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {}

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        *, k: int, m: int, gamma: float = 1.0, horizon: int | None = None, live: bool = False,
        learning_rate: float | Schedule = 0.0, policy_kwargs: dict[str, Any] | None = None, stats_window_size: int = 100,
        tensorboard_log: str | None = None, verbose: int = 0, seed: int | None = None,
        device: th.device | str = "auto", _init_setup_model: bool = True,
    ) -> None:  # fmt: skip
        if isinstance(policy, str) and policy not in self.policy_aliases:
            known = " or ".join(f"'{name}'" for name in self.policy_aliases)
            raise SqirlError(f"unknown policy '{policy}'; {type(self).__name__} has {known}")
        if not 0 < gamma <= 1:
            raise SqirlError(f"gamma = {gamma} is outside (0, 1]")
        if isinstance(env, str):
            description = describe(env)
            is_limited = horizon is not None and description.suite is OWN  # the horizon then ends its episodes
            env = description.make_env() if is_limited else training_env(description, live=live, verbose=verbose)
        if env is None and _init_setup_model:
            raise SqirlError(f"{type(self).__name__} needs an env: an id, a Gymnasium env or a VecEnv")
        if seed is not None and not 0 <= seed < 2**32:
            raise SqirlError(f"seed = {seed} is outside 0..{2**32 - 1}")
        check_actions(env)
        env = ending_after(env, horizon)
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            support_multi_env=True,
            seed=int(np.random.default_rng(seed).integers(2**31)) if seed is None else seed,
            supported_action_spaces=(gym.spaces.Discrete,),
        )
        self.k, self.m, self.gamma = k, m, gamma
        self.asked_horizon = horizon
        self.horizon = horizon or (horizon_of(self.env) if self.env is not None else None)
        self.iteration = 0
        self._player: Player | None = None
        if _init_setup_model:
            self._setup_model()

    # What a subclass does -------------------------------------------------------------------------------------------

    def iterate(self, play: PlayEpisodes) -> bool:
        """One iteration; False if it was stopped before its end, and then nothing of it counts."""
        raise NotImplementedError

    def reset_learning(self) -> None:
        """Discard everything that was learned, for another run of the algorithm."""
        raise NotImplementedError

    # The loop -------------------------------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> IteratedAlgorithm:
        """Iterate until every timestep is fixed or the budget is spent. An iteration that the budget cuts short is dropped."""
        if self.env is None:
            raise SqirlError("there is no env to learn in; give one with set_env, or to load")
        if reset_num_timesteps and self.iteration:
            self.reset_learning()
            self.iteration = 0
        if self.tensorboard_log is None and not self._custom_logger:
            self.set_logger(quiet_logger(self.verbose))
        budget, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name or type(self).__name__, progress_bar
        )
        callback.on_training_start(locals(), globals())
        while (self.horizon is None or self.iteration < self.horizon) and self.num_timesteps < budget:
            callback.on_rollout_start()
            if not self.iterate(self._episode_player(callback, budget)):
                break
            self.iteration += 1
            if log_interval and self.iteration % log_interval == 0:
                self.dump_logs()
            if self._stop_requested:
                break
        if not self.iteration:
            warnings.warn(
                f"{self.num_timesteps:,} steps were too few for one iteration of m = {self.m} episodes: nothing is learned "
                "(if episodes never end, give horizon=)",
                stacklevel=2,
            )
        callback.on_training_end()
        return self

    def _episode_player(self, callback: BaseCallback, budget: int) -> PlayEpisodes:
        """`play(act, episodes)` for one iteration: counts the steps and calls the callback."""
        seed = np.random.SeedSequence([self._seed, self.iteration])
        self._stop_requested = False

        def on_step(
            steps: int, infos: list[dict[str, Any]], rewards: NDArray[np.float64], dones: NDArray[np.bool_]
        ) -> bool:
            self.num_timesteps += steps
            self._update_info_buffer(infos)
            self._update_current_progress_remaining(self.num_timesteps, budget)
            callback.update_locals(locals())
            self._stop_requested = not callback.on_step()
            return not self._stop_requested and self.num_timesteps < budget

        def play(act: Act, count: int) -> Episodes | None:
            episodes = play_episodes(self.player, act, count, seed.spawn(1)[0], on_step, first=self._first_kept())
            callback.on_rollout_end()
            return episodes

        return play

    def generator(self, purpose: int) -> np.random.Generator:
        """A generator of this iteration, for randomness other than that of the env."""
        return np.random.default_rng([self._seed, self.iteration, purpose])

    @property
    def _seed(self) -> int:
        assert self.seed is not None
        return self.seed

    @property
    def player(self) -> Player:
        """What plays the episodes: from the table of the env, or live."""
        if self._player is None:
            if self.env is None:
                raise SqirlError("there is no env to learn in; give one with set_env")
            self._player = player_of(self.env, buffer_size=self._transitions_kept())
        return self._player

    def _transitions_kept(self) -> int:
        """How many transitions of a live env are to be remembered."""
        return 1

    def _first_kept(self) -> int:
        """The first timestep of an episode whose frame is to be remembered."""
        return EPISODE_LIMIT

    def _forget_episodes(self) -> None:
        """Discard what was observed; called when the env is replaced."""

    def dump_logs(self) -> None:
        """Write the scalars of Stable-Baselines3's names."""
        elapsed = max((time.time_ns() - self.start_time) / 1e9, 1e-9)
        if self.ep_info_buffer:
            self.logger.record("rollout/ep_rew_mean", safe_mean([info["r"] for info in self.ep_info_buffer]))
            self.logger.record("rollout/ep_len_mean", safe_mean([info["l"] for info in self.ep_info_buffer]))
        self.logger.record("time/iterations", self.iteration, exclude="tensorboard")
        self.logger.record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / elapsed))
        self.logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    # Stable-Baselines3's own ------------------------------------------------------------------------------------------

    def _setup_model(self) -> None:
        if self.horizon is not None:
            check_k_and_m(self.k, self.m, self.horizon)
        else:
            check_k_and_m(self.k, self.m, max(self.k, 1))
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        self.policy = self.policy_class(
            self.observation_space, self.action_space, self.lr_schedule, **self._policy_arguments()
        ).to(self.device)

    def _policy_arguments(self) -> dict[str, Any]:
        return dict(self.policy_kwargs)

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        check_actions(env)
        super().set_env(ending_after(env, self.asked_horizon), force_reset)
        self._player = None
        self._forget_episodes()
        assert self.env is not None
        self.horizon = self.asked_horizon or horizon_of(self.env) or self.horizon

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """Actions, and the state to pass in with the next observations: the timestep of each env."""
        return self.policy.predict(observation, state, episode_start, deterministic)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_player"]

    @classmethod
    def load(cls, path: Any, env: GymEnv | None = None, device: Any = "auto", **kwargs: Any) -> Any:  # type: ignore[override]
        """A saved model; one of another env, k or m is refused in one line.

        The format is that of Stable-Baselines3. Reading it runs code that the file contains: only load models that you trust. A
        file that does not say that it is a model of this class is refused before that.
        """
        from stable_baselines3.common.save_util import load_from_zip_file

        if isinstance(path, str | Path):
            cls._check_saved(path)
        try:
            data, _, _ = load_from_zip_file(path, device="cpu", load_data=True)
        except Exception as error:
            raise SqirlError(f"'{path}' is not a model saved by Stable-Baselines3 or sqirl: {error}") from error
        assert data is not None
        for name in ("k", "m"):
            if name in kwargs and kwargs[name] != data[name]:
                raise SqirlError(f"'{path}' was trained with {name} = {data[name]}, not {kwargs[name]}")
        env = ending_after(env, data.get("asked_horizon"))
        try:
            return super().load(path, env, device, **kwargs)
        except (ValueError, RuntimeError) as error:
            raise SqirlError(f"'{path}' does not fit this env: {str(error).splitlines()[0]}") from error

    @classmethod
    def _check_saved(cls, path: str | Path) -> None:
        """Refuse a file that is no model of this class, by what it says of itself; nothing in it is unpickled."""
        found = next((file for end in ("", ".zip") if (file := Path(f"{path}{end}")).is_file()), None)
        if found is None:
            raise SqirlError(f"no saved model at '{path}'")
        try:
            with zipfile.ZipFile(found) as archive:
                data = json.loads(archive.read("data"))
            module, is_ours = str(data["policy_class"]["__module__"]), "iteration" in data
        except (OSError, zipfile.BadZipFile, LookupError, TypeError, ValueError, RecursionError) as error:
            raise SqirlError(f"'{path}' is not a model saved by Stable-Baselines3 or sqirl") from error
        packages = tuple(known.__module__.rpartition(".")[0] + "." for known in cls.policy_aliases.values())
        if not is_ours or not module.startswith(packages):
            raise SqirlError(f"'{path}' holds no model of {cls.__name__}")


def ending_after(env: Any, horizon: int | None) -> Any:
    """The env with episodes of at most `horizon` steps, where that was asked for."""
    if horizon is None or env is None:
        return env
    check_k_and_m(1, 1, horizon)
    if isinstance(env, VecEnv):
        known = horizon_of(env)
        if known is None or known > horizon:
            raise SqirlError(
                f"horizon = {horizon}, but the episodes of these envs may last {known or 'for ever'}; "
                "take an id with that horizon, or wrap each env in gymnasium.wrappers.TimeLimit"
            )
        return env
    return gym.wrappers.TimeLimit(env, horizon)


def check_actions(env: Any) -> None:
    if env is not None and not isinstance(env.action_space, gym.spaces.Discrete):
        reason = too_many_combinations(env.action_space)
        raise SqirlError(
            f"the env has actions {env.action_space}; SQIRL and GORP need Discrete ones{f', but {reason}' if reason else ''}"
        )
