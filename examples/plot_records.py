"""Read the records of runs, print a table of sample complexities, and plot learning curves.

    python examples/plot_records.py

It reads the runs that come with the package. `gather_records([Path("my-runs")])` adds those of a folder. `sqirl report` draws all
of them; this example shows how to make a figure of your own.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from sqirl.algorithms.registry import algorithms
from sqirl.envs.catalogue import lookup
from sqirl.report.learning_curve import learning_curve
from sqirl.results.outcomes import outcomes
from sqirl.runs.store import gather_records

ENVS = ("BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/breakout_10_fs30-Sticky-v0", "BRIDGE/qbert_10_fs30-Sticky-v0")
PLOTTED = "BRIDGE/breakout_10_fs30-Sticky-v0"
PICTURE = Path("out") / "curves.png"


def main() -> None:
    found = outcomes(gather_records())  # (environment, algorithm) -> the best setting and its runs, one for each seed

    print(f"{'environment':36} {'algorithm':9} {'setting':16} {'steps':>9} {'paper':>9}")
    for env in ENVS:
        paper = lookup(env).paper_steps
        for spec in algorithms():
            if (outcome := found.get((env, spec.name))) is not None:
                steps = [shown(outcome.complexity), shown(paper.get(spec.name))]
                print(f"{env:36} {spec.label:9} {outcome.setting:16} {steps[0]:>9} {steps[1]:>9}")

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for spec in algorithms():
        outcome = found.get((PLOTTED, spec.name))
        curve = None if outcome is None else learning_curve(outcome.records)  # median and range over the seeds
        if curve is not None:
            axes.plot(curve.steps, curve.median, color=spec.colour, label=spec.label)
            axes.fill_between(curve.steps, curve.low, curve.high, color=spec.colour, alpha=0.15)
    axes.set(xscale="log", xlabel="steps", ylabel="return", title=PLOTTED)
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    print(f"\nlearning curves on {PLOTTED}: {PICTURE}")


def shown(steps: float | None) -> str:
    return "-" if steps is None else f"{steps:,.0f}"


if __name__ == "__main__":
    main()
