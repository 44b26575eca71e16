"""Envs that are wrong: `sqirl train` and `sqirl watch` say in one line what and how to go on, with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

import hostile_envs
from sqirl.play import own_env

#: Part of the message for each env.
MESSAGES = {
    "RaisesInStep": "step() failed with KeyError: 'lost'",
    "RaisesManyLines": "step() failed with RuntimeError: first line second line third line (",
    "RaisesNothingToSay": "step() failed with AssertionError: no message",
    "RaisesInReset": "reset() failed with ValueError: no level",
    "RaisesInInit": "could not be made: OSError: no such level",
    "ExitsInStep": "step() failed with SystemExit: 0",
    "ExitsInReset": "reset() failed with SystemExit: 3",
    "ExitsInInit": "could not be made: SystemExit: 0",
    "NaNReward": "returned the reward nan after actions ",
    "InfiniteReward": "returned the reward -inf",
    "HugeReward": "returned the reward 1e+308 after actions ",
    "RewardOfText": "; a reward must be one number",
    "NoReward": "returned the reward None after actions ",
    "RewardVector": "returned the reward array([1., 2.]) after actions ",
    "EndVector": "step() failed with ValueError",
    "OldStep": "Gymnasium's step returns (observation, reward, terminated, truncated, info)",
    "OldReset": "reset() returned a int; Gymnasium's reset",
    "OldResetWithoutSeed": "reset() failed with TypeError",
    "StepReturnsNothing": "step() returned None; Gymnasium's step",
    "NoInfo": "the info that step() returned is None, not a dict",
    "OutsideOfItsSpace": "is 99, outside of Discrete(5)",
    "WrongShape": "has the shape (4,), but its observation_space says (3,)",
    "WrongShapeLater": "has the shape (3, 1), but its observation_space says (3,)",
    "NaNObservation": "contains NaN or infinite numbers",
    "InfiniteObservation": "contains NaN or infinite numbers",
    "TextForNumbers": "not numbers",
    "Ragged": "its parts have different lengths",
    "NoObservation": "has the shape (), but its observation_space says (3,)",
    "MissingPart": "is ['a'], but its observation_space is a dict of ['a', 'b']",
    "BadPart": "has the shape (2,), but its observation_space says (3,) (in its part 'b')",
    "NumberForText": "is int, not a text",
    "EmptyObservation": "shows 0 numbers",
    "HugeObservation": "shows 200,000,000 numbers",
    "ChangesObservations": "changed its spaces",
    "ChangesActions": "changed its spaces",
    "NoSpaces": "has no observation_space",
    "SpaceIsANumber": "has no observation_space",
}
ALGORITHMS = ("ppo", "dqn", "sqirl", "gorp")
#: Twelve of them in the fast suite, with the algorithms in turn.
FAST = (
    "RaisesInStep", "RaisesManyLines", "ExitsInStep", "ExitsInInit", "NaNReward", "HugeReward", "OldStep", "OldReset",
    "WrongShapeLater", "NaNObservation", "MissingPart", "ChangesActions",
)  # fmt: skip
CASES = [
    pytest.param(name, algorithm, id=f"{name}-{algorithm}", marks=() if is_fast else pytest.mark.slow)
    for place, name in enumerate(sorted(MESSAGES, key=lambda name: name not in FAST))
    for turn, algorithm in enumerate(ALGORITHMS)
    if (is_fast := name in FAST and turn == place % len(ALGORITHMS)) or turn in (place % 4, (place + 1) % 4)
]


def check_refused(code: int, out: str, err: str, message: str) -> None:
    """One line that says why, after notes; nothing on stdout, no traceback."""
    lines = err.strip().splitlines()
    assert code == 2 and out == "" and "Traceback" not in err
    assert lines[-1].startswith("sqirl: ") and message in lines[-1]
    assert all(line.startswith("sqirl: ") for line in lines)


def train(sqirl, algorithm: str, env: str, folder: Path, *more: str) -> tuple[int, str, str]:
    small = ("-m", "2") if algorithm in ("sqirl", "gorp") else ()
    return sqirl("train", algorithm, f"hostile_envs:{env}", "--timesteps", "600", "-o", str(folder), *small, *more)


@pytest.mark.parametrize(("name", "algorithm"), CASES)
def test_a_wrong_env_is_refused_in_one_line(sqirl, tmp_path: Path, name: str, algorithm: str) -> None:
    check_refused(*train(sqirl, algorithm, name, tmp_path), MESSAGES[name])
    assert not list(tmp_path.glob("*.json"))


def test_there_are_many_cases() -> None:
    slow = [case for case in CASES if case.marks]
    assert len(CASES) >= 70 and len(CASES) - len(slow) == 12
    assert MESSAGES.keys() <= vars(hostile_envs).keys()


@pytest.mark.parametrize("algorithm", ["dqn", pytest.param("sqirl", marks=pytest.mark.slow)])
def test_actions_that_are_not_discrete(sqirl, tmp_path: Path, algorithm: str) -> None:
    check_refused(*train(sqirl, algorithm, "ContinuousActions", tmp_path), "Box(-1.0, 1.0, (2,), float32)")


def test_episodes_that_never_end(sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_env, "EPISODE_LIMIT", 50)
    refused = train(sqirl, "gorp", "NeverEnds", tmp_path)
    check_refused(*refused, "did not end within 50 steps, twice; give the steps of an episode with --horizon T")
    code, _, _ = train(sqirl, "gorp", "NeverEnds", tmp_path, "--horizon", "20")
    assert code == 0


def test_an_env_that_cannot_be_copied_is_trained(sqirl, tmp_path: Path) -> None:
    code, out, _ = train(sqirl, "gorp", "Unpicklable", tmp_path)
    assert code == 0 and "last mean return" in out


def test_watching_an_env_that_broke(sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, _ = train(sqirl, "gorp", "BreaksLater", tmp_path)
    assert code == 0
    monkeypatch.setenv("BREAKS", "1")
    refused = sqirl("watch", "hostile_envs:BreaksLater", "--runs", str(tmp_path))
    check_refused(*refused, "step() failed with RuntimeError: broken since")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gorp", "-m", "1000000000"), "plays 2,000,000,000 episodes, more than the 5,000,000 steps of the budget"),
        (("sqirl", "-m", "1" + "0" * 40), "more than 1,000,000,000"),
        (("sqirl", "-m", "6000000"), "plays 6,000,000 episodes, more than the 5,000,000 steps of the budget"),
        (("gorp", "-m", "1000000000", "--timesteps", "1e11"), "this run would need"),
        (("gorp", "--device", "tpu"), "no device 'tpu'"),
        (("ppo", "--device", "quantum"), "no device 'quantum'"),
        (("ppo", "--threads", "1" + "0" * 30), "--threads"),
        (("ppo", "--rollout", "1" + "0" * 9), "memory"),
        (("ppo", "--horizon", "0"), "--horizon"),
        (("ppo", "-k", "3"), "ppo has no option k"),
        (("sqirl", "-k", "9"), "k = 9 is more than the 8 steps"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_numbers_that_make_no_sense(sqirl, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    algorithm, *rest = arguments
    check_refused(*sqirl("train", algorithm, "own_envs:Walk", "-o", str(tmp_path), *rest), message)


def test_the_horizon_of_a_bridge_id_is_its_own(sqirl, tmp_path: Path) -> None:
    refused = sqirl("train", "ppo", "BRIDGE/MiniGrid-Empty-5x5-v0", "--horizon", "5", "-o", str(tmp_path))
    check_refused(*refused, "--horizon is for your own env")
