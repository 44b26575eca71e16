"""The page of the docs on training: our runs beside the paper's, as Markdown; and practice against the theorem, as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sqirl.report.page import our_tables, paper_tables
from sqirl.results.frame import Outcome, outcomes
from sqirl.results.records import RunRecord
from sqirl.results.statistics import BUDGET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"sqirl": "SQIRL", "ppo": "PPO", "dqn": "DQN", "gorp": "GORP"}


@dataclass(frozen=True)
class TheoryPoint:
    """One MDP: the steps that an algorithm as written needed, and the theorem's bound on them."""

    env_id: str
    algorithm: str
    steps: int
    bound: float


def training_page(records: Sequence[RunRecord], theory: Sequence[TheoryPoint]) -> str:
    """Everything in it comes from records and from runs of the algorithms as written."""
    found = outcomes(records)
    ours, paper = our_tables(found), paper_tables()
    both = [
        (env, steps, paper["sqirl"][env]) for env, steps in ours["sqirl"].items() if steps and paper["sqirl"].get(env)
    ]
    within = sum(steps <= 3 * theirs for _, steps, theirs in both if theirs)
    below = sum(point.steps < point.bound for point in theory)
    lines = [
        "# Training: ours beside the paper's",
        "",
        "Made by `make docs` from the records that ship with the package (`sqirl sweep easy`).",
        "Steps until the mean of 100 evaluation episodes reaches the optimal return, evaluated every 10,000 steps;",
        "the median over seeds of the best setting. `–`: not solved within the budget of a run; an empty cell: not run.",
        "",
        f"SQIRL solves {len(both)} of the environments that the paper's does here; in {within} of them within 3 times its steps.",
        "",
        "| environment | " + " | ".join(f"{n} | paper" for n in NAMES.values()) + " | SQIRL's setting | seeds |",
        "|---|" + "---:|" * 8 + "---|---:|",
    ]
    for env in sorted({env for env, _ in found}):
        cells = []
        for name in NAMES:
            mine = found.get((env, name))
            cells += ["" if mine is None else _steps(mine.complexity), _steps(paper[name].get(env), BUDGET)]
        sqirl = found.get((env, "sqirl"))
        setting = [sqirl.setting, str(len(sqirl.records))] if sqirl else ["", ""]
        lines.append(f"| `{env}` | " + " | ".join([*cells, *setting]) + " |")
    lines += ["", *_honest(found), "", "## The algorithms as written, against their bounds", ""]
    lines += [
        "`fit_sqirl` with the average oracle at the exact min k, and `fit_gorp` on deterministic versions: the steps with",
        "the smallest m (doubled from 8) at which all of three seeds are within 0.05 of the optimal return, of returns in",
        "[0, 1]; and the theorem's bound for that accuracy with its universal constant dropped.",
        f"{below} of {len(theory)} lie below their bounds.",
        "",
        "![steps against bounds](images/theory.png)",
        "",
        "| environment | algorithm | steps | bound |",
        "|---|---|---:|---:|",
        *(f"| `{p.env_id}` | {NAMES[p.algorithm]} | {p.steps:,} | {p.bound:.1e} |" for p in theory),
        "",
    ]
    return "\n".join(lines)


def _honest(found: dict[tuple[str, str], Outcome]) -> list[str]:
    """Where the paper's rule was met by luck: the mean reached the optimum, the true return did not."""
    lucky = [
        f"`{env}` ({NAMES[name]})"
        for (env, name), o in found.items()
        if o.complexity is not None and o.exact_complexity is None
    ]
    if not lucky:
        return ["Wherever the mean reached the optimum, the policy's true return did too."]
    return [
        "The mean of 100 episodes can reach the optimum by luck. By the policy's true return, computed on the table, the "
        f"median run was not optimal yet when its mean was, in {len(lucky)} of {len(found)} cases: {', '.join(lucky)}."
    ]


def _steps(value: float | None, budget: float = float("inf")) -> str:
    return "–" if value is None or value > budget else f"{value:,.0f}"


def plot_bounds(points: Sequence[TheoryPoint]) -> Figure:
    """Steps needed against the bound, both logarithmic; the diagonal is where they would be equal."""
    from matplotlib.figure import Figure

    from sqirl.report.curves import COLOURS

    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    axes = figure.subplots()
    for name in ("sqirl", "gorp"):
        mine = [(p.bound, p.steps) for p in points if p.algorithm == name]
        if mine:
            bounds, steps = zip(*mine, strict=True)
            axes.scatter(bounds, steps, s=22, color=COLOURS[name], label=f"{NAMES[name]} ({len(mine)} MDPs)")
    low, high = min(p.steps for p in points), max(p.bound for p in points)
    axes.plot([low, high], [low, high], color="#9a9a9a", linestyle="--", linewidth=1, label="steps = bound")
    axes.set(xscale="log", yscale="log", xlabel="the theorem's bound, constant dropped", ylabel="steps needed")
    axes.set_ylim(low / 3, 10 * max(p.steps for p in points))
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    assert np.isfinite(high)
    return figure
