"""`sqirl train`: one algorithm on one environment, with the paper's presets."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from sqirl.algorithms.registry import algorithm_names
from sqirl.cli.options import Device, Json, Members, Runs, Variant, parse_seeds, parse_steps, with_algorithm_options
from sqirl.envs.suites import OURS


@with_algorithm_options
def command(
    algorithm: Annotated[str, typer.Argument(help=f"{', '.join(algorithm_names())}.", metavar="ALGORITHM")],
    env: Annotated[
        str,
        typer.Argument(help="A BRIDGE id, a full-length game (PongNoFrameskip-v4), a Gymnasium id, or module:Class."),
    ],
    options: dict[str, int | None],
    seeds: Annotated[str, typer.Option(help="Seeds: '0', '0-4', '0,2,7'.")] = "0",
    timesteps: Annotated[
        str | None, typer.Option(help="Steps to train for (default 5_000_000; full-length games 10_000_000).")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Play the game itself even where its table is stored.")] = False,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop when the optimum is reached.")] = False,
    variant: Variant = None,
    device: Device = "auto",
    members: Members = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.", min=0)] = 60.0,
    threads: Annotated[
        int, typer.Option(help="Threads of torch, and of the emulators of a full-length game.", min=1)
    ] = 1,
    out: Runs = None,
    as_json: Json = False,
) -> None:
    """Train with the paper's presets, evaluate as the paper does (and exactly, on a table), draw the learning curve.

    The record of a finished run is kept and not run again; a run that was killed is resumed from its last checkpoint.
    """
    from sqirl.cli.progress import counting_display, training_display
    from sqirl.experiments.protocol import planned_run
    from sqirl.runs.store import RecordStore, default_folder

    budget = parse_steps(timesteps)
    configs = [
        planned_run(
            algorithm, env, seed=seed, timesteps=budget, live=live, keep_going=keep_going, variant=variant or OURS,
            options=options,
        )
        for seed in parse_seeds(seeds)
    ]  # fmt: skip
    import torch

    from sqirl.report.curves import save_curves
    from sqirl.runs.perform import perform_all

    torch.set_num_threads(threads)
    store, records = RecordStore(out or default_folder()), []
    stdout = sys.stdout  # while the displays are on, what an env prints goes to stderr
    with counting_display(f"{env} screens") as drawing, training_display(f"{algorithm} on {env}") as progress:
        for record in perform_all(
            configs, store, device=device, members=members, checkpoint_seconds=checkpoint_every, progress=progress,
            drawing=drawing,
        ):  # fmt: skip
            records.append(record)
            print(json.dumps(record.to_dict()) if as_json else record.summary, file=stdout, flush=True)
    picture = save_curves(records, store.folder)
    where = "its table (--live plays the game)" if records[0].played_from == "table" else "the live game"
    print(f"sqirl: played from {where}; records and {picture.name} are in {store.folder}", file=sys.stderr)
