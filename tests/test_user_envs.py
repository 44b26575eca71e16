"""Envs as users write them: they are enumerated correctly, or refused with one line that says why."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from envs_for_tests import Corridor
from sqirl.analysis.analyze import analyze
from sqirl.cli.main import run
from sqirl.envs.adapters import fingerprint
from sqirl.envs.check import check_env
from sqirl.errors import NotEnumerable, SqirlError
from sqirl.mdp.build import build_mdp


class Slotted:
    __slots__ = "cell"

    def __init__(self, cell: int) -> None:
        self.cell = cell


class Listed(list):
    """A list with an attribute."""


class Called:
    def __init__(self, cell: int) -> None:
        self.cell = cell

    def __call__(self) -> int:
        return self.cell


def listed(attribute: int) -> Listed:
    value = Listed([1])
    value.attribute = attribute
    return value


def looped(depth: int) -> list:
    top: list = [0]
    middle: list = [1]
    top.append(middle)
    middle.append(top if depth else middle)
    return top


@pytest.mark.parametrize(("one", "other"), [
    (deque([1]), deque([2])), (bytearray(b"a"), bytearray(b"b")), (Called(1), Called(2)), (listed(1), listed(2)),
    (Slotted(1), Slotted(2)), (looped(0), looped(1)), ((b"a;bytes:b",), (b"a", b"b")), (["ab", "c"], ["a", "bc"]),
    ({1: 2}, {2: 1}), ({1, 2}, {1, 3}), (np.array([1, None], object), np.array([2, None], object)),
    (np.zeros(2, np.int8), np.zeros(1, np.int16)), (1, True), (1, 1.0), (0.0, -0.0), ([1, [2]], [[1], 2]),
])  # fmt: skip
def test_fingerprints_of_different_values_differ_and_of_copies_agree(one: Any, other: Any) -> None:
    import copy

    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(copy.deepcopy(one))


def test_what_cannot_be_hashed_is_refused() -> None:
    with pytest.raises(NotEnumerable, match="cannot be hashed"):
        fingerprint(x for x in [1])


class History(Corridor):
    """State in a deque: pays when the last three actions were 1, 0, 1."""

    def reset(self, **kwargs: Any):
        self.history = deque([0, 0, 0], maxlen=3)
        return super().reset(**kwargs)

    def step(self, action: int):
        self.history.append(int(action))
        return 0, float(list(self.history) == [1, 0, 1]), False, False, {}


def test_state_in_a_deque_is_state() -> None:
    mdp = build_mdp(History(), horizon=8)
    assert mdp.num_states == 8 and analyze(mdp).optimal_return == 3


class OwnChance(Corridor):
    """Stochastic by a generator of its own, seeded in reset."""

    make_rng: Any = np.random.default_rng

    def reset(self, **kwargs: Any):
        self.rng = type(self).make_rng(kwargs.get("seed"))
        return super().reset(**kwargs)

    def outcome(self, action: int) -> tuple[int, float]:
        return super().outcome(0 if self.rng.random() < 0.3 else action)


class PythonsChance(OwnChance):
    make_rng = random.Random


@pytest.mark.parametrize("env", [OwnChance, PythonsChance])
def test_an_own_random_generator_is_detected(env: type[gym.Env]) -> None:
    mdp = build_mdp(env(), horizon=12, draws=400)
    assert mdp.outcomes is not None and mdp.outcomes.draws is not None and (mdp.outcomes.draws == 400).all()
    assert mdp.num_states == 5 and abs(mdp.outcomes.probabilities[2] - 0.7) < 0.1 and mdp.max_outcomes == 2
    report = check_env(env(), steps=300)
    assert report.problem is None and report.randomness is not None


class ForgetfulReset(Corridor):
    """Never calls super().reset(), counts its episodes, and hands out one observation buffer."""

    episodes = 0

    def __init__(self) -> None:
        super().__init__()
        self.buffer = np.zeros(1, np.int64)
        self.observation_space = gym.spaces.Box(0, 9, (1,), np.int64)

    def reset(self, *, seed: int | None = None, options: Any = None):
        self.episodes += 1
        self.cell = 0
        self.buffer[:] = 0
        return self.buffer, {}

    def step(self, action: int):
        _, *rest = super().step(action)
        self.buffer[:] = self.cell
        return self.buffer, *rest


def test_an_env_that_ignores_conventions_is_enumerated() -> None:
    mdp = build_mdp(ForgetfulReset(), horizon=20)
    assert mdp.num_states == 5 and mdp.screens[mdp.screen_mapping].ravel().tolist() == [0, 1, 2, 3, 4]
    assert check_env(ForgetfulReset(), steps=300).problem is None


@pytest.fixture
def registered():
    gym.register("Sized-v0", entry_point="envs_for_tests:Corridor", max_episode_steps=7, kwargs={"length": 6})
    yield
    del gym.registry["Sized-v0"]


def sized() -> gym.Env:
    return gym.make("Sized-v0", length=4)


def rewarded() -> gym.Env:
    return gym.wrappers.TransformReward(gym.make("Sized-v0", length=4), lambda reward: reward + 100)


def test_arguments_and_wrappers_of_a_factory_are_kept(registered) -> None:
    assert build_mdp("test_user_envs:sized", horizon=9).num_states == 3
    assert build_mdp("test_user_envs:rewarded", horizon=9).rewards.min() == 100
    assert build_mdp("Sized-v0").horizon == 7 and build_mdp(gym.make("Sized-v0", length=3), horizon=9).num_states == 2
    assert build_mdp(gym.make("CartPole-v1"), horizon=3).num_states > 3


def test_dynamics_are_read_from_p_only_without_other_wrappers() -> None:
    P = gym.make("FrozenLake-v1").unwrapped.P
    assert build_mdp(P, horizon=8).num_states == 16
    wrapped = build_mdp(gym.wrappers.TransformReward(gym.make("FrozenLake-v1"), lambda reward: reward - 1), horizon=8)
    assert wrapped.outcomes is not None and wrapped.outcomes.draws is not None and wrapped.rewards.max() < 0


class Broken(Corridor):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def step(self, action: int):
        result = super().step(action)
        if self.how == "raises":
            raise RuntimeError("out of fuel")
        if self.how == "four":
            return result[:4]
        reward = {"nan": float("nan"), "none": None}.get(self.how, result[1])
        observation = np.zeros(self.cell + 1) if self.how == "shapes" else result[0]
        return observation, reward, *result[2:]


@pytest.mark.parametrize(("how", "message"), [
    ("raises", "step.. failed with RuntimeError: out of fuel"), ("four", "step.. failed with ValueError"),
    ("nan", "the reward nan"), ("none", "the reward None for action 1; a reward must be one number"), ("shapes", "shapes"),
])  # fmt: skip
def test_an_error_of_the_env_is_reported_in_one_line(how: str, message: str) -> None:
    with pytest.raises(SqirlError, match=message) as caught:
        build_mdp(Broken(how), horizon=5)
    assert "\n" not in str(caught.value)


def test_modules_by_file_and_modules_that_fail(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "mine.py").write_text(
        (Path(__file__).parent / "envs_for_tests.py")
        .read_text()
        .replace("class Corridor(", "print('hello')\nclass Corridor(")
    )
    (tmp_path / "syntax.py").write_text("def (")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(3)")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as done:
        run(["analyze", "./mine.py:Corridor", "--horizon", "6", "--json"])
    out = capsys.readouterr().out
    assert done.value.code == 0 and out.startswith("{"), "what a module prints is no result"
    for target in ("syntax:A", "leaves:A", "./nothing.py:A", ":A", "mine:"):
        with pytest.raises(SystemExit) as stopped:
            run(["check", target])
        assert stopped.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_building_leaves_the_callers_env_alone() -> None:
    env = gym.make("BRIDGE/MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    env.step(2)
    before = env.unwrapped.game.state_key()
    mdp = build_mdp(env)
    assert env.unwrapped.game.state_key() == before
    assert mdp.env_at(3) is not mdp.env_at(9)


def test_arrays_of_an_mdp_cannot_be_changed_by_accident() -> None:
    mdp = build_mdp(Corridor(), horizon=5)
    with pytest.raises(ValueError, match="read-only"):
        mdp.rewards[0, 0] = 7
