"""Full-length Atari games: the evaluations of each algorithm, and whether the last ones are above random play."""

from __future__ import annotations

from dataclasses import dataclass

from sqirl.algorithms.registry import algorithm
from sqirl.algorithms.spec import AlgorithmSpec
from sqirl.report.learning_curve import LearningCurve
from sqirl.results.outcomes import Outcome
from sqirl.results.random_play import IN_A_ROW, RandomPlay, is_above, random_play_of


@dataclass(frozen=True)
class FullLengthRun:
    """The runs of one algorithm on one game: medians over seeds of the mean returns of evaluations."""

    game: str
    algorithm: AlgorithmSpec
    variant: str
    setting: str
    seeds: int
    steps: int  # of the longest run
    before: float | None  # before training
    last: tuple[float, ...]  # the last evaluations, at most IN_A_ROW
    best: float | None
    random: RandomPlay | None
    above_random: bool | None  # None: not known
    device: str


def full_length_run(game: str, outcome: Outcome, curve: LearningCurve) -> FullLengthRun:
    """What the tables show of an outcome and its learning curve."""
    means = dict(zip(curve.steps.tolist(), curve.median.tolist(), strict=True))
    before, random = means.pop(0, None), random_play_of(outcome.env_id)
    after = list(means.values())
    return FullLengthRun(
        game,
        algorithm(outcome.algorithm),
        outcome.variant,
        outcome.setting,
        len(outcome.records),
        max(record.steps for record in outcome.records),
        before,
        tuple(after[-IN_A_ROW:]),
        max(after, default=None),
        random,
        is_above(after, random),
        outcome.records[0].device,
    )
