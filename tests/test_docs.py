"""The docs name only what exists: modules, functions, files, commands and tests."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sqirl.analysis.archive import archived_analyses
from sqirl.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
PAPER_TO_CODE = ROOT / "docs" / "paper_to_code.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md", PAPER_TO_CODE]
#: Files are named from the root of the project or from that of the package.
FOLDERS = (ROOT, ROOT / "src" / "sqirl")
#: What commands write.
WRITTEN = ("out/", "report.html", "site/index.html")


def quoted(path: Path) -> list[str]:
    """Everything between backticks, without the blocks of code."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def found(name: str) -> Any:
    """The object that a dotted name stands for: a module, or something in it; fields of dataclasses count."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(thing, "__dataclass_fields__", {})
            thing = fields[part] if part in fields else getattr(thing, part)
        return thing
    raise AttributeError(name)


@cache
def functions_in(path: Path) -> set[str]:
    return {
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_dotted_names_can_be_imported(page: Path) -> None:
    missing = []
    for name in quoted(page):
        if re.fullmatch(r"sqirl(\.\w+)+", name):
            try:
                found(name)
            except AttributeError:
                missing.append(name)
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_tests_exist(page: Path) -> None:
    missing = []
    for name in quoted(page):
        path, _, test = name.partition("::")
        if path in WRITTEN or not re.fullmatch(r"[\w./-]+(\.(py|md|js|css|html|toml|json|yml)|/)", path):
            continue
        places = [folder / path for folder in FOLDERS if (folder / path).exists()]
        if not places or (test and test not in functions_in(places[0])):
            missing.append(name)
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_targets_are_known(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    lines = [
        *quoted(page),
        *re.findall(r"^ *((?:sqirl|make) [a-z-]+)(?= |$)", page.read_text(encoding="utf-8"), flags=re.MULTILINE),
    ]
    called = [line.split()[:2] for line in lines if re.match(r"(sqirl|make) [a-z]", line)]
    assert [call for call in called if call[1] not in (COMMANDS if call[0] == "sqirl" else targets)] == []


def test_every_row_of_the_paper_has_code_and_a_test() -> None:
    """Rows without code say so in words; all other rows name code, and what has code has a test."""
    rows = [
        line.split("|")[1:-1]
        for line in PAPER_TO_CODE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    rows = [[cell.strip() for cell in row] for row in rows if row[0].strip() != "Paper"]
    assert len(rows) > 40 and all(len(row) == 5 for row in rows)
    for paper, _, code, _, test in rows:
        says_none = code.startswith(("no code", "not made here", "assumed by"))
        assert says_none or ("`sqirl." in code and test.startswith("`tests/")), paper


def test_every_numbered_item_of_the_paper_is_there() -> None:
    text = PAPER_TO_CODE.read_text(encoding="utf-8")
    items = [
        *(f"Algorithm {n}" for n in (1, 2)), *(f"Table {n}" for n in range(1, 7)), *(f"Figure {n}" for n in range(1, 6)),
        "Definition 3.1", "Definition 3.2", "Definition 3.3", "Lemma 3.4", "Assumption 3.5", "Theorem 3.6", "Definition A.1",
        "Definition A.2", "Definition A.3", "Theorem A.4", "Example A.5", "Example A.6", "Lemmas B.1 to B.3",
    ]  # fmt: skip
    assert [item for item in items if not re.search(rf"^\|[^|]*\b{re.escape(item)}\b", text, re.MULTILINE)] == []


def test_the_python_of_the_readme_names_what_exists() -> None:
    """Every attribute of `sqirl` in the README's Python is there; every line parses."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert all(hasattr(importlib.import_module(node.module), alias.name) for alias in node.names)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sqirl":
                found(f"sqirl.{node.attr}")


def test_readme_counts_the_rows_that_are_analysed() -> None:
    rows = sum(analysis.sticky > 0 for analysis in archived_analyses().values())
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f" {rows} of the 155 environments are enumerated and analysed, " in text
    assert f" All {rows} have the paper's optimal return in every printed digit." in text
