"""The page docs/training.md: our runs and the paper's results, as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sqirl.algorithms.registry import GORP, SQIRL, algorithm, algorithms
from sqirl.analysis.bounds import EPSILON
from sqirl.envs.suites import ATARI, FULL_ATARI
from sqirl.experiments.theory import FIRST_M, SEEDS, TheoryPoint
from sqirl.report.data import ReportData
from sqirl.results.outcomes import Outcome
from sqirl.results.statistics import WITHIN_FACTOR

#: Characters in a line of the page.
LINE_WIDTH = 120


def training_page(data: ReportData, theory: Sequence[TheoryPoint]) -> str:
    """The whole page, from our runs and from the experiment of `sqirl.experiments.theory`."""
    sections = [_results(data), _luck(data), _machines(data), _full_length(data), _bounds(theory)]
    return "\n".join(line for section in sections for line in [*section, ""])


def _wrapped(text: str) -> list[str]:
    """The lines of a paragraph."""
    return textwrap.wrap(text, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _results(data: ReportData) -> list[str]:
    """The text at the top and the table of sample complexities."""
    agreement = data.agreement_of(SQIRL)
    both, paper_solves = agreement.comparison.both, agreement.comparison.both + agreement.comparison.only_second
    specs = algorithms()
    lines = [
        "# Training: our results and the paper's",
        "",
        *_wrapped(
            "Made by `make docs` from the records that come with the package (`sqirl sweep easy`). A number is a sample "
            f"complexity: the steps until the mean of {ATARI.eval_episodes} evaluation episodes reaches the optimal return, with "
            f"an evaluation every {ATARI.eval_every:,} steps. It is the median over seeds of the best setting. The brackets hold "
            "the number of seeds and the number of settings that were tried. `–`: not solved within "
            f"{data.largest_budget:,} steps with any setting. Empty: not run."
        ),
        "",
        *_wrapped(
            "The best setting is chosen by the same seeds that it is reported with, so these numbers are optimistic. This "
            "matters more for algorithms with many settings."
        ),
        "",
        *_wrapped(
            f"{SQIRL.label} solves {both} of the {paper_solves} environments that the paper's {SQIRL.label} solves. In "
            f"{agreement.within} of them it needs at most {WITHIN_FACTOR} times the paper's steps."
        ),
        "",
        "| environment | " + " | ".join(f"{spec.label} | paper" for spec in specs) + f" | setting of {SQIRL.label} |",
        "|---|" + "---:|" * (2 * len(specs)) + "---|",
    ]
    for env, runs in data.runs.items():
        if runs.suite.is_bridge:
            cells = []
            for spec in specs:
                paper = data.paper_complexities.get(spec.name, {})
                cells += [_outcome(runs.outcomes.get(spec.name)), _steps(paper[env]) if env in paper else ""]
            sqirl = runs.outcomes.get(SQIRL.name)
            lines.append(f"| `{env}` | " + " | ".join([*cells, sqirl.setting if sqirl else ""]) + " |")
    return lines


def _outcome(outcome: Outcome | None) -> str:
    """Steps, and in brackets the number of seeds and of settings."""
    if outcome is None:
        return ""
    return f"{_steps(outcome.complexity)} ({len(outcome.records)}, {outcome.num_settings})"


def _steps(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _luck(data: ReportData) -> list[str]:
    """How many cases the paper's rule counts as solved although the true return was never optimal."""
    luck = data.solved_by_luck
    if not luck.cases:
        return [f"The true return of the median run is optimal in all of the {luck.num_solved} solved cases."]
    cases = ", ".join(f"`{env}` ({spec.label})" for env, spec in luck.cases)
    return _wrapped(
        f"The mean of {ATARI.eval_episodes} episodes can reach the optimal return by luck. On a table the true return of a "
        f"policy can be computed. In {len(luck.cases)} of the {luck.num_solved} solved cases the true return of the median run "
        f"is never optimal: {cases}."
    )


def _machines(data: ReportData) -> list[str]:
    listed = [f"{count:,} on {device} with torch {torch}" for device, torch, count in data.machines]
    return [f"{len(data.records):,} runs: {'; '.join(listed)}."]


def _full_length(data: ReportData) -> list[str]:
    if not data.full_length_runs:
        return []
    lines = [
        "## Full-length Atari, short runs",
        "",
        *_wrapped(
            "Full-length Atari games as in the paper's Figure 4, with one seed and far fewer steps than the paper's "
            f"{FULL_ATARI.timesteps:,}. A number is the mean return of {FULL_ATARI.eval_episodes} episodes: before training, and "
            f"after the thousands of steps in brackets. Before training, {GORP.label} acts randomly, and the others act greedily "
            "on a network that has not learned."
        ),
        "",
        *_wrapped(
            f"One seed and {FULL_ATARI.eval_episodes} episodes are few. Differences of a few tens in Qbert and SpaceInvaders are "
            "noise. A network that has not learned can act well or badly by chance, so the random return (that of "
            f"{GORP.label} before training) is the better baseline."
        ),
        "",
        "| game | algorithm | before | after (thousand steps) | device |",
        "|---|---|---:|---|---|",
    ]
    for run in data.full_length_runs:
        before = "" if run.before is None else f"{run.before:.4g}"
        after = ", ".join(f"{mean:.4g} ({steps / 1000:.0f})" for steps, mean in run.after)
        lines.append(f"| {run.game} | {run.algorithm.label} | {before} | {after} | {run.device} |")
    return lines


def _bounds(theory: Sequence[TheoryPoint]) -> list[str]:
    below = sum(point.steps < point.bound for point in theory)
    return [
        "## The algorithms as the paper writes them, and their bounds",
        "",
        *_wrapped(
            "`fit_sqirl` with the average oracle at the exact min k, and `fit_gorp` on deterministic MDPs. The steps are those "
            f"with the smallest m (doubled from {FIRST_M}) for which all of {SEEDS} seeds are within {EPSILON} of the optimal "
            "return, with returns scaled to [0, 1]. The bound is the theorem's for this accuracy, without its universal "
            f"constant. {below} of {len(theory)} are below their bounds."
        ),
        "",
        "![steps against bounds](images/theory.png)",
        "",
        "| environment | algorithm | steps | bound |",
        "|---|---|---:|---:|",
        *(f"| `{p.env_id}` | {algorithm(p.algorithm).label} | {p.steps:,} | {p.bound:.1e} |" for p in theory),
    ]
