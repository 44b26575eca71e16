"""The page docs/training.md: our runs and the paper's results, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from sqirl.algorithms.registry import SQIRL, algorithm, algorithms
from sqirl.analysis.bounds import DELTA, EPSILON
from sqirl.envs.suites import ATARI, OURS
from sqirl.experiments.sample_complexity import CONFIDENCE
from sqirl.experiments.theory import FIRST_M, SEEDS, TheoryPoint
from sqirl.report.comparison_sections import agreement_section, variants_section
from sqirl.report.data import ReportData
from sqirl.report.differences import DIFFERENCES
from sqirl.report.full_length_section import full_length_section
from sqirl.report.markdown import duration, step_range, steps, table, wrapped
from sqirl.results.agreement import is_open
from sqirl.results.outcomes import Outcome
from sqirl.results.statistics import BUDGET, WITHIN_FACTOR


def training_page(data: ReportData, theory: Sequence[TheoryPoint]) -> str:
    """The whole page, from our runs and from the experiment of `sqirl.experiments.theory`."""
    sections = [
        _results(data), _optimal_policies(data), _luck(data), agreement_section(data), variants_section(data),
        full_length_section(data), _differences(), _time(data), _bounds(theory),
    ]  # fmt: skip
    return "\n".join(line for section in sections for line in section)


def _results(data: ReportData) -> list[str]:
    """The text at the top and the table of sample complexities."""
    agreement, specs = data.agreement_of(SQIRL), algorithms()
    both, answered = agreement.comparison.both, agreement.comparison.both + agreement.comparison.only_second
    rows = []
    for env, runs in data.runs.items():
        if runs.suite.is_bridge:
            cells = []
            for spec in specs:
                paper = data.paper_complexities.get(spec.name, {})
                cells += [_outcome(runs.outcomes.get(spec.name)), steps(paper[env]) if env in paper else ""]
            sqirl = runs.outcomes.get(SQIRL.name)
            rows.append([f"`{env}`", *cells, sqirl.setting if sqirl else ""])
    labels = [cell for spec in specs for cell in (spec.label, "paper")]
    return [
        "# Training: our results and the paper's",
        "",
        *wrapped(
            "Made by `make docs` from the records that come with the package. A number is a sample complexity: the steps until "
            f"the mean of {ATARI.eval_episodes} evaluation episodes reaches the optimal return, with an evaluation every "
            f"{ATARI.eval_every:,} steps. It is the median over seeds of the best setting. The brackets hold the number of "
            "seeds, the number of settings that were tried, and the variant if it is not our own: `paper` does what the authors' "
            f"code does (see below). `–`: not solved with any setting, within {BUDGET:,} steps. `open`: not solved so far; the "
            "search is not finished, or was not given so many steps. Empty: not run."
        ),
        *wrapped(
            f"Of the environments that the paper's {SQIRL.label} solves and that our runs decide, {SQIRL.label} solves {both} of "
            f"{answered}. In {agreement.within} of them it needs at most {WITHIN_FACTOR} times the paper's steps."
        ),
        *table(["environment", *labels, f"setting of {SQIRL.label}"], rows),
    ]


def _outcome(outcome: Outcome | None) -> str:
    """Steps, and in brackets the number of seeds and of settings and the variant."""
    if outcome is None:
        return ""
    variant = "" if outcome.variant == OURS else f", {outcome.variant}"
    found = "open" if is_open(outcome) else steps(outcome.complexity)
    return f"{found} ({len(outcome.records)}, {outcome.num_settings}{variant})"


def _optimal_policies(data: ReportData) -> list[str]:
    """The steps to a truly optimal policy, and those with cross-validated settings."""
    specs, rows = algorithms(), []
    for env, runs in data.runs.items():
        if runs.suite.is_bridge:
            cells = []
            for spec in specs:
                outcome, validated = runs.outcomes.get(spec.name), data.cross_validated.get((env, spec.name))
                cells.append(step_range(None if outcome is None else outcome.steps_to_optimal))
                cells.append(step_range(None if validated is None else validated.steps))
            rows.append([f"`{env}`", *cells])
    header = [cell for spec in specs for cell in (f"{spec.label}, truly optimal", "cross-validated")]
    return [
        "## Truly optimal policies, and settings chosen by other seeds",
        "",
        *wrapped(
            "*Truly optimal*: the steps to the first policy that was seen to have the optimal return exactly, which can be "
            "computed on a table. It is the median over the seeds of the best setting, and is not rounded up to an evaluation."
        ),
        *wrapped(
            "*Cross-validated*: in the table above the best setting is chosen by the same seeds that it is reported with, as in "
            "the paper, so its numbers are optimistic. Here each seed is left out once. The setting is chosen by the median over "
            "the other seeds, and the sample complexity of the seed that was left out counts. The number is the median of these. "
            "It needs two seeds."
        ),
        *wrapped(
            "`> n`: more than n, because the runs that decide the median stopped there. `≤ n`: at most n. `–`: never, or not "
            "within the paper's budget. Empty: not known."
        ),
        *table(["environment", *header], rows),
    ]


def _luck(data: ReportData) -> list[str]:
    """How many cases the paper's rule counts as solved although the true return was never optimal."""
    luck = data.solved_by_luck
    if not luck.cases:
        return wrapped(f"The true return of the median run is optimal in all of the {luck.num_solved} solved cases.")
    cases = ", ".join(f"`{env}` ({spec.label})" for env, spec in luck.cases)
    return wrapped(
        f"The mean of {ATARI.eval_episodes} episodes can reach the optimal return by luck. On a table the true return of a "
        f"policy can be computed. In {len(luck.cases)} of the {luck.num_solved} solved cases the true return of the median run "
        f"is never optimal: {cases}."
    )


