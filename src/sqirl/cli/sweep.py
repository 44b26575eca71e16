"""`sqirl sweep` and `sqirl tune`: the paper's experiments, resumable."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sqirl.algorithms.registry import SQIRL, algorithm_names
from sqirl.cli.options import (
    ENV_HELP,
    Cluster,
    Device,
    EnvKwargs,
    Horizon,
    Jobs,
    Json,
    Members,
    Runs,
    Variant,
    env_name,
    parse_steps,
)  # fmt: skip

if TYPE_CHECKING:
    from sqirl.experiments.calibration import Preview
    from sqirl.experiments.sweeps import Sweep

Shipped = Annotated[bool, typer.Option("--shipped", help="Take the runs that come with the package as done.")]
TimeLimit = Annotated[
    float | None, typer.Option(help="Stop after so many seconds; run the same command again to continue.", min=0)
]


def command(
    name: Annotated[str, typer.Argument(help="smoke, easy, tables, bridge, atari-long, or a TOML file of your own.")],
    env: Annotated[list[str] | None, typer.Option("--env", help="Only this environment (may be repeated).")] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option("--algorithm", help="Only this algorithm (may be repeated).")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of every setting.", min=1)] = None,
    timesteps: Annotated[str | None, typer.Option(help="Steps of a run at most.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    skip_preview: Annotated[bool, typer.Option("--no-preview", help="Start at once, without the calibration.")] = False,
    jobs: Jobs = None, cluster: Cluster = None, device: Device = "auto", members: Members = None, out: Runs = None,
    variant: Variant = None, shipped: Shipped = False, time_limit: TimeLimit = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Run the paper's experiments: search the best setting of every algorithm on every environment.

    Every run has a record of its own. If the sweep was stopped, run the same command again to continue.
    """
    from sqirl.experiments.sweeps import named_sweep, narrowed

    sweep = narrowed(
        named_sweep(name),
        envs=env,
        algorithms=algorithm,
        seeds=seeds,
        timesteps=parse_steps(timesteps),
        variant=variant,
    )
    if dry_run or not skip_preview:
        found = _preview(sweep, out, shipped, device, measure=not skip_preview)
        print(found, file=sys.stdout if dry_run else sys.stderr)
    if not dry_run:
        _run(sweep, jobs, cluster, device, members, out, shipped, time_limit, as_json)


def _preview(sweep: Sweep, out: Path | None, shipped: bool, device: str, *, measure: bool) -> Preview:
    """The cost of what is not known yet."""
    from sqirl.experiments.calibration import preview
    from sqirl.runs.device import check_device
    from sqirl.runs.store import RecordStore, default_folder, shipped_records

    folder = out or default_folder()
    known = [*(shipped_records() if shipped else []), *(RecordStore(folder).all() if folder.is_dir() else [])]
    return preview(sweep, device=check_device(device), known=known, measure=measure)


def tune(
    env: Annotated[str, typer.Argument(help=ENV_HELP)],
    env_kwargs: EnvKwargs = None,
    horizon: Horizon = None,
    algorithm: Annotated[str, typer.Option(help=f"{', '.join(algorithm_names())}.")] = SQIRL.name,
    seeds: Annotated[int, typer.Option(help="Seeds of every setting.", min=1)] = 5,
    timesteps: Annotated[str | None, typer.Option(help="Steps of a run at most.")] = None,
    jobs: Jobs = None, cluster: Cluster = None, device: Device = "auto", members: Members = None, out: Runs = None,
    variant: Variant = None, shipped: Shipped = False, time_limit: TimeLimit = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The paper's search for the best (k, m) on one environment: the smallest m with which the median run solves it."""
    from sqirl.experiments.sweeps import Sweep, narrowed

    sweep = narrowed(
        Sweep("tune", (env_name(env, env_kwargs, horizon=horizon),), (algorithm,), seeds=seeds),
        timesteps=parse_steps(timesteps),
        variant=variant,
    )
    _run(sweep, jobs, cluster, device, members, out, shipped, time_limit, as_json)


def _run(
    sweep: Sweep,
    jobs: int | None,
    cluster: str | None,
    device: str,
    members: int | None,
    out: Path | None,
    shipped: bool,
    time_limit: float | None,
    as_json: bool,
) -> None:
    from sqirl.cli.progress import sweep_display
    from sqirl.errors import WorkFailed
    from sqirl.experiments.scheduler import run_sweep
    from sqirl.runs.store import default_folder

    folder = out or default_folder()
    with sweep_display(sweep.name) as progress:
        findings = run_sweep(
            sweep, folder=folder, jobs=jobs, cluster=cluster, device=device, members=members, shipped=shipped,
            time_limit=time_limit, progress=progress,
        )  # fmt: skip
    for finding in findings:
        print(json.dumps(finding.to_dict()) if as_json else finding)
    print(f"sqirl: records are in {folder}; `sqirl report --runs {folder}` draws them", file=sys.stderr)
    failed = [finding for finding in findings if finding.error is not None]
    if failed:
        first = failed[0]
        raise WorkFailed(
            f"{len(failed)} of {len(findings)} searches had runs that failed; the first, {first.algorithm} on {first.env_id}: "
            f"{first.error}; the same command tries them again"
        )
