"""Run a sweep from Python: search the best setting of two algorithms on one environment, then read the records.

    python examples/run_a_sweep.py

A sweep can be stopped at any time. The same call continues it: runs that have a record are not run again. `sqirl sweep FILE.toml`
does the same from the command line.
"""

from __future__ import annotations

from pathlib import Path

from sqirl.experiments.scheduler import run_sweep
from sqirl.experiments.sweeps import Sweep
from sqirl.runs.store import gather_records

RECORDS = Path("out") / "runs"
SWEEP = Sweep(
    name="tiny",
    envs=("BRIDGE/MiniGrid-Empty-5x5-v0",),
    algorithms=("gorp", "ppo"),
    seeds=1,
    timesteps=10_000,
    values={"k": (1,), "m": (8,), "rollout": (128,)},  # the search for the smallest m that solves starts at 8
)


def main() -> None:
    for finding in run_sweep(SWEEP, folder=RECORDS, jobs=1):
        print(finding)

    records = gather_records([RECORDS], shipped=False)
    print(f"\n{len(records)} runs:")
    for record in sorted(records, key=lambda record: record.config.label):
        last = record.curve[-1]
        print(f"  {record.config.label}: {record.steps:,} steps, mean {last.mean:.2f}, true return {last.exact:.3f}")


if __name__ == "__main__":  # the worker processes import this file
    main()
