"""The line that says that numba compiles."""

from __future__ import annotations

import numba
import pytest

from sqirl.runtime import compiling


def test_compiling_is_announced_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_announced", False)
    compiling.announce_compiling()
    for number in (1, 2):
        numba.njit(eval(f"lambda x: x + {number}"))(1)
    assert capsys.readouterr().err.count("compiling (once on this machine") == 1
