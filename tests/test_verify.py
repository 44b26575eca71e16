"""`--verify`: what a run says about its prediction, which env is trained, and the table of the docs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqirl
from sqirl.diagnosis import verify as module
from sqirl.diagnosis.diagnose import diagnose
from sqirl.diagnosis.features import exact_features
from sqirl.diagnosis.predict import predict
from sqirl.diagnosis.result import Diagnosis
from sqirl.diagnosis.verify import OPEN, RIGHT, WRONG, Verification, verify
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.runs.config import RunConfig
from sqirl.runs.progress import RunProgress
from sqirl.runs.record import Point

ROOT = Path(__file__).parent.parent


def run(reached_at: int | None, low: float, high: float, steps: int = 5_000_000) -> Verification:
    budget = int(min(high, 5_000_000))
    return Verification("ppo", 1e5, low, high, budget, 1.0, 0.5, reached_at, steps, 10_000)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (run(90_000, 57_000, 1.8e6), RIGHT),
        (run(10_000, 2_000, 50_000), RIGHT),  # 10,000 steps or less were predicted
        (run(10_000, 57_000, 1.8e6), WRONG),  # too early
        (run(60_000, 10_000, 55_000), RIGHT),  # somewhere between 50,000 and 60,000
        (run(70_000, 10_000, 55_000), WRONG),
        (run(None, 10_000, 55_000, steps=55_000), WRONG),
        (run(None, 10_000, 55_000, steps=30_000), OPEN),  # the time ended
        (run(None, 400_000, 9e6), RIGHT),  # five million steps and more were predicted
        (run(None, 400_000, 9e6, steps=4_000_000), RIGHT),  # whatever follows is in the interval
        (run(None, 400_000, 9e6, steps=300_000), OPEN),
    ],
)
def test_what_a_run_says(found: Verification, outcome: str) -> None:
    assert found.outcome == outcome and Verification.from_dict(found.to_dict()) == found
    said = "nothing is decided" if outcome == OPEN else f"the prediction was {outcome}"
    assert str(found).endswith(said) and "predicted" in str(found)


@pytest.fixture(scope="module")
def cliff() -> Diagnosis:
    return diagnose("CliffWalking-v1", horizon=20, time_limit=20)


def trained(monkeypatch: pytest.MonkeyPatch, means: list[float]) -> list[RunConfig]:
    """Runs are replaced by these evaluations, one each 10,000 steps; the configs of the runs."""
    configs = []

    def train(config: RunConfig, watch: Any) -> None:
        configs.append(config)
        try:
            for place, mean in enumerate(means, start=1):
                watch(RunProgress(config, 10_000 * place, 1.0, Point(10_000 * place, mean), None))
        except module._Enough:
            return

    monkeypatch.setattr(module, "_train", train)
    return configs


def test_the_run_ends_where_the_return_is_reached(monkeypatch: pytest.MonkeyPatch, cliff: Diagnosis) -> None:
    configs = trained(monkeypatch, [-50.0, -20.0, -14.0, -13.0, -13.0])
    found = verify("CliffWalking-v1", cliff)
    assert found.target == pytest.approx(-14.3)  # 10 % of the optimal return, not of the gain on falling off the cliff
    assert (found.reached_at, found.steps, found.best) == (30_000, 30_000, -14.0) and len(found.curve) == 3
    assert configs[0].env_id == 'CliffWalking-v1 {"sqirl:horizon": 20}' and configs[0].stop == "never"
    assert configs[0].timesteps == found.budget


def test_a_run_that_is_cut_decides_nothing(monkeypatch: pytest.MonkeyPatch, cliff: Diagnosis) -> None:
    trained(monkeypatch, [-50.0, -20.0, -14.0])
    found = verify("CliffWalking-v1", cliff, seconds=-1.0)
    assert found.steps == 10_000 and found.cut and found.outcome == OPEN


def test_what_was_analysed_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = trained(monkeypatch, [0.5, 1.0])
    found = diagnose('diagnosis_envs:Counts {"sqirl:hold": ["elapsed"]}', horizon=12, time_limit=10)
    assert verify("diagnosis_envs:Counts", found).reached_at == 20_000
    assert configs[0].env_id == 'diagnosis_envs:Counts {"sqirl:hold": ["elapsed"], "sqirl:horizon": 12}'


def test_what_cannot_be_trained_is_said(tmp_path: Path, cliff: Diagnosis) -> None:
    mdp = TabularMDP.deterministic(np.full((1, 2), END, np.int32), np.array([[0.0, 1.0]]), horizon=1)
    mdp.save(tmp_path / "one.npz")
    found = sqirl.diagnose(mdp, time_limit=5)
    with pytest.raises(SqirlError, match="is a table; there is no env to train"):
        verify(str(tmp_path / "one.npz"), found)
    with pytest.raises(SqirlError, match="cannot be trained with a horizon of 20"):
        verify("BRIDGE/MiniGrid-Empty-5x5-v0", cliff)
    flat = TabularMDP.deterministic(np.full((1, 2), END, np.int32), np.zeros((1, 2)), horizon=1)
    with pytest.raises(SqirlError, match="there is no prediction"):
        verify("CliffWalking-v1", sqirl.diagnose(flat, time_limit=5))


@pytest.mark.slow
def test_verify_really_trains(sqirl) -> None:
    name = 'FrozenLake-v1 {"is_slippery": false}'
    code, out, _ = sqirl("diagnose", name, "--time-limit", "10", "--verify")
    assert code == 0 and "PPO reached 0.901 after 10,000 steps" in out.splitlines()[-1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("verify_predictions")


def test_a_run_beside_a_new_prediction(script: Any) -> None:
    features = exact_features(12.0, 3.0)
    known = {
        "verification": run(90_000, 1.0, 2.0).to_dict(),
        "features": {"kind": features.kind, "values": dict(features.values)},
    }
    again = Verification.from_dict(script.predicted_again(known)["verification"])
    ppo = predict(features)[0]
    assert (again.predicted, (again.low, again.high)) == (ppo.steps, ppo.interval) and again.reached_at == 90_000
    assert script.is_same(0.9, 0.91) and not script.is_same(0.9, 0.95)


def test_the_shipped_predictions_are_those_of_the_shipped_models(script: Any) -> None:
    for result in script.read_results().values():
        if result["verification"] is not None:
            shipped, again = (one["verification"] for one in (result, script.predicted_again(result)))
            assert again["predicted"] == pytest.approx(shipped["predicted"], rel=0.01)
            assert again["outcome"] == shipped["outcome"]


def test_the_table_of_the_docs_is_that_of_the_runs(script: Any) -> None:
    results = script.read_results()
    assert len(results) >= 20 and set(results) == {case.title for case in script.CASES}
    assert script.results_table(results) in (ROOT / "docs" / "diagnose.md").read_text(encoding="utf-8")
