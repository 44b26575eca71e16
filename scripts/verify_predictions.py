"""Trains PPO for the predicted number of steps on small environments: docs/verified_predictions.json.

    python scripts/verify_predictions.py [--seconds 180] [--only TEXT] [--again] [--predict] [--table]

Each environment is diagnosed, and PPO is trained with one seed until it reaches the return that counts as good, to the end of
the predicted interval, or for so many seconds of the processor. What was run is kept and not run again, so the script can be
stopped and continued; `--again` runs it again. `--predict` compares the runs that are there with what the models say now of the
features that were found then. It trains where that decides nothing. `--table` only prints the table of docs/diagnose.md.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqirl.diagnosis.diagnose import diagnose
from sqirl.diagnosis.features import Features
from sqirl.diagnosis.model import Prediction
from sqirl.diagnosis.predict import predict
from sqirl.diagnosis.verify import OPEN, RIGHT, WRONG, Verification, budget_of, target_of, verify
from sqirl.diagnosis.words import interval_in_words, number, round_steps, steps_in_words
from sqirl.envs.naming import name_with
from sqirl.report.markdown import table
from sqirl.runtime.files import write_atomically

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "verified_predictions.json"
OWN_ENVS = "tests/diagnosis_envs.py"
#: Seconds of a diagnosis.
TIME_LIMIT = 60.0
#: Returns that count as good are the same if they differ by less than this share: those of samples are not exact.
SAME_TARGET = 0.02


@dataclass(frozen=True)
class Case:
    """An environment, its horizon where it has none of its own, and whether a step counter may be held."""

    env: str
    horizon: int | None = None
    hold_counters: bool = True

    @property
    def title(self) -> str:
        steps = "" if self.horizon is None else f", {self.horizon} steps"
        return f"{self.env}{steps}{'' if self.hold_counters else ', --no-hold'}"


SMALL_LAKE = ["SFFF", "FFHF", "FFFF", "HFFF", "FFFG"]
LAKE = ["SFFFFF", "FFFHFF", "FHFFHF", "FFFFFF", "FFHFFH", "FFFFFG"]

CASES = (
    Case("FrozenLake-v1"),
    Case('FrozenLake-v1 {"is_slippery": false}'),
    Case("FrozenLake8x8-v1"),
    Case('FrozenLake8x8-v1 {"is_slippery": false}'),
    Case(name_with("FrozenLake-v1", {"desc": SMALL_LAKE})),
    Case(name_with("FrozenLake-v1", {"desc": LAKE, "is_slippery": False})),
    Case("CliffWalking-v1", 50),
    Case("Taxi-v4"),
    Case("CartPole-v1"),
    Case("Blackjack-v1"),
    *(Case(f"MiniGrid-Empty-{size}-v0") for size in ("5x5", "6x6", "8x8", "Random-5x5", "Random-6x6")),
    *(Case(f"MiniGrid-{name}-v0") for name in ("DistShift1", "DistShift2")),
    Case("MiniGrid-Empty-5x5-v0", hold_counters=False),
    *(Case(f"{OWN_ENVS}:{name}", 20) for name in ("Walk", "Slips", "StartsAnywhere", "Saves", "OwnGenerator")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=180.0, help="seconds of the processor for each run; 0 trains nothing"
    )
    parser.add_argument("--only", default="", help="only the environments whose name contains this text")
    parser.add_argument("--again", action="store_true", help="run again what was run before")
    parser.add_argument(
        "--predict",
        action="store_true",
        help="predict again, and train only where the run that is there decides nothing",
    )
    parser.add_argument("--table", action="store_true", help="run nothing; only print the table")
    options = parser.parse_args()
    results = read_results()
    for case in CASES:
        wanted = options.only in case.title and not options.table
        if wanted and (options.again or options.predict or case.title not in results):
            known = None if options.again else results.get(case.title)
            result = run(case, options.seconds, known)
            results = {**read_results(), case.title: result}  # another process may have written in the meantime
            kept = {case.title: results[case.title] for case in CASES if case.title in results}
            lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(found)}" for name, found in kept.items())
            write_atomically(RESULTS, f"{{\n{lines}\n}}\n".encode())
            print(f"{case.title}: {results[case.title]}", flush=True)
    print(results_table(results))


def read_results() -> dict[str, dict[str, Any]]:
    """What was run before, by the titles of the cases."""
    found: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    return found


def run(case: Case, seconds: float, known: dict[str, Any] | None) -> dict[str, Any]:
    """The diagnosis of an environment beside a run of PPO: the known one where it decides the prediction, or a new one."""
    if known is not None and "features" in known:
        known = predicted_again(known)
        if Verification.from_dict(known["verification"]).outcome != OPEN or seconds <= 0:
            return known
    found = diagnose(case.env, horizon=case.horizon, time_limit=TIME_LIMIT, hold_counters=case.hold_counters)
    how = "exact" if found.is_exact else "estimated" if found.analysis is not None else "sampled"
    result: dict[str, Any] = {"how": how, "verdict": found.verdict.kind, "verification": None}
    if not found.predictions or found.features is None:
        return result
    result["features"] = {"kind": found.features.kind, "values": dict(found.features.values)}
    done = None
    if known is not None and known["verification"] is not None:  # a run of before features were kept
        earlier = Verification.from_dict(known["verification"])
        done = beside(earlier, found.predictions[0]) if is_same(target_of(found), earlier.target) else None
    if done is None or done.outcome == OPEN:
        trained = verify(case.env, found, seconds=seconds) if seconds > 0 else None
        if done is None or (trained is not None and (trained.reached_at is not None or trained.steps > done.steps)):
            done = trained
    return {**result, "verification": None if done is None else done.to_dict()}


def predicted_again(known: dict[str, Any]) -> dict[str, Any]:
    """A result with what the models say of its features now."""
    ppo = predict(Features(**known["features"]))[0]
    return {**known, "verification": beside(Verification.from_dict(known["verification"]), ppo).to_dict()}


def beside(run: Verification, prediction: Prediction) -> Verification:
    """The same run with another prediction."""
    low, high = prediction.interval
    return replace(run, predicted=prediction.steps, low=low, high=high, budget=budget_of(prediction))


def is_same(target: float, other: float) -> bool:
    """Do both count the same as good? Returns of samples are not exact."""
    return abs(target - other) <= SAME_TARGET * max(abs(target), abs(other))


def results_table(results: dict[str, dict[str, Any]]) -> str:
    """Predicted beside found, in Markdown, with the count of each outcome below."""
    shown = [(case, results[case.title]) for case in CASES if case.title in results]
    found = {case: Verification.from_dict(result["verification"]) for case, result in shown if result["verification"]}
    rows = []
    for case, result in shown:
        if case not in found:
            rows.append([f"`{case.title}`", result["how"], "none", "", "not trained", OPEN])
            continue
        run = found[case]
        interval = interval_in_words(run.low, run.high)
        rows.append(
            [f"`{case.title}`", result["how"], steps_in_words(run.predicted), interval, _found(run), run.outcome]
        )
    outcomes = [row[-1] for row in rows]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in (RIGHT, WRONG, OPEN))
    early = sum(
        run.outcome == WRONG and run.reached_at is not None and run.reached_at < run.low for run in found.values()
    )
    titles = ["environment", "features", "PPO predicted", "90 % interval", "PPO found", "prediction"]
    summary = f"Of {len(rows)} predictions: {counts}. In {early} of the wrong ones PPO was faster than predicted."
    return "\n".join([*table(titles, rows, left=2), summary])


def _found(found: Verification) -> str:
    if found.reached_at is not None:
        return f"{number(found.target)} after {round_steps(found.reached_at)}"
    best = "?" if found.best is None else number(found.best)
    cut = ", cut there" if found.cut else ""
    return f"{best} of {number(found.target)} after {round_steps(found.steps)}{cut}"


if __name__ == "__main__":
    main()
