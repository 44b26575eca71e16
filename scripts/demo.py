"""`make demo`: enumerate a game live, analyse it, print the table and draw the pictures."""

from __future__ import annotations

import sys
import time
from pathlib import Path

GAME = "BRIDGE/MiniGrid-FourRooms-Sticky-v0"
OUT = Path("out")


def main() -> None:
    from sqirl.analysis.analyze import analyze
    from sqirl.cli.progress import build_display
    from sqirl.mdp.build import build_mdp
    from sqirl.report.plots import plot_greedy_returns, plot_witness, save_figure

    began = time.monotonic()
    print(f"enumerating {GAME} live ...", file=sys.stderr)
    with build_display(GAME) as progress:
        mdp = build_mdp(GAME, progress=progress)
    print(
        f"{mdp.num_states:,} states, {mdp.num_states * mdp.num_actions:,} transitions; analysing ...", file=sys.stderr
    )
    analysis = analyze(mdp)
    print(analysis)
    mdp.save(OUT / "demo.npz")
    save_figure(plot_greedy_returns(analysis), OUT / "demo.png")
    if analysis.witness is not None:
        save_figure(plot_witness(analysis, mdp.render(analysis.witness.state)), OUT / "demo-witness.png")
    print(
        f"done in {time.monotonic() - began:.0f} s: {', '.join(str(p) for p in sorted(OUT.glob('demo*')))}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
