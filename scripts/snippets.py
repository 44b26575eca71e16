"""Run the commands and programs of the docs: python scripts/snippets.py [--write] [PAGE…]

The blocks of a page run in their order, in an empty folder with an empty store. A block of

- `console` has commands after "$ " and what they print; "…" stands for any text, and alone in a line for any lines.
- `bash` has commands that must succeed.
- `python` is a program; with a title (```python title="my_env.py"), like any other block with one, it is written to that file.

A comment before a block says otherwise: `<!-- not run: reason -->`, `<!-- slow: reason -->` for what only the slow tests run, or
`<!-- cluster: reason -->` for what they run on a dask cluster, whose address then stands in the place of the page's.
`--write` puts what the commands print now into the pages. tests/test_site.py runs the same blocks.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
#: Pages whose blocks are run.
PAGES = ("index.md", "start.md", "your_env.md", "reproduce.md", "train_and_resume.md", "exactness.md", "diagnose.md")
#: The address of the cluster in the pages.
ADDRESS = "tcp://127.0.0.1:8786"
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>not run|slow|cluster): [^\n]+? -->\n)?"
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
#: What a shell must run; all other commands of sqirl run in this process, which saves the time to start.
_SHELL = re.compile(r"[|<>&;$`]")


@dataclass(frozen=True)
class Block:
    """A block of code of a page; `mark` is "not run", "slow", "cluster" or None."""

    language: str
    title: str | None
    mark: str | None
    text: str
    span: tuple[int, int]  # where the text is in the page


def blocks(page: str) -> list[Block]:
    """The blocks of a page that have a language."""
    return [
        Block(found["language"], found["title"], found["mark"], found["text"], found.span("text"))
        for found in _FENCE.finditer(page)
    ]


@dataclass(frozen=True)
class Outcome:
    """What became of a block: an error, or the text that it has with what was really printed."""

    block: Block
    error: str | None
    text: str


def run_page(text: str, folder: Path, *, slow: bool) -> Iterator[Outcome]:
    """Run the blocks of a page in a folder.

    :param slow: run those that are marked as slow, too
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    with _inside(folder):
        for block in blocks(text):
            if block.mark == "not run" or (block.mark is not None and not slow):
                continue
            if block.title is not None:
                Path(block.title).write_text(block.text, encoding="utf-8")
                yield Outcome(block, None, block.text)
            elif block.language == "python":
                yield _run_program(block, namespace)
            elif block.language == "bash":
                with _cluster() if block.mark == "cluster" else contextlib.nullcontext(ADDRESS) as address:
                    yield _run_commands(block, address)
            elif block.language == "console":
                yield _run_session(block)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in the folder, with a store and modules of its own."""
    before, environment, modules, path = Path.cwd(), dict(os.environ), set(sys.modules), list(sys.path)
    os.environ["SQIRL_HOME"] = str(folder / "home")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        for name in set(sys.modules) - modules:  # a page's own modules must not stay for the next page
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def _run_program(block: Block, namespace: dict[str, object]) -> Outcome:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block.text, "snippet", "exec"), namespace)
    return Outcome(block, None, block.text)


@contextlib.contextmanager
def _cluster() -> Iterator[str]:
    """The address of a dask cluster of one worker process."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def _run_commands(block: Block, address: str) -> Outcome:
    for line in filter(None, block.text.replace("\\\n", " ").splitlines()):
        printed, code = run_command(re.sub(r"\s+# .*$", "", line).replace(ADDRESS, address))
        if code != 0:
            return Outcome(block, f"`{line}` ended with {code}: {printed}", block.text)
    return Outcome(block, None, block.text)


def _run_session(block: Block) -> Outcome:
    written, wrong = "", []
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", "").partition("\n")
        printed, _ = run_command(re.sub(r"\s+# .*$", "", command[2:]))
        if matches(expected, printed):
            written += part
        else:
            written += part[: len(part) - len(expected)] + printed
            wrong.append(f"{command}\n{printed}")
    return Outcome(block, "the page shows something else than\n" + "\n".join(wrong) if wrong else None, written)


def matches(expected: str, printed: str) -> bool:
    """Is it what was printed? "…" in a line stands for any text, and alone for any lines."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", ".*") + r"[ \t]*\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None


def run_command(line: str) -> tuple[str, int]:
    """What a command prints, stdout and stderr together, and its exit code."""
    if line.startswith("sqirl ") and not _SHELL.search(line):
        return _run_sqirl(shlex.split(line)[1:])
    done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout, done.returncode


def _run_sqirl(arguments: list[str]) -> tuple[str, int]:
    from sqirl.cli.main import run

    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            run(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return printed.getvalue(), code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--write", action="store_true", help="put what the commands print now into the pages")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.pages:
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            outcomes = list(run_page(text, Path(folder), slow=True))
        for outcome in reversed(outcomes):  # from the end, so that the places before stay right
            first, last = outcome.block.span
            text = text[:first] + outcome.text + text[last:]
        wrong = [outcome.error for outcome in outcomes if outcome.error]
        print(f"{name}: {len(outcomes)} blocks run, {len(wrong)} {'changed' if arguments.write else 'wrong'}")
        if arguments.write:
            page.write_text(text, encoding="utf-8")
        else:
            print(*wrong, sep="\n")
            failed += len(wrong)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
