from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sqirl.cli.main import run

# The tests run in parallel processes, and the examples are tiny
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

settings.register_profile(
    "sqirl",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("sqirl")

#: The name of the property of a test that the summary adds up.
COUNTED = "counted"


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has its own folder of built MDPs."""
    monkeypatch.setenv("SQIRL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def sqirl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run the command in an empty folder; (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            run(list(arguments))
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory with these options of `mount`; the test is skipped where mounting is not allowed."""
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB."""
    with mounted(tmp_path / "disk", "size=256k") as folder:
        yield folder


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "read_only", "ro") as folder:
        yield folder


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Let the summary of all tests say how many of something there were, also from tests in other processes."""
    return lambda what, number: record_property(COUNTED, (what, number))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name.startswith("test_hostile_"):
            item.add_marker(pytest.mark.hostile)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many bad inputs were tried, by kind: the tests of the modules `test_hostile_*`; and what tests counted."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    hostile = Counter(
        Path(report.nodeid.partition("::")[0]).stem for report in reports if "test_hostile_" in report.nodeid
    )
    if hostile:
        kinds = ", ".join(
            f"{number} {module.removeprefix('test_hostile_')}" for module, number in sorted(hostile.items())
        )
        terminalreporter.write_line(f"bad inputs: {hostile.total()} ({kinds})")
    counted: Counter[str] = Counter()
    for report in reports:
        for name, value in report.user_properties:
            if name == COUNTED:
                counted[value[0]] += value[1]
    for what, number in sorted(counted.items()):
        terminalreporter.write_line(f"{what}: {number}")
