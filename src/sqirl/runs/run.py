"""One run, from its config to its record: made, trained, evaluated, checkpointed, resumed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage

from sqirl.algorithms.checkpoints import has_checkpoint, remove_checkpoint
from sqirl.algorithms.eager import without_compiler
from sqirl.algorithms.sb3 import quiet_logger
from sqirl.envs.actions import too_many_combinations
from sqirl.envs.description import describe
from sqirl.errors import SqirlError, WorkFailed
from sqirl.evaluation.returns import Evaluation, evaluate_live, evaluate_on_table
from sqirl.play.training_env import training_env
from sqirl.play.vec_env import TableVecEnv
from sqirl.runs import checkpoint
from sqirl.runs.config import RunConfig
from sqirl.runs.curve import VERSIONS, Curve, versions_of
from sqirl.runs.device import check_device
from sqirl.runs.memory import check_memory
from sqirl.runs.policies import save_policy
from sqirl.runs.progress import CHECKPOINT_SECONDS, PROGRESS_SECONDS, RunProgress
from sqirl.runs.record import RunRecord
from sqirl.runs.store import RecordStore, policy_path
from sqirl.runs.target import target_of
from sqirl.runtime.progress import CountProgress

#: Checkpoints of live games hold gigabytes of frames: writing them takes at most this share of the time.
CHECKPOINT_SHARE = 0.05


def perform(
    config: RunConfig,
    store: RecordStore,
    *,
    device: str = "auto",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[RunProgress], None] | None = None,
    drawing: CountProgress | None = None,
    keep_policy: bool = False,
) -> RunRecord:
    """The record of the run: the stored one, or else that of running it now, resumed from its checkpoint if it has one.

    Two processes do not do the same run in the same folder at the same time: the second one waits for the record.

    :param config: the run
    :param store: where its record and its checkpoint are kept
    :param device: "auto", "cpu" or "cuda"
    :param checkpoint_seconds: seconds between checkpoints
    :param progress: called a few times a second
    :param drawing: called while screens are drawn before the run
    :param keep_policy: save the policy beside the record, for `sqirl watch`
    """
    with store.claimed(config):
        found = store.get(config)
        if found is not None and found.error is None:
            return found
        without_compiler()
        run = Run(config, store, device, checkpoint_seconds, progress, drawing)
        record = run.perform()
        if keep_policy:
            save_policy(policy_path(store.folder, config), config, run.model)
        _put(store, record)
        remove_checkpoint(run.checkpoint_path)
        return record


def _put(store: RecordStore, record: RunRecord) -> None:
    try:
        store.put(record)
    except OSError as error:
        raise WorkFailed(
            f"the record '{store.path(record.config)}' cannot be written: {error.strerror}; its checkpoint is kept: make room, "
            "and run the same command again"
        ) from error


class Run:
    """A run in progress."""

    def __init__(
        self,
        config: RunConfig,
        store: RecordStore,
        device: str,
        checkpoint_seconds: float,
        progress: Callable[[RunProgress], None] | None,
        drawing: CountProgress | None,
    ) -> None:
        self.config, self.checkpoint_seconds, self.progress = config, checkpoint_seconds, progress
        self.spec, self.description = config.spec, describe(config.env_id, variant=config.variant)
        self.spec.check_budget(config.chosen, self.description, config.timesteps)
        self.curve = Curve(config, target_of(self.description))
        self.checkpoint_path = store.folder / f"{config.digest}.checkpoint"
        self.seconds_before = 0.0
        self._eval_env: VecEnv | None = None
        self.env = self._make_env(self.spec.num_envs(config.chosen, self.description), drawing)
        base = self.env.unwrapped
        self.table = base.table if isinstance(base, TableVecEnv) else None
        self.model = self._make_model(check_device(device))
        self.model.set_logger(quiet_logger())
        check_memory(self.spec, self.model, config.timesteps)

    def _make_env(self, num_envs: int, drawing: CountProgress | None) -> VecEnv:
        return training_env(self.description, live=self.config.live, num_envs=num_envs, progress=drawing)

    def _make_model(self, device: str) -> BaseAlgorithm:
        config = self.config
        try:
            return self.spec.make_model(
                self.env, self.description, config.chosen, timesteps=config.timesteps, seed=config.seed, device=device
            )
        except MemoryError as error:
            raise SqirlError(f"{config.label} does not fit into memory: {error}") from error
        except (AssertionError, NotImplementedError, ValueError) as error:  # raised by Stable-Baselines3 for spaces
            reason = (
                too_many_combinations(self.env.action_space) or (str(error) or type(error).__name__).splitlines()[0]
            )
            raise SqirlError(f"{config.algorithm} cannot be trained on {config.env_id}: {reason}") from error

    def perform(self) -> RunRecord:
        if has_checkpoint(self.checkpoint_path):
            points, self.seconds_before = checkpoint.load(self.checkpoint_path, self.spec, self.model)
            self.curve = Curve(self.config, self.curve.target, points)
            if self.table is None:  # a live game starts new episodes; they must not repeat its first ones
                self.env.seed(self._live_seed(self.model.num_timesteps))
        self._began = time.monotonic()
        is_full_length = self.description.is_full_length
        if is_full_length and not self.curve.points:
            self.evaluate()  # no analysis says where the curve of a full-length game begins
        if not self.curve.solved:
            done = self.model.num_timesteps
            self.model.learn(self.config.timesteps - done, callback=_Watch(self), reset_num_timesteps=not done)
            points = self.curve.points
            if not points or points[-1].steps < self.model.num_timesteps or not self.curve.solved:
                self.evaluate()  # what was learned last
        return self.curve.record(
            self.model.num_timesteps,
            self.seconds,
            played_from="table" if self.table is not None else "live",
            device=self.model.device.type,
            precision=getattr(self.model, "precision", "float32"),  # of Stable-Baselines3's own classes
            iterations=getattr(self.model, "iteration", None),
            versions=versions_of((*VERSIONS, *(["ale-py"] if is_full_length else []))),
        )

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._began

    def evaluate(self) -> None:
        """Add a point to the curve; its randomness comes from the seed and the number of steps."""
        steps = self.model.num_timesteps
        found = self._evaluation(steps)
        self.curve.add(steps, found.mean, found.exact)

    def _evaluation(self, steps: int) -> Evaluation:
        if self.table is not None:
            rng = np.random.default_rng([self.config.seed, steps])
            policy = self.spec.table_policy(self.model, self.table)
            return evaluate_on_table(policy, self.table, episodes=self.config.eval_episodes, rng=rng)
        if self._eval_env is None:
            env = self._make_env(min(self.description.suite.max_live_envs, self.config.eval_episodes), None)
            self._eval_env = VecTransposeImage(env) if isinstance(self.model.env, VecTransposeImage) else env
        return evaluate_live(
            self.model, self._eval_env, episodes=self.config.eval_episodes, seed=self._live_seed(steps)
        )

    def _live_seed(self, steps: int) -> int:
        """A seed for a live game after so many steps."""
        return (self.config.seed * 1_000_003 + steps) % 2**31

    def save_checkpoint(self) -> None:
        """Write a checkpoint. If there is no room for it, the run goes on from where it is, and can be resumed from the last."""
        try:
            checkpoint.save(self.checkpoint_path, self.spec, self.model, self.curve.points, self.seconds)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
            reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0]
            warnings.warn(
                f"the checkpoint '{self.checkpoint_path}' cannot be written ({reason}); the run goes on", stacklevel=2
            )


class _Watch(BaseCallback):
    """Evaluates on schedule, stops when solved, reports progress, and saves checkpoints between rollouts."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self._next = (run.model.num_timesteps // run.config.eval_every + 1) * run.config.eval_every
        self._reported = time.monotonic()
        self._next_save = self._reported + run.checkpoint_seconds
        self._first_steps = run.model.num_timesteps

    def _on_step(self) -> bool:
        run, now = self.run, time.monotonic()
        if self.model.num_timesteps >= self._next:
            self._next += run.config.eval_every * (1 + (self.model.num_timesteps - self._next) // run.config.eval_every)
            run.evaluate()
        if run.progress is not None and now - self._reported > PROGRESS_SECONDS:
            self._reported = now
            speed = (self.model.num_timesteps - self._first_steps) / max(now - run._began, 1e-9)
            last = run.curve.points[-1] if run.curve.points else None
            target = run.curve.target
            run.progress(RunProgress(run.config, self.model.num_timesteps, speed, last, target.optimal, target.random))
        return not run.curve.solved

    def _on_rollout_start(self) -> None:
        began = time.monotonic()
        if began >= self._next_save and self.model.num_timesteps > self._first_steps:
            self.run.save_checkpoint()
            now = time.monotonic()
            self._next_save = now + max(self.run.checkpoint_seconds, (now - began) / CHECKPOINT_SHARE)