def _differences() -> list[str]:
    rows = [[each.detail, each.text, each.code, each.ours] for each in DIFFERENCES]
    return [
        "## Where we differ from the authors",
        "",
        *wrapped(
            "The paper's text and its authors' code differ in some details. The variant `paper` of our runs does what the code "
            "does. The variant `ours` is in the last column."
        ),
        *table(["detail", "the paper's text", "the authors' code", "ours"], rows, left=4),
    ]


def _time(data: ReportData) -> list[str]:
    """Device time by algorithm, and the estimate for all rows."""
    spent = [
        [algorithm(t.algorithm).label, t.device, t.trainer, f"{t.runs:,}", f"{t.steps / 1e6:,.1f}", duration(t.seconds)]
        for t in data.device_times
    ]
    left = [
        [
            algorithm(c.algorithm).label,
            c.device,
            str(c.rows),
            duration(c.seconds),
            str(c.rows_left),
            duration(c.seconds_left),
        ]
        for c in data.costs
    ]
    listed = [f"{count:,} on {device} with torch {torch}" for device, torch, count in data.machines]
    return [
        "## Time",
        "",
        *wrapped(f"{len(data.records):,} runs: {'; '.join(listed)}." if listed else "No runs."),
        *wrapped("The time of a run in a population is its share of the time of the whole population."),
        *table(["algorithm", "device", "trainer", "runs", "million steps", "time"], spent, left=3),
        *wrapped(
            f"What the rest of the {len(data.rows)} rows would take at the same rate. The rule: a row that was not run takes the "
            "mean time of the rows that were run and that have the same result in the paper, solved or not solved; if there is "
            "none, the mean of all rows that were run. Most of these rows are not enumerated, so this holds only if they are "
            "played as fast as from tables, and with the budgets of the rows that were run. The time is that of the device that "
            "made most steps of the algorithm, and only of the rows that were run there."
        ),
        *table(["algorithm", "device", "rows run", "time", "rows left", "time at the same rate"], left, left=2),
    ]


def _bounds(theory: Sequence[TheoryPoint]) -> list[str]:
    below = sum(point.steps < point.bound for point in theory)
    rows = [
        [f"`{p.env_id}`", algorithm(p.algorithm).label, f"{p.steps:,}", str(p.share), f"{p.bound:.1e}"] for p in theory
    ]
    return [
        "## The algorithms as the paper writes them, and their bounds",
        "",
        *wrapped(
            "`fit_sqirl` with the average oracle at the exact min k, and `fit_gorp` on deterministic MDPs. The steps are those "
            f"with the smallest m (doubled from {FIRST_M}) for which the share 1 - δ of {SEEDS} seeds is within ε of the optimal "
            f"return, with returns scaled to [0, 1]: the paper's N_(ε,δ), with ε = {EPSILON} and δ = {DELTA}. In brackets: the "
            f"interval of Clopper and Pearson ({100 * CONFIDENCE:g} %) for the probability of success. The bound is the "
            f"theorem's for this ε and δ, without its universal constant. {below} of {len(theory)} are below their bounds."
        ),
        "![steps against bounds](images/theory.png)",
        "",
        *table(["environment", "algorithm", "steps", "seeds", "bound"], rows, left=2),
    ]
