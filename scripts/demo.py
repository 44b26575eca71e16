"""`make demo`: enumerate and analyse two games, train SQIRL and PPO on the one that is easy to learn, write a report."""

from __future__ import annotations

import sys
import time
from pathlib import Path

EASY, HARD = "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0", "BRIDGE/MiniGrid-FourRooms-Sticky-v0"
OUT = Path("out")


def main() -> None:
    began = time.monotonic()
    show_analysis(HARD, OUT / "demo-hard.png")
    print()
    show_analysis(EASY, OUT / "demo-easy.png")
    print()
    train(EASY)
    draw_report()
    print(f"done in {time.monotonic() - began:.0f} s; open {OUT / 'report.html'}", file=sys.stderr)


def show_analysis(game: str, picture: Path) -> None:
    """Enumerate the game, print the analysis of its MDP, and draw it."""
    from sqirl.analysis.analyze import analyze
    from sqirl.cli.progress import build_display
    from sqirl.mdp.build import build_mdp
    from sqirl.report.analysis_figures import plot_greedy_returns, plot_witness
    from sqirl.report.analysis_summary import summarize
    from sqirl.report.style import save_figure

    print(f"enumerating {game} live ...", file=sys.stderr)
    with build_display(game) as progress:
        mdp = build_mdp(game, progress=progress)
    analysis = analyze(mdp)
    print(summarize(analysis))
    save_figure(plot_greedy_returns(analysis), picture)
    if analysis.witness is not None:
        save_figure(plot_witness(analysis, mdp.render(analysis.witness.state)), OUT / "demo-witness.png")


def train(game: str) -> None:
    """Train SQIRL (k = 1, m = 10) and PPO (with the paper's presets) from the table, and print their results."""
    import torch

    from sqirl.cli.progress import training_display
    from sqirl.experiments.protocol import planned_run
    from sqirl.runs.run import perform
    from sqirl.runs.store import RecordStore

    torch.set_num_threads(1)
    for algorithm, options in (("sqirl", {"k": 1, "m": 10}), ("ppo", {})):
        print(f"training {algorithm} on {game} ...", file=sys.stderr)
        config = planned_run(algorithm, game, seed=0, timesteps=20_000, options=options)
        with training_display(config.label) as progress:
            record = perform(config, RecordStore(OUT / "runs"), progress=progress)
        print(record.summary)


def draw_report() -> None:
    """Write the report with the runs of this demo and those that come with the package."""
    from sqirl.report.write import write_report
    from sqirl.runs.store import gather_records

    print("drawing the report ...", file=sys.stderr)
    write_report(OUT / "report.html", gather_records([OUT / "runs"]))


if __name__ == "__main__":
    main()
