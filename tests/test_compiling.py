"""Compiling is said in one line, and a time limit does not count it."""

from __future__ import annotations

import time
from importlib import import_module
from types import SimpleNamespace

import numba
import pytest

import sqirl
from sqirl.runtime import compiling


def test_compiling_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    compiling.announce_compiling()
    before = compiling.seconds_of_compiling()
    for number in (1, 2):
        numba.njit(eval(f"lambda x: x + {number}"))(1)
    assert capsys.readouterr().err.count("compiling, which takes about half a minute") == 1
    assert compiling.seconds_of_compiling() > before


def test_a_diagnosis_does_not_count_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the analysis of four seconds were compiling: the changes of the environment are tried all the same."""
    module, listener = import_module("sqirl.diagnosis.diagnose"), SimpleNamespace(seconds=0.0)
    analysed = module.analysed

    def slowly(*arguments: object) -> object:
        time.sleep(4)
        listener.seconds += 4
        return analysed(*arguments)

    monkeypatch.setattr(module, "analysed", slowly)
    sqirl.diagnose("FrozenLake-v1", horizon=20, time_limit=10)  # compiles what it needs
    assert not sqirl.diagnose("FrozenLake-v1", horizon=20, time_limit=4).changes
    monkeypatch.setattr(compiling, "_listener", lambda: listener)
    assert sqirl.diagnose("FrozenLake-v1", horizon=20, time_limit=4).changes
