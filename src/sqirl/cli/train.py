"""`sqirl train`: one algorithm on one environment, with the paper's presets."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from sqirl.algorithms.registry import algorithm_names
from sqirl.cli.options import (
    ENV_HELP,
    Device,
    EnvKwargs,
    Horizon,
    Json,
    Members,
    Runs,
    Variant,
    env_name,
    parse_seeds,
    parse_steps,
    with_algorithm_options,
)  # fmt: skip
from sqirl.envs.suites import OURS

if TYPE_CHECKING:
    from pathlib import Path

    from sqirl.runs.config import RunConfig
    from sqirl.runs.record import RunRecord

#: More threads than any machine has.
MAX_THREADS = 1024


@with_algorithm_options
def command(
    algorithm: Annotated[str, typer.Argument(help=f"{', '.join(algorithm_names())}.", metavar="ALGORITHM")],
    env: Annotated[str, typer.Argument(help=ENV_HELP)],
    options: dict[str, int | None],
    env_kwargs: EnvKwargs = None,
    horizon: Horizon = None,
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
        int,
        typer.Option(help="Threads of torch, and of the emulators of a full-length game.", min=1, max=MAX_THREADS),
    ] = 1,
    out: Runs = None,
    as_json: Json = False,
) -> None:
    """Train with the paper's presets, evaluate as the paper does (and exactly, on a table), draw the learning curve.

    The record of a finished run is kept and not run again; a run that was killed is resumed from its last checkpoint.
    """
    from sqirl.experiments.protocol import planned_run

    env = env_name(env, env_kwargs, horizon=horizon)
    budget = parse_steps(timesteps)
    configs = [
        planned_run(
            algorithm, env, seed=seed, timesteps=budget, live=live, keep_going=keep_going, variant=variant or OURS,
            options=options,
        )
        for seed in parse_seeds(seeds)
    ]  # fmt: skip
    records, folder = _train(configs, device, members, checkpoint_every, threads, out, as_json)
    _say_where(records, folder)


def _train(
    configs: list[RunConfig],
    device: str,
    members: int | None,
    checkpoint_every: float,
    threads: int,
    out: Path | None,
    as_json: bool,
) -> tuple[list[RunRecord], Path]:
    """Do the runs, and print each when it is over."""
    import torch

    from sqirl.cli.progress import counting_display, training_display
    from sqirl.runs.device import check_device
    from sqirl.runs.in_words import lines_after, lines_before
    from sqirl.runs.perform import perform_all, trains_together
    from sqirl.runs.store import RecordStore, default_folder

    torch.set_num_threads(threads)
    config, store, records = configs[0], RecordStore(out or default_folder()), []
    device = check_device(device)
    alone = members is None or members == 1  # a population keeps no policies
    if not trains_together(config, device, alone=alone):
        import_module("sqirl.runs.run")  # a package that is missing is told before anything else is
    store.check()
    for each in configs:
        store.get(each)  # a damaged record is told before the work
    stdout = sys.stdout  # while the displays are on, what an env prints goes to stderr
    with (
        counting_display(f"{config.env_id} screens") as drawing,
        training_display(f"{config.algorithm} on {config.env_id}") as progress,
    ):
        for line in lines_before(config):
            print(f"sqirl: {line}", file=sys.stderr)
        for record in perform_all(
            configs, store, device=device, members=members, alone=alone, checkpoint_seconds=checkpoint_every, progress=progress,
            drawing=drawing, keep_policies=True,
        ):  # fmt: skip
            records.append(record)
            lines = [json.dumps(record.to_dict())] if as_json else lines_after(record)
            print(*lines, sep="\n", file=stdout, flush=True)
    return records, store.folder


def _say_where(records: list[RunRecord], folder: Path) -> None:
    from sqirl.report.curves import save_curves
    from sqirl.runs.store import policy_path

    picture = save_curves(records, folder)
    where = "its table (--live plays the game)" if records[0].played_from == "table" else "the live game"
    print(f"sqirl: played from {where}; records and {picture.name} are in {folder}", file=sys.stderr)
    saved = [record.config for record in records if policy_path(folder, record.config).is_file()]
    if any(record.trainer == "population" for record in records):
        print("sqirl: runs that are trained together keep no policy for `sqirl watch`", file=sys.stderr)
    if saved:
        print(f"sqirl: see it play: sqirl watch {saved[0].digest}", file=sys.stderr)
