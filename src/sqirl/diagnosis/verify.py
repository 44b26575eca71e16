"""`verify`: trains an algorithm for the predicted number of steps and compares."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqirl.algorithms.registry import PPO
from sqirl.diagnosis.facts import GIVEN, Facts
from sqirl.diagnosis.features import allowed_loss, good_return
from sqirl.diagnosis.model import FIRST, Prediction
from sqirl.diagnosis.predict import ALGORITHMS
from sqirl.diagnosis.result import Diagnosis
from sqirl.diagnosis.words import interval_in_words, number, round_steps
from sqirl.envs.description import describe
from sqirl.envs.naming import HOLD, HORIZON, name_with
from sqirl.errors import MissingExtra, SqirlError
from sqirl.results.statistics import BUDGET
from sqirl.runs.config import RunConfig
from sqirl.runs.progress import RunProgress
from sqirl.runs.record import Point

#: Steps to train for, at least.
LEAST = 20_000
#: What a run says about its prediction.
RIGHT, WRONG, OPEN = "right", "wrong", "open"


@dataclass(frozen=True)
class Verification:
    """A run beside its prediction."""

    algorithm: str
    predicted: float
    low: float
    high: float
    budget: int  # the upper end of the interval, at most five million
    target: float  # the return that counts as solved
    best: float | None  # the best mean of an evaluation
    reached_at: int | None  # steps of the first evaluation that reached the target
    steps: int  # that were trained
    eval_every: int
    curve: tuple[tuple[int, float], ...] = ()  # (steps, mean return) of each evaluation

    @property
    def cut(self) -> bool:
        """Did the time end before the steps?"""
        return self.reached_at is None and self.steps < self.budget

    @property
    def _cannot_miss(self) -> bool:
        """Is every number of steps that is still possible in the interval? Its upper end is beyond the largest budget."""
        return self.high > BUDGET and self.steps >= self.low

    @property
    def outcome(self) -> str:
        """Is the number of steps in the predicted interval? Evaluations are apart, so it is known up to their distance."""
        if self.reached_at is not None:
            early = self.reached_at < self.low and self.low > 10**FIRST
            late = self.reached_at - self.eval_every > self.high
            return WRONG if early or late else RIGHT
        if self.cut and not self._cannot_miss:
            return OPEN
        return RIGHT if self.high > BUDGET else WRONG

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Verification:
        """The inverse of `to_dict`, also after a trip through JSON."""
        known = {name: value for name, value in record.items() if name != "outcome"}
        return cls(**{**known, "curve": tuple((steps, mean) for steps, mean in record["curve"])})

    def __str__(self) -> str:
        name = ALGORITHMS[self.algorithm]
        predicted = f"predicted {interval_in_words(self.low, self.high)} steps"
        if self.reached_at is not None:
            said = f"{name} reached {number(self.target)} after {self.reached_at:,} steps ({predicted})"
            return f"{said}: the prediction was {self.outcome}"
        best = "nothing was evaluated" if self.best is None else f"its best mean return was {number(self.best)}"
        limit = f"within {round_steps(self.steps)} steps"
        said = f"{name} did not reach {number(self.target)} {limit}: {best} ({predicted})"
        if self.outcome == OPEN:
            return (
                f"{said}. The time ended before the {round_steps(self.budget)} steps of the budget: nothing is decided"
            )
        return f"{said}: the prediction was {self.outcome}"


class _Enough(Exception):
    """Ends a run that has shown what it was to show."""


class Watch:
    """Notes the evaluations of a run, and ends it when the target is reached or the time is over."""

    def __init__(self, target: float, seconds: float | None) -> None:
        self.target = target
        self.until = math.inf if seconds is None else time.process_time() + seconds
        self.points: list[Point] = []
        self.steps = 0

    def __call__(self, progress: RunProgress) -> None:
        self.steps = progress.steps
        if progress.last is not None and progress.last not in self.points:
            self.points.append(progress.last)
        if self.reached_at is not None or time.process_time() > self.until:
            raise _Enough

    @property
    def reached_at(self) -> int | None:
        return next((point.steps for point in self.points if point.mean >= self.target), None)


def verify(
    env: str, diagnosis: Diagnosis, *, algorithm: str = PPO.name, seed: int = 0, seconds: float | None = None
) -> Verification:
    """Train with the presets for the upper end of the predicted interval, at most five million steps.

    The run ends when an evaluation reaches the return that counts as solved. What was analysed is trained: where a step counter
    was held, with the counter held.

    :param env: the text that names the environment
    :param diagnosis: its diagnosis
    :param algorithm: one of `ALGORITHMS`
    :param seed: of the run
    :param seconds: of the processor, after which the run is cut; None lets it end
    """
    found = [prediction for prediction in diagnosis.predictions if prediction.algorithm == algorithm]
    if not found:
        raise SqirlError(f"there is no prediction for {diagnosis.facts.env_id}, so there is nothing to verify")
    name, budget = _trained_name(_analysed_name(env, diagnosis), diagnosis.facts), budget_of(found[0])
    try:
        import torch

        from sqirl.experiments.protocol import planned_run
    except ModuleNotFoundError as error:
        raise MissingExtra("PyTorch or Stable-Baselines3", "train") from error
    torch.set_num_threads(1)  # the networks are small
    config = planned_run(algorithm, name, seed=seed, timesteps=budget, keep_going=True)
    watch = train_until(config, target_of(diagnosis), seconds)
    best = max((point.mean for point in watch.points), default=None)
    return Verification(
        algorithm, found[0].steps, *found[0].interval, budget, watch.target, best, watch.reached_at, watch.steps,
        config.eval_every, tuple((point.steps, point.mean) for point in watch.points),
    )  # fmt: skip


def budget_of(prediction: Prediction) -> int:
    """The steps to train for: the upper end of the interval, at most five million."""
    return int(min(max(prediction.interval[1], LEAST), BUDGET))


def train_until(config: RunConfig, target: float, seconds: float | None) -> Watch:
    """Train until an evaluation reaches the target, for so many seconds of the processor, or to the end of the budget."""
    watch = Watch(target, seconds)
    _train(config, watch)
    return watch


def _train(config: RunConfig, watch: Watch) -> None:
    """Train until the watch ends it, or to the end of the budget."""
    from sqirl.runs.perform import perform_all
    from sqirl.runs.store import RecordStore

    with tempfile.TemporaryDirectory(prefix="sqirl-verify-") as folder:
        try:
            [record] = perform_all(
                [config],
                RecordStore(Path(folder)),
                checkpoint_seconds=math.inf,
                progress=watch,
                device="cpu",
                alone=True,
            )
        except _Enough:
            return
    if record.error is not None:
        raise SqirlError(f"training failed: {record.error}")
    watch.points, watch.steps = list(record.curve), record.steps


def _analysed_name(env: str, diagnosis: Diagnosis) -> str:
    """The name of what was analysed: a step counter may have been held."""
    held = diagnosis.mdp.provenance.get("held") if diagnosis.mdp is not None else None
    return name_with(env, {HOLD: list(held)}) if held else env


def _trained_name(env: str, facts: Facts) -> str:
    """The name of the env to train, with the horizon of the diagnosis."""
    description = describe(env)
    if description.file is not None:
        raise SqirlError(
            f"'{description.file}' is a table; there is no env to train: give --verify an id or module:Class"
        )
    if facts.horizon_is != GIVEN or facts.horizon == description.horizon:
        return env
    if description.is_bridge or description.is_full_length:
        raise SqirlError(
            f"{env} cannot be trained with a horizon of {facts.horizon}; leave --horizon out, or give the id of that horizon"
        )
    return name_with(env, {HORIZON: facts.horizon})


def target_of(diagnosis: Diagnosis) -> float:
    """The return that counts as solved: of the optimum, or of the best return that was seen.

    An optimum that is known only within an interval may be as low as its lower end. That of an estimated MDP is too high on
    average, because the best action may be a lucky one.
    """
    analysis = diagnosis.analysis
    if analysis is not None:
        best, _ = analysis.intervals.get("optimal_return", (analysis.optimal_return, None))
        return best - allowed_loss(analysis)
    assert diagnosis.samples is not None
    return good_return(diagnosis.samples)
