"""One run, from its config to its record: made, trained, evaluated, checkpointed, and picked up where it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage

from sqirl.algorithms import presets
from sqirl.algorithms.evaluate import Evaluation, evaluate_live, evaluate_on_table
from sqirl.algorithms.full_atari import MOST_GAMES
from sqirl.algorithms.making import training_env
from sqirl.algorithms.table_vec_env import TableVecEnv
from sqirl.envs.ids import is_bridge_id, is_full_atari, parse_id
from sqirl.errors import SqirlError, WorkFailed
from sqirl.experiments import checkpoint
from sqirl.experiments.memory import check_memory
from sqirl.experiments.search import Cost
from sqirl.experiments.target import target_of
from sqirl.mdp.screens import Progress
from sqirl.results.records import Point, RecordStore, RunConfig, RunRecord, reaches

#: Packages whose versions a record tells.
VERSIONS = ("sqirl", "torch", "stable-baselines3", "numpy")
#: Seconds between checkpoints, unless asked otherwise; whatever kills a run loses no more than that.
CHECKPOINT_SECONDS = 60.0
#: Checkpoints of live games hold gigabytes of frames: at most this share of the time goes into writing them.
CHECKPOINT_SHARE = 0.05
#: Seconds between two words on progress.
PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    config: RunConfig
    steps: int
    steps_per_second: float
    last: Point | None
    optimal_return: float | None


def setting_of(env_id: str) -> presets.Setting:
    if is_bridge_id(env_id):
        return presets.BRIDGE_SETTINGS[parse_id(env_id).suite]
    return presets.FULL_ATARI if is_full_atari(env_id) else presets.OWN


def perform(
    config: RunConfig,
    store: RecordStore,
    *,
    device: str = "cpu",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[RunProgress], None] | None = None,
    drawing: Progress | None = None,
) -> RunRecord:
    """The record of the run: the one there is, or else that of running it now, on from its checkpoint if it has one.

    Nobody else does the same run in the same folder at the same time: whoever comes second waits for the record.
    """
    with store.claimed(config):
        found = store.get(config)
        if found is not None and found.error is None:
            return found
        run = Run(config, store, device, checkpoint_seconds, progress, drawing)
        record = run.perform()
        store.put(record)
        run.checkpoint_path.unlink(missing_ok=True)
        return record


class Run:
    """One run under way."""

    def __init__(
        self,
        config: RunConfig,
        store: RecordStore,
        device: str,
        checkpoint_seconds: float,
        progress: Callable[[RunProgress], None] | None,
        drawing: Progress | None,
    ) -> None:
        self.config, self.checkpoint_seconds, self.progress = config, checkpoint_seconds, progress
        self.target = target_of(config.env_id)
        self.checkpoint_path = store.folder / f"{config.digest}.checkpoint"
        self.curve: list[Point] = []
        self.seconds_before = 0.0
        self._eval_env: VecEnv | None = None
        num_envs = _num_envs(config)
        self.env = _make_env(config, num_envs, drawing)
        base = self.env.unwrapped
        self.table = base.table if isinstance(base, TableVecEnv) else None
        self.model = _make_model(config, self.env, check_device(device))
        self.model.set_logger(Logger(folder=None, output_formats=[]))  # or each run leaves a folder in /tmp
        check_memory(self.model, config.timesteps)

    def perform(self) -> RunRecord:
        if self.checkpoint_path.is_file():
            self.curve, self.seconds_before = checkpoint.load(self.checkpoint_path, self.model)
            if self.table is None:  # the game starts anew: not with the episodes that it had at first
                self.env.seed(self._chance(self.model.num_timesteps))
        self._began = time.monotonic()
        whole_game = is_full_atari(self.config.env_id)
        if whole_game and not self.curve:
            self.evaluate()  # no analysis tells where the curve of a whole game begins
        if not self.solved:
            done = self.model.num_timesteps
            self.model.learn(self.config.timesteps - done, callback=_Watch(self), reset_num_timesteps=not done)
            if not self.curve or self.curve[-1].steps < self.model.num_timesteps or not self.solved:
                self.evaluate()  # what was learned last
        return RunRecord(
            self.config,
            tuple(self.curve),
            self.model.num_timesteps,
            round(self.seconds, 3),
            self.target.optimal,
            self.target.tolerance,
            self.target.random,
            "table" if self.table is not None else "live",
            self.model.device.type,
            versions={name: version(name) for name in (*VERSIONS, *(["ale-py"] if whole_game else []))},
        )

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._began

    @property
    def solved(self) -> bool:
        """By the rule that the run stops by; without a true return, by the mean."""
        if self.config.stop == "never" or self.target.optimal is None or not self.curve:
            return False
        last = self.curve[-1]
        by_mean = self.config.stop == "mean" or last.exact is None
        value = last.mean if by_mean or last.exact is None else last.exact
        return reaches(value, self.target.optimal, self.target.tolerance)

    def evaluate(self) -> None:
        """Add a point to the curve; its chance comes from the seed and the steps, whenever it is asked."""
        steps = self.model.num_timesteps
        found = self._evaluation(steps)
        if not np.isfinite(found.mean):
            raise WorkFailed(
                f"the mean return after {steps:,} steps is {found.mean}: {self.config.env_id} pays no numbers"
            )
        point = Point(steps, found.mean, found.exact)
        if point not in self.curve:  # learning after the last step makes another one of the same steps
            self.curve.append(point)

    def _evaluation(self, steps: int) -> Evaluation:
        if self.table is not None:
            rng = np.random.default_rng([self.config.seed, steps])
            return evaluate_on_table(self.model, self.table, episodes=self.config.eval_episodes, rng=rng)
        if self._eval_env is None:
            env = _make_env(self.config, min(_most_lanes(self.config), self.config.eval_episodes), None)
            self._eval_env = VecTransposeImage(env) if isinstance(self.model.env, VecTransposeImage) else env
        return evaluate_live(self.model, self._eval_env, episodes=self.config.eval_episodes, seed=self._chance(steps))

    def _chance(self, steps: int) -> int:
        """A seed for a live game after so many steps."""
        return (self.config.seed * 1_000_003 + steps) % 2**31

    def save_checkpoint(self) -> None:
        checkpoint.save(self.checkpoint_path, self.model, self.curve, self.seconds)


class _Watch(BaseCallback):
    """Evaluates on schedule, stops when solved, reports, and saves checkpoints where the model can be picked up again."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self._next = (run.model.num_timesteps // run.config.eval_every + 1) * run.config.eval_every
        self._told = time.monotonic()
        self._next_save = self._told + run.checkpoint_seconds
        self._first_steps = run.model.num_timesteps

    def _on_step(self) -> bool:
        run, now = self.run, time.monotonic()
        if self.model.num_timesteps >= self._next:
            self._next += run.config.eval_every * (1 + (self.model.num_timesteps - self._next) // run.config.eval_every)
            run.evaluate()
        if run.progress is not None and now - self._told > PROGRESS_SECONDS:
            self._told = now
            speed = (self.model.num_timesteps - self._first_steps) / max(now - run._began, 1e-9)
            last = run.curve[-1] if run.curve else None
            run.progress(RunProgress(run.config, self.model.num_timesteps, speed, last, run.target.optimal))
        return not run.solved

    def _on_rollout_start(self) -> None:
        began = time.monotonic()
        if began >= self._next_save and self.model.num_timesteps > self._first_steps:
            self.run.save_checkpoint()
            now = time.monotonic()
            self._next_save = now + max(self.run.checkpoint_seconds, (now - began) / CHECKPOINT_SHARE)


def _num_envs(config: RunConfig) -> int:
    """PPO and DQN play eight envs; live SQIRL and GORP as many as divide their episodes, so that no lane idles."""
    if config.algorithm in ("ppo", "dqn"):
        return presets.NUM_ENVS
    episodes = Cost(config.env_id, config.algorithm).episodes(config.k or 1, config.m or 1)
    return max(n for n in range(1, _most_lanes(config) + 1) if episodes % n == 0)


def _most_lanes(config: RunConfig) -> int:
    """How many live envs to play at once where nothing in the paper says it."""
    return MOST_GAMES if is_full_atari(config.env_id) else presets.NUM_ENVS


def _make_env(config: RunConfig, num_envs: int, drawing: Progress | None) -> VecEnv:
    return training_env(config.env_id, live=config.live, num_envs=num_envs, progress=drawing)


def _options(config: RunConfig) -> dict[str, Any]:
    if config.algorithm in ("sqirl", "gorp"):
        return {"k": config.k, "m": config.m}
    if config.algorithm == "ppo":
        return {"rollout": config.rollout}
    return {"epsilon_steps": config.epsilon_steps, "timesteps": config.timesteps}


def check_device(device: str) -> str:
    """Stable-Baselines3 takes the CPU in silence where there is no GPU; hours later somebody wonders."""
    try:
        kind = th.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise SqirlError(f"no device '{device}'; there are cpu, cuda and cuda:0, cuda:1, …")
    if kind == "cuda" and not th.cuda.is_available():
        raise SqirlError(f"no GPU for --device {device}: torch {th.__version__} sees none; take --device cpu")
    return device


def _make_model(config: RunConfig, env: VecEnv, device: str) -> BaseAlgorithm:
    setting = setting_of(config.env_id)
    try:
        return presets.make_model(config.algorithm, env, setting, _options(config), seed=config.seed, device=device)
    except MemoryError as error:
        raise SqirlError(f"{config.label} does not fit into memory: {error}") from error
    except (AssertionError, NotImplementedError, ValueError) as error:  # what Stable-Baselines3 says of spaces
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise SqirlError(f"{config.algorithm} cannot be trained on {config.env_id}: {reason}") from error
