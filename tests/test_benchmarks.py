"""The benchmarks find what they import. `make bench` runs them; that takes minutes and a quiet machine."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_can_be_imported(path: Path) -> None:
    try:
        assert runpy.run_path(str(path), run_name="imported")
    except ModuleNotFoundError as error:
        if error.name != "quantecon":  # `make bench` installs it
            raise
        pytest.skip("quantecon is not installed")


def test_all_benchmarks_are_there() -> None:
    assert {"bench_analysis", "bench_build", "bench_gpu", "bench_train"} <= {path.stem for path in BENCHMARKS}
