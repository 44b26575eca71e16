"""Compare what sqirl computes now with what it computed at another commit, on this machine.

    python scripts/compare_commits.py COMMIT [--keep FOLDER]

Both versions are asked through the command line alone: analyses of ten environments, three runs of each algorithm from
tables, one run that is killed and resumed, and the numbers of the report. Every difference is printed with its place; the
exit code is 1 if there is one. Numbers must be equal to the last digit: both versions run on the same machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ANALYSED = (
    "BRIDGE/freeway_10_fs30-Sticky-v0", "BRIDGE/freeway_20_fs30-v0", "BRIDGE/qbert_10_fs30-Sticky-v0",
    "BRIDGE/pong_20_fs30-Sticky-v0", "BRIDGE/breakout_10_fs30-Sticky-v0", "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0",
    "BRIDGE/MiniGrid-DoorKey-5x5-Sticky-v0", "BRIDGE/MiniGrid-FourRooms-Sticky-v0", "BRIDGE/MiniGrid-LavaGapS5-v0",
    "FrozenLake-v1",
)  # fmt: skip
_EMPTY, _MAZE, _FREEWAY = (
    "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", "BRIDGE/maze_easy_l0_30_fs1-Sticky-v0", "BRIDGE/freeway_10_fs30-Sticky-v0"
)  # fmt: skip
TRAINED = (
    ("sqirl", _EMPTY, "-k", "2", "-m", "8", "--timesteps", "2400"),
    ("sqirl", _MAZE, "-k", "1", "-m", "4", "--timesteps", "600"),
    ("sqirl", _FREEWAY, "-k", "3", "-m", "4", "--timesteps", "160"),
    ("gorp", _EMPTY, "-k", "2", "-m", "8", "--timesteps", "30000"),
    ("gorp", _MAZE, "-k", "1", "-m", "10", "--timesteps", "20000"),
    ("gorp", _FREEWAY, "-k", "2", "-m", "20", "--timesteps", "20000"),
    ("ppo", _EMPTY, "--timesteps", "2100"),
    ("ppo", _MAZE, "--rollout", "64", "--timesteps", "1100"),
    ("ppo", _FREEWAY, "--timesteps", "1100"),
    ("dqn", _EMPTY, "--timesteps", "800"),
    ("dqn", _MAZE, "--epsilon-steps", "400", "--timesteps", "300"),
    ("dqn", _FREEWAY, "--timesteps", "300"),
)  # fmt: skip
#: Fields of a record that depend on the machine and on the time.
NOT_COMPARED = ("seconds", "versions")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("commit")
    parser.add_argument(
        "--keep", type=Path, help="keep the facts of the other commit in this folder, and use them again"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = (options.keep or Path(temporary)) / f"facts-{options.commit}.json"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(facts_of_commit(options.commit, Path(temporary)), indent=1))
        before = json.loads(kept.read_text())
        now = json.loads(json.dumps(facts(ROOT / "src", Path(temporary) / "now")))
    found = list(differences(before, now))
    print("\n".join(found) or f"nothing differs from {options.commit}")
    print(f"{count(before):,} values compared, {len(found)} differ", file=sys.stderr)
    sys.exit(1 if found else 0)


def facts_of_commit(commit: str, folder: Path) -> dict[str, Any]:
    """The facts of a commit that is checked out beside this one for as long as it takes."""
    tree = folder / "tree"
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree, commit], check=True, capture_output=True)
    try:
        return facts(tree / "src", folder / "before")
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True, capture_output=True)


def facts(source: Path, folder: Path) -> dict[str, Any]:
    """Everything that is compared, as the sqirl in `source` computes it."""
    folder.mkdir(parents=True)
    ask = Command(source, folder)
    return {
        "analyses": {env: json.loads(ask("analyze", env, "--max-k", "6", "--json")) for env in ANALYSED},
        "runs": {
            " ".join(run): _record(ask("train", *run, "--seeds", "1", "--keep-going", "--json")) for run in TRAINED
        },
        "resumed": resumed(ask),
        "names of records": sorted(path.name for path in (folder / "home" / "runs").glob("*.json")),
        "envs": json.loads(ask("envs", "--json")),
        "tables": tables(ask, folder),
    }


class Command:
    """`sqirl` of one source tree, with a store of its own."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.line = [sys.executable, "-W", "ignore", "-m", "sqirl"]
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(source),
            "SQIRL_HOME": str(folder / "home"),
            "OMP_NUM_THREADS": "1",
        }

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self.line, *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"sqirl {' '.join(arguments)} failed: {done.stderr}")
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.line, *arguments], env=self.environment, stdout=subprocess.DEVNULL)


def resumed(ask: Command) -> dict[str, Any]:
    """The record of a run that was killed after its first checkpoint and went on."""
    folder = Path(ask.environment["SQIRL_HOME"]) / "resumed"
    run = ("train", "sqirl", _EMPTY, "-m", "8", "--timesteps", "4000", "--keep-going", "--json", "--checkpoint-every", "0",
           "-o", str(folder))  # fmt: skip
    process = ask.start(*run)
    while not list(folder.glob("*.checkpoint")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return _record(ask(*run))


def _record(text: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(text)
    config = {name: value for name, value in record["config"].items() if value is not None}
    return {**{name: value for name, value in record.items() if name not in NOT_COMPARED}, "config": config}


def tables(ask: Command, folder: Path) -> dict[str, Any]:
    """The numbers of the report: its tables of environments as CSV by column, and the data of its page."""
    ask("report", "--no-pictures", "-o", str(folder / "page.html"), "--tables", str(folder / "tables"))
    page = (folder / "page.html").read_text()
    data = _data_of(page)
    written = {
        name: list(csv.DictReader((folder / "tables" / name).open())) for name in ("complexities.csv", "returns.csv")
    }
    rows = {row["id"]: _page_row(row) for row in data["rows"]}
    agreement = {entry["algorithm"]: entry for entry in data["agreement"]}
    for entry in agreement.values():
        entry["within"] = entry.pop("within_three", entry.get("within"))  # an older name
    by_env = {name: {row["env"]: row for row in table} for name, table in written.items()}
    return {
        "csv": by_env,
        "rows": rows,
        "agreement": agreement,
        **{name: data[name] for name in ("paper", "ours", "counts")},
    }


def _data_of(page: str) -> dict[str, Any]:
    """The data that a page holds, in an element of its own or, in older pages, in a line of its script."""
    _, element, rest = page.partition('<script type="application/json" id="data">')
    if element:
        return dict(json.loads(rest.partition("</script>")[0]))
    line = next(line for line in page.splitlines() if line.startswith("const D = "))
    return dict(json.loads(line.removeprefix("const D = ")[:-1]))


def _page_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the page without its learning curves; older pages left the paper's budget of 5 million steps to JavaScript."""
    runs = {name: {k: v for k, v in run.items() if k not in ("curve", "curves")} for name, run in row["runs"].items()}
    paper = row.pop("paper", None)
    if paper is not None:
        row["paper_solved"] = {
            name: steps if steps is not None and steps <= 5e6 else None for name, steps in paper.items()
        }
    return {**row, "runs": runs}


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """The places where two nested values differ; what is new in `now` is no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            if key in now:
                yield from differences(value, now[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}: {_short(value)} is gone"
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{place}/{index}")
    elif before != now:
        yield f"{place}: {_short(before)} became {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 80 else f"{text[:77]}…"


def count(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(count, parts)) if isinstance(value, dict | list) else 1


if __name__ == "__main__":
    main()
