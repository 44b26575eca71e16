"""The page of the docs on training: our runs beside the paper's, as Markdown; and practice against the theorem, as a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sqirl.envs.ids import FULL_ATARI_SUFFIX, is_bridge_id, is_full_atari
from sqirl.results.frame import Outcome, our_tables, outcomes, paper_tables
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
    bridge = {key: outcome for key, outcome in found.items() if is_bridge_id(key[0])}
    full_length = {key: outcome for key, outcome in found.items() if is_full_atari(key[0])}
    parts = [_short_games(bridge), _honest(bridge), _where(records), _full_length(full_length), _bounds(theory)]
    return "\n".join(line for part in parts for line in [*part, ""])


def _short_games(found: Mapping[tuple[str, str], Outcome]) -> list[str]:
    ours, paper = our_tables(found)["sqirl"], paper_tables()
    theirs = {env: paper["sqirl"].get(env) for env in ours}
    solved = [(steps, theirs[env] or 0) for env, steps in ours.items() if steps is not None]
    within = sum(steps <= 3 * other for steps, other in solved)
    lines = [
        "# Training: ours beside the paper's",
        "",
        "Made by `make docs` from the records that ship with the package (`sqirl sweep easy`).",
        "Steps until the mean of 100 evaluation episodes reaches the optimal return, evaluated every 10,000 steps: the",
        "median over seeds of the best setting, in brackets the seeds and the settings that it is the best of. `–`: not solved",
        "within 500,000 steps, with no setting that was tried; an empty cell: not run. The best of many settings, chosen by the",
        "same seeds that it is reported with, flatters: SQIRL and GORP (k and m searched) more than PPO (two) and DQN (one).",
        "",
        f"SQIRL solves {len(solved)} of {sum(other is not None for other in theirs.values())} environments that the paper's "
        f"solves; in {within} of them within 3 times the paper's steps.",
        "",
        "| environment | " + " | ".join(f"{n} | paper" for n in NAMES.values()) + " | SQIRL's setting |",
        "|---|" + "---:|" * 8 + "---|",
    ]
    for env in sorted({env for env, _ in found}):
        cells = []
        for name in NAMES:
            cells += [_outcome(found.get((env, name))), _steps(paper[name].get(env), BUDGET)]
        sqirl = found.get((env, "sqirl"))
        lines.append(f"| `{env}` | " + " | ".join([*cells, sqirl.setting if sqirl else ""]) + " |")
    return lines


def _outcome(outcome: Outcome | None) -> str:
    """Steps, and of how many seeds and settings."""
    if outcome is None:
        return ""
    return f"{_steps(outcome.complexity)} ({len(outcome.records)}, {outcome.num_settings})"


def _where(records: Sequence[RunRecord]) -> list[str]:
    """On which machines the runs were done."""
    made = Counter((record.device or "unknown", record.versions.get("torch", "?")) for record in records)
    listed = [f"{count:,} on {device} with torch {torch}" for (device, torch), count in made.most_common()]
    return [f"{len(records):,} runs: {'; '.join(listed)}."]


def _full_length(found: Mapping[tuple[str, str], Outcome]) -> list[str]:
    if not found:
        return []
    lines = [
        "## Full-length Atari, for a short while",
        "",
        "Whole games as in the paper's section on them, one seed, for some minutes each: the mean of 20 episodes before training",
        "(the untrained network, acting greedily; for GORP random play) and, in brackets, after so many thousand steps. One seed",
        "and 20 episodes: in Qbert and SpaceInvaders differences of a few tens are noise, and an untrained network may by chance",
        "act well or badly, so that random play (before GORP's training) is the better thing to compare with. The paper's runs",
        "have ten million steps.",
        "",
        "| game | algorithm | before | after (thousand steps) | on |",
        "|---|---|---:|---|---|",
    ]
    for (env, name), outcome in found.items():
        record = outcome.records[0]
        means = {point.steps: f"{point.mean:.4g}" for point in record.curve}  # after learning, of two of the same steps
        before = means.pop(0, "")
        after = ", ".join(f"{mean} ({steps / 1000:.0f})" for steps, mean in means.items())
        game = env.removesuffix(FULL_ATARI_SUFFIX)
        lines.append(f"| {game} | {NAMES[name]} | {before} | {after} | {record.device} |")
    return lines


def _bounds(theory: Sequence[TheoryPoint]) -> list[str]:
    below = sum(point.steps < point.bound for point in theory)
    return [
        "## The algorithms as written, against their bounds",
        "",
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
    ]


def _honest(found: Mapping[tuple[str, str], Outcome]) -> list[str]:
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
        f"median run never was optimal, though its mean was, in {len(lucky)} of {len(found)} cases: {', '.join(lucky)}."
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
