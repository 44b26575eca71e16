"""The architecture as a test: imports point one way, budgets are kept, nothing heavy loads at import."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "sqirl"
#: The packages and their levels, from the bottom up; a package imports from itself and from packages of a lower level.
LEVELS = {
    "errors": 0,
    "data": 0,
    "runtime": 1,
    "envs": 2,
    "mdp": 3,
    "play": 4,
    "analysis": 5,
    "evaluation": 5,
    "algorithms": 6,
    "runs": 7,
    "results": 8,
    "experiments": 9,
    "report": 10,
    "diagnosis": 11,
    "cli": 12,
    "__main__": 13,
}
NO_TORCH = ("runtime", "envs", "mdp", "analysis")
MAX_FILE, MAX_FUNCTION = 400, 60
#: Lines of tests for each line of source.
MIN_TEST_RATIO = 0.5
#: So many equal lines in a row, in two places, are a piece of code that should be written once.
MAX_REPEAT = 6


def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py"))]


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_imports_point_one_way() -> None:
    upward = []
    for path, tree in modules():
        package = package_of(path)
        if package == "__init__":
            continue
        for name in imported(tree):
            parts = name.split(".")
            if parts[0] == "sqirl" and len(parts) > 1 and parts[1] in LEVELS:
                other = parts[1]
                if LEVELS[other] > LEVELS[package] or (LEVELS[other] == LEVELS[package] and other != package):
                    upward.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not upward


def test_every_package_is_known() -> None:
    assert {package_of(path) for path, _ in modules()} <= LEVELS.keys() | {"__init__"}


def test_no_torch_below_the_algorithms() -> None:
    assert not [
        path
        for path, tree in modules()
        if package_of(path) in NO_TORCH and any(n.split(".")[0] == "torch" for n in imported(tree))
    ]


def test_budgets() -> None:
    long_files = [str(path) for path, _ in modules() if len(path.read_text().splitlines()) > MAX_FILE]
    assert not long_files
    too_long = []
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and body_length(node) > MAX_FUNCTION:
                too_long.append(f"{path.name}:{node.name} {body_length(node)}")
    assert not too_long


def body_length(node: ast.FunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_there_is_half_a_line_of_tests_for_a_line_of_source() -> None:
    tests = sum(len(path.read_text().splitlines()) for path in Path(__file__).parent.glob("*.py"))
    source = sum(len(path.read_text().splitlines()) for path, _ in modules())
    assert tests >= MIN_TEST_RATIO * source


def test_nothing_is_written_twice() -> None:
    """No six lines of code in a row stand in two places; imports, comments and lone brackets do not count."""
    places: dict[tuple[str, ...], set[str]] = {}
    for path, _ in modules():
        numbered = [(n, line.strip()) for n, line in enumerate(path.read_text().splitlines(), start=1)]
        code = [(n, line) for n, line in numbered if len(line) > 3 and not line.startswith(("#", "import ", "from "))]
        for first in range(len(code) - MAX_REPEAT + 1):
            run = tuple(line for _, line in code[first : first + MAX_REPEAT])
            places.setdefault(run, set()).add(f"{path.relative_to(SOURCE)}:{code[first][0]}")
    assert not [sorted(found) for found in places.values() if len(found) > 1]
