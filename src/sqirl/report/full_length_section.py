"""The section of docs/training.md on full-length Atari games."""

from __future__ import annotations

from sqirl.envs.suites import FULL_ATARI
from sqirl.report.data import ReportData
from sqirl.report.full_length import FullLengthRun
from sqirl.report.markdown import table, wrapped
from sqirl.results.random_play import CLEAR_ERRORS, IN_A_ROW

#: The figure, in the folder of the docs.
PICTURE = "images/full-length.png"


def full_length_section(data: ReportData) -> list[str]:
    """Learning curves and a table; nothing if no game was run."""
    if not data.full_length_runs:
        return []
    header = ["game", "algorithm", "variant", "setting", "seeds", "steps", "random play", "before", "last evaluations", "best",
              "above random"]  # fmt: skip
    return [
        "## Full-length Atari",
        "",
        *wrapped(
            f"Full-length games as in the paper's Figure 4, which trains for {FULL_ATARI.timesteps:,} steps with five seeds. A "
            f"number is the mean return of {FULL_ATARI.eval_episodes} episodes, the median over seeds: before training, in the "
            f"last {IN_A_ROW} evaluations, and in the best one. *Above random*: the last {IN_A_ROW} evaluations are all above "
            f"the mean of random play by more than {CLEAR_ERRORS:g} standard errors of a mean of {FULL_ATARI.eval_episodes} "
            "episodes. Random play was measured with 100 episodes of each game."
        ),
        *wrapped(
            "The paper has no table for these games. Its text says that GORP performs poorly, and that SQIRL has a higher reward "
            "than both PPO and DQN in three of the six games and a lower one than both in only two."
        ),
        f"![learning curves]({PICTURE})",
        "",
        *table(header, [_row(run) for run in data.full_length_runs], left=4),
    ]


def _row(run: FullLengthRun) -> list[str]:
    above = {True: "yes", False: "no", None: ""}[run.above_random]
    last = ", ".join(f"{mean:.4g}" for mean in run.last)
    random = None if run.random is None else run.random.mean
    numbers = [_number(random), _number(run.before), last, _number(run.best)]
    return [run.game, run.algorithm.label, run.variant, run.setting, str(run.seeds), f"{run.steps:,}", *numbers, above]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
