"""Write the parts of the site that come from commands: python scripts/make_site.py [--fast]

The symbols of docs/glossary.md are those of `sqirl.report.words`. The table of docs/reproduce.md says of each part of the paper
which command makes it, how much processor time it took here, and what it wrote; the tables below it are what it wrote.
`--fast` leaves the commands out.
"""

from __future__ import annotations

import csv
import os
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqirl.report.words import WORDS

DOCS = Path(__file__).parent.parent / "docs"
REPORT = "sqirl report -o report.html --no-pictures --tables tables --figures figures"
ATARI = "sqirl sweep atari-long --dry-run --no-preview"


@dataclass(frozen=True)
class Item:
    """A part of the paper, the command that makes it, and where our result is."""

    paper: str
    command: str
    written: str  # a file that the command writes, or "" if it prints its result
    result: str  # a page of the docs, or words


ITEMS = (
    Item("Section 3: an environment, exactly", "sqirl analyze BRIDGE/MiniGrid-FourRooms-Sticky-v0", "", "[start](start.md)"),
    Item("Section 3, Figure 2: the least k of all environments", REPORT, "figures/min-k.pdf", "[environments](bridge.md)"),
    Item("Table 1: bounds", "sqirl analyze BRIDGE/freeway_10_fs30-Sticky-v0", "", "[theory](theory.md)"),
    Item("Section 4: the 155 environments", "sqirl envs", "", "[environments](bridge.md)"),
    Item("Table 2: environments solved", REPORT, "tables/table-2-environments-solved.csv", "[below](#table-2)"),
    Item("Table 3: comparisons", REPORT, "tables/table-3-comparisons.csv", "[below](#table-3)"),
    Item("Figure 3: sample complexities", REPORT, "figures/sqirl-ppo.pdf", "[training](training.md)"),
    Item("Figure 4: full-length Atari", ATARI, "", "[training](training.md#full-length-atari)"),
    Item("Tables 4 to 6: settings", "sqirl train ppo --help", "", "[paper to code](paper_to_code.md#appendices)"),
    Item("Appendix D.1: sample complexities", REPORT, "tables/complexities.csv", "[training](training.md)"),
    Item("Appendix D.2: returns", REPORT, "tables/returns.csv", "the file"),
    Item("Appendix D.3, Figure 5: learning curves", REPORT, "figures/curve-freeway_10_fs30-Sticky-v0.pdf", "the file"),
    Item("all runs on stored tables", "sqirl sweep tables --dry-run", "", "[below](#the-runs)"),
    Item("all runs", "sqirl sweep bridge --dry-run --no-preview", "", "[below](#the-runs)"),
)  # fmt: skip


_WORDS_OF_TABLES = {
    "Table 2": "How many environments are solved. `ours_of` are those that our runs decide.",
    "Table 3": "Over the environments that both algorithms solve: rank correlation of their steps and median of their ratio, "
    "with 95 % intervals. Then how many environments both solve, only one, or neither.",
}


@dataclass(frozen=True)
class Result:
    """What a command printed, and the seconds of processor time that it took."""

    printed: str
    seconds: float


def run_items(folder: Path) -> dict[str, Result]:
    """Run each command once, in the folder, with an empty store."""
    environment = {**os.environ, "SQIRL_HOME": str(folder / "home")}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    results = {}
    for command in dict.fromkeys(item.command for item in ITEMS):
        before = _children_seconds()
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        results[command] = Result(done.stdout, _children_seconds() - before)
        print(f"{results[command].seconds:6.1f} s  {command}", file=sys.stderr)
    missing = [item.written for item in ITEMS if item.written and not (folder / item.written).is_file()]
    assert not missing, missing
    return results


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reproduction(folder: Path) -> str:
    """The part of docs/reproduce.md that comes from the commands."""
    results = run_items(folder)
    rows = []
    for item in ITEMS:
        written = f"`{item.written}`" if item.written else "printed"
        seconds = f"{results[item.command].seconds:.0f} s"
        rows.append([item.paper, f"`{item.command}`", seconds, written, item.result])
    parts = [markdown_table(["paper", "command", "processor time", "written", "ours"], rows)]
    for name, file in (("Table 2", "table-2-environments-solved"), ("Table 3", "table-3-comparisons")):
        with (folder / "tables" / f"{file}.csv").open(encoding="utf-8") as stream:
            head, *body = list(csv.reader(stream))
        table = markdown_table(head, [[_rounded(cell) for cell in row] for row in body])
        parts.append(f"## {name}\n\n{_WORDS_OF_TABLES[name]}\n\n{table}")
    runs = [item.command for item in ITEMS if item.command.startswith("sqirl sweep")]
    printed = "\n".join(f"$ {command}\n{results[command].printed.rstrip()}" for command in runs)
    parts.append(f"## The runs\n\nWhat all training runs of the paper would cost here:\n\n```\n{printed}\n```")
    return "\n\n".join(parts)


def _rounded(cell: str) -> str:
    return f"{float(cell):.2f}" if re.fullmatch(r"-?\d+\.\d+", cell) else cell


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table, with bars inside cells escaped."""
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *escaped])


def symbols() -> str:
    """The part of docs/glossary.md that `sqirl analyze` and the report print, too."""
    return "\n".join(f"**{symbol}**\n:   {meaning}\n" for symbol, meaning in WORDS.items()).rstrip()


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text between `<!-- name: written by … -->` and `<!-- end of name -->`."""
    new, count = re.subn(
        rf"(<!-- {name}: written by scripts/make_site.py -->\n).*?(\n<!-- end of {name} -->)",
        lambda found: f"{found[1]}\n{text}\n{found[2]}",
        page,
        flags=re.DOTALL,
    )
    assert count == 1, f"no comment '{name}'"
    return new


def main() -> None:
    page = DOCS / "glossary.md"
    page.write_text(replaced(page.read_text(encoding="utf-8"), "symbols", symbols()), encoding="utf-8")
    if "--fast" in sys.argv[1:]:
        return
    with tempfile.TemporaryDirectory() as folder:
        text = reproduction(Path(folder))
    page = DOCS / "reproduce.md"
    page.write_text(replaced(page.read_text(encoding="utf-8"), "reproduction", text), encoding="utf-8")


if __name__ == "__main__":
    main()
