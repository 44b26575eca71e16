from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sqirl.cli.main import run
from sqirl.envs import doctor


def test_a_healthy_machine(tmp_path: Path) -> None:
    found = {diagnosis.what: diagnosis for diagnosis in doctor.examine(tmp_path)}
    assert found["Atari"].fix is None and "all 39 ROMs" in found["Atari"].found
    assert found["Procgen"].fix is None and "sha256" in found["Procgen"].found and "Qt" in found["Procgen"].found
    assert found["MiniGrid"].fix is None and "GiB" in found["free disk"].found


def test_what_is_missing_comes_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    monkeypatch.setattr(doctor, "COMFORTABLE_DISK", 1 << 60)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stopped:
        run(["doctor", "--json"])
    found = {diagnosis["what"]: diagnosis for diagnosis in json.loads(capsys.readouterr().out)}
    assert stopped.value.code == 1
    assert "pip install 'sqirl[minigrid]'" in found["MiniGrid"]["fix"]
    procgen = "Python up to 3.12" if sys.version_info >= (3, 13) else "pip install --no-deps procgen-mirror"
    assert procgen in found["Procgen"]["fix"]
    assert "SQIRL_HOME" in found["free disk"]["fix"] and found["cores"]["fix"] is None
