"""`sqirl train`: one algorithm on one environment, with the paper's presets."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqirl.results.records import RunRecord


class Algorithm(StrEnum):
    sqirl = "sqirl"
    gorp = "gorp"
    ppo = "ppo"
    dqn = "dqn"


def command(
    algorithm: Annotated[Algorithm, typer.Argument(help="Which algorithm.")],
    env: Annotated[
        str, typer.Argument(help="A BRIDGE id, a full-length game (PongNoFrameskip-v4), or a Gymnasium id.")
    ],
    k: Annotated[int | None, typer.Option("-k", help="SQIRL, GORP: steps of Q-iteration (default 1).")] = None,
    m: Annotated[int | None, typer.Option("-m", help="SQIRL, GORP: episodes in each iteration (default 100).")] = None,
    rollout: Annotated[int | None, typer.Option(help="PPO: steps of a rollout; the paper tries 128 and 1280.")] = None,
    epsilon_steps: Annotated[
        int | None, typer.Option(help="DQN: steps over which ε decays; the paper tries 500000 and 5000000.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds: '0', '0-4', '0,2,7'.")] = "0",
    timesteps: Annotated[
        str | None, typer.Option(help="Steps to train for (default 5_000_000; full-length games 10_000_000).")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Play the game itself even where its table is at hand.")] = False,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop when the optimum is reached.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)] = 60.0,
    threads: Annotated[int, typer.Option(help="Threads of torch, and of the emulators of a whole game.", min=1)] = 1,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for records and curve (default: your store's runs).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each seed.")] = False,
) -> None:
    """Train with the paper's presets, evaluate as the paper does (and exactly, on a table), draw the learning curve.

    The record of a finished run is kept and not run again; a run that was killed goes on from its last checkpoint.
    """
    from sqirl.cli.progress import counting_display, training_display
    from sqirl.experiments.plan import parse_seeds, parse_steps, planned_run
    from sqirl.mdp.store import user_folder
    from sqirl.results.records import RecordStore

    folder = out or user_folder() / "runs"
    options = {"k": k, "m": m, "rollout": rollout, "epsilon_steps": epsilon_steps}
    configs = [
        planned_run(algorithm.value, env, seed=seed, timesteps=parse_steps(timesteps), live=live, keep_going=keep_going,
                    options=options)
        for seed in parse_seeds(seeds)
    ]  # fmt: skip
    import torch

    from sqirl.experiments.run import perform

    torch.set_num_threads(threads)
    store, records = RecordStore(folder), []
    for config in configs:
        with counting_display(f"{env} screens") as drawing, training_display(config.label) as progress:
            record = perform(
                config, store, device=device, checkpoint_seconds=checkpoint_every, progress=progress, drawing=drawing
            )
        records.append(record)
        print(json.dumps(record.to_dict()) if as_json else record.summary)
    picture = folder / f"{algorithm.value}-{_stem(env)}.png"
    _draw(records, picture)
    played = records[0].played_from
    where = "its table (--live plays the game)" if played == "table" else "the live game"
    print(f"sqirl: played from {where}; records and {picture.name} are in {folder}", file=sys.stderr)


def _stem(env: str) -> str:
    return env.removeprefix("BRIDGE/").replace("/", "_")


def _draw(records: list[RunRecord], path: Path) -> None:
    from sqirl.report.curves import plot_curves
    from sqirl.report.plots import save_figure

    save_figure(plot_curves(records), path)
