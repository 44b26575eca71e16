"""`sqirl sweep` and `sqirl tune`: the paper's experiments, resumable."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqirl.experiments.search import Finding
    from sqirl.experiments.sweeps import Sweep

Jobs = Annotated[int | None, typer.Option("-j", "--jobs", help="Worker processes (default: all cores).", min=1)]
Cluster = Annotated[str | None, typer.Option(help="Address of a dask scheduler whose workers do the runs.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Out = Annotated[Path | None, typer.Option("-o", "--out", help="Folder of the records (default: your store's runs).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object for each finding.")]
Shipped = Annotated[bool, typer.Option("--shipped", help="Take the runs that come with the package as done.")]
TimeLimit = Annotated[float | None, typer.Option(help="Stop after so many seconds; the same command goes on.", min=0)]


def command(
    name: Annotated[str, typer.Argument(help="smoke, easy, bridge, atari-long, or a TOML file of your own.")],
    env: Annotated[list[str] | None, typer.Option("--env", help="Only this environment (may be repeated).")] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option("--algorithm", help="Only this algorithm (may be repeated).")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of every setting.", min=1)] = None,
    timesteps: Annotated[str | None, typer.Option(help="Steps of a run at most.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    skip_preview: Annotated[bool, typer.Option("--no-preview", help="Start at once, without the calibration.")] = False,
    jobs: Jobs = None,
    cluster: Cluster = None,
    device: Device = "cpu",
    out: Out = None,
    shipped: Shipped = False,
    time_limit: TimeLimit = None,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments: search the best setting of every algorithm on every environment.

    Every run is a record of its own; whatever stops the sweep, the same command goes on.
    """
    from sqirl.experiments.plan import parse_steps
    from sqirl.experiments.sweeps import named_sweep, narrowed

    sweep = narrowed(named_sweep(name), envs=env, algorithms=algorithm, seeds=seeds, timesteps=parse_steps(timesteps))
    if not skip_preview:
        from sqirl.experiments.preview import preview

        print(preview(sweep, device=device), file=sys.stdout if dry_run else sys.stderr)
    if not dry_run:
        _conduct(sweep, jobs, cluster, device, out, shipped, time_limit, as_json)


def tune(
    env: Annotated[str, typer.Argument(help="An environment.")],
    algorithm: Annotated[str, typer.Option(help="sqirl, gorp, ppo or dqn.")] = "sqirl",
    seeds: Annotated[int, typer.Option(help="Seeds of every setting.", min=1)] = 5,
    timesteps: Annotated[str | None, typer.Option(help="Steps of a run at most.")] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    device: Device = "cpu",
    out: Out = None,
    shipped: Shipped = False,
    time_limit: TimeLimit = None,
    as_json: Json = False,
) -> None:
    """The paper's search for the best (k, m) on one environment: the smallest m with which the median run solves it."""
    from sqirl.experiments.plan import parse_steps
    from sqirl.experiments.sweeps import Sweep, narrowed

    sweep = narrowed(
        Sweep("tune", (env,), (algorithm,), seeds=seeds), envs=None, algorithms=None, timesteps=parse_steps(timesteps)
    )
    _conduct(sweep, jobs, cluster, device, out, shipped, time_limit, as_json)


def _conduct(
    sweep: Sweep,
    jobs: int | None,
    cluster: str | None,
    device: str,
    out: Path | None,
    shipped: bool,
    limit: float | None,
    as_json: bool,
) -> None:
    from sqirl.cli.progress import sweep_display
    from sqirl.errors import WorkFailed
    from sqirl.experiments.conduct import Conductor
    from sqirl.mdp.hands import all_cores
    from sqirl.mdp.store import user_folder
    from sqirl.results.frame import shipped_records
    from sqirl.results.records import RecordStore

    if cluster is None:  # whose workers have devices of their own
        from sqirl.experiments.run import check_device

        check_device(device)
    folder = out or user_folder() / "runs"
    RecordStore(folder).check()
    with sweep_display(sweep.name) as progress:
        conductor = Conductor(
            sweep, folder, jobs=jobs or all_cores(), cluster=cluster, device=device, progress=progress,
            deadline=None if limit is None else time.monotonic() + limit, known=shipped_records() if shipped else (),
        )  # fmt: skip
        findings = conductor.run()
    for finding in findings:
        print(json.dumps(_plain(finding)) if as_json else _line(finding))
    print(f"sqirl: records are in {folder}; `sqirl report --runs {folder}` draws them", file=sys.stderr)
    failed = [finding for finding in findings if finding.error is not None]
    if failed:
        first = failed[0]
        raise WorkFailed(
            f"{len(failed)} of {len(findings)} searches had runs that failed; the first, {first.algorithm} on {first.env_id}: "
            f"{first.error}; the same command tries them again"
        )


def _plain(finding: Finding) -> dict[str, object]:
    best = asdict(finding.best[0]) if finding.best else {}
    options = {name: best.get(name) for name in ("k", "m", "rollout", "epsilon_steps") if best.get(name) is not None}
    return {
        "env_id": finding.env_id, "algorithm": finding.algorithm, "steps": finding.steps, "runs": finding.num_runs, **options
    }  # fmt: skip


def _line(finding: Finding) -> str:
    plain = _plain(finding)
    options = " ".join(f"{n}={plain[n]}" for n in ("k", "m", "rollout", "epsilon_steps") if n in plain)
    found = "not solved" if finding.steps is None else f"{finding.steps:,.0f} steps with {options}"
    if finding.error is not None:
        found += f", a run failed: {finding.error}"
    return f"{finding.env_id} {finding.algorithm}: {found} ({finding.num_runs} run{'s' * (finding.num_runs != 1)})"
