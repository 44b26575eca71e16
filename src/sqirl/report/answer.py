"""The answer to the question of the page, in one sentence, from the numbers of the report."""

from __future__ import annotations

from dataclasses import dataclass

from sqirl.algorithms.registry import PPO
from sqirl.report.data import ReportData
from sqirl.results.statistics import Estimate

#: The algorithm that the answer is about.
SUBJECT = PPO


@dataclass(frozen=True)
class Answer:
    """How well the effective horizon alone tells what deep RL solves, and how well simpler properties do."""

    games: int
    horizon: str  # the label of the effective horizon
    area: Estimate  # of telling the solved games from the others
    simpler: tuple[tuple[str, Estimate], ...]  # the same for properties that are not an effective horizon

    @property
    def sentence(self) -> str:
        return (
            f"In {self.games} games, the effective horizon alone, computed before any training, tells which ones "
            f"{SUBJECT.label} will solve: AUC {self.area.value:.2f} ({self.area.low:.2f} to {self.area.high:.2f}; chance is 0.5)."
        )


def answer_of(data: ReportData) -> Answer | None:
    """None where it cannot be said: no game is analysed, or all or none of them are solved."""
    leading = data.leading_horizon
    area = leading.found[SUBJECT.label][1]
    if area is None or area.value != area.value:
        return None
    simpler = [(each.label, each.found[SUBJECT.label][1]) for each in data.predictors if each.tolerance is None]
    known = tuple((label, estimate) for label, estimate in simpler if estimate is not None)
    return Answer(leading.rows, leading.label, area, known)
