"""Training on users' envs: every kind of space, what is known of them, and how far a budget goes."""

from __future__ import annotations

import errno
import itertools
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

import own_envs
import sqirl as sqirl_api
from sqirl.algorithms.registry import algorithm
from sqirl.envs.actions import Combinations, combinations, discrete_actions, names_of_actions
from sqirl.envs.description import describe
from sqirl.errors import SqirlError, WorkFailed
from sqirl.evaluation.exact import Nodes, exact_return
from sqirl.experiments.protocol import planned_run
from sqirl.experiments.search import Cost, promising_ks, search
from sqirl.experiments.sweeps import Sweep
from sqirl.mdp.build import build_mdp
from sqirl.play.observations import AsVector, text_vector
from sqirl.play.training_env import training_env
from sqirl.runs import checkpoint
from sqirl.runs.in_words import lines_after
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.run import perform
from sqirl.runs.store import RecordStore
from sqirl.runs.target import target_of

ACTION_ENVS = ("FirstActionIsOne", "MultiDiscreteActions", "BinaryActions", "DictActions", "TupleActions")
OBSERVATION_ENVS = ("DictObservations", "TupleObservations", "TextObservations", "CellsFromOne")


def test_combinations_are_numbered_in_the_order_of_the_product() -> None:
    space = Combinations(gym.spaces.MultiDiscrete([2, 3, 2]))
    numbered = [tuple(space.action(number).tolist()) for number in range(12)]
    assert numbered == list(itertools.product(range(2), range(3), range(2)))
    assert space.original.contains(space.action(7))


@pytest.mark.parametrize("name", ACTION_ENVS)
def test_every_combination_is_an_action_of_the_space_and_they_differ(name: str) -> None:
    original = getattr(own_envs, name).action_space
    space = Combinations(original)
    actions = [space.action(number) for number in range(int(space.n))]
    assert all(original.contains(action) for action in actions)
    assert len({repr(action) for action in actions}) == space.n == combinations(original)


@pytest.mark.parametrize("name", ACTION_ENVS)
def test_an_env_with_combined_actions_has_the_optimal_return_of_the_plain_one(name: str) -> None:
    mdp = build_mdp(f"own_envs:{name}")
    assert mdp.num_actions == combinations(getattr(own_envs, name).action_space) == describe(
        f"own_envs:{name}"
    ).num_actions()  # fmt: skip
    assert mdp.num_states == own_envs.LENGTH - 1  # the last cell ends the episode


def test_an_env_that_is_given_as_an_object_is_numbered_too() -> None:
    assert build_mdp(own_envs.MultiDiscreteActions()).num_actions == 6


def test_names_of_combined_actions() -> None:
    def names(env: gym.Env[object, object]) -> tuple[str, ...] | None:
        numbered = discrete_actions(env)
        return names_of_actions(numbered, int(numbered.action_space.n))  # type: ignore[attr-defined]

    assert names(own_envs.DictActions()) == ("go=0 hold=3", "go=0 hold=4", "go=1 hold=3", "go=1 hold=4")
    assert names(own_envs.BinaryActions()) == ("(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)")
    assert names(own_envs.Walk()) == ("BACK", "FORTH")  # constants of its module
    assert names(gym.make("CartPole-v1")) is None


def test_too_many_combinations_are_refused_with_their_number_and_the_limit() -> None:
    with pytest.raises(SqirlError, match="has 1,048,576 actions, more than 1,024"):
        build_mdp("own_envs:ManyActions")
    huge = gym.spaces.MultiBinary(10**7)
    assert combinations(gym.spaces.Tuple((huge, gym.spaces.Box(0, 1)))) is None
    assert (combinations(huge) or 0) > 10**3000  # counted up to a limit, without filling the memory


def test_plain_discrete_actions_are_left_alone() -> None:
    env = own_envs.Walk()
    assert discrete_actions(env) is env


@pytest.mark.parametrize("name", ACTION_ENVS)
def test_a_training_env_plays_combined_actions(name: str) -> None:
    env = training_env(f"own_envs:{name}")
    assert isinstance(env.action_space, gym.spaces.Discrete) and not int(env.action_space.start)
    env.reset()
    right = int(env.action_space.n) - 1 - (name == "DictActions")
    for _ in range(own_envs.LENGTH - 1):
        _, rewards, ends, _ = env.step(np.array([right]))
    assert rewards == [1] and ends.all()


@pytest.mark.parametrize("name", OBSERVATION_ENVS)
def test_observations_become_one_vector_that_tells_cells_apart(name: str) -> None:
    env = training_env(f"own_envs:{name}")
    seen = [env.reset()[0]]
    assert isinstance(env.observation_space, gym.spaces.Box) and len(env.observation_space.shape) == 1
    seen += [env.step(np.array([1]))[0][0] for _ in range(own_envs.LENGTH - 2)]
    assert len({each.tobytes() for each in seen}) == own_envs.LENGTH - 1
    assert all(each.shape == env.observation_space.shape and each.dtype == np.float32 for each in seen)


def test_what_a_vector_is_made_of() -> None:
    env = AsVector(own_envs.DictObservations(), "it")
    assert env.description == "9 of grid, 5 of cell (one-hot), 64 of task (text)"
    vector, _ = env.reset()
    assert vector[9:14].tolist() == [1, 0, 0, 0, 0] and not vector[:9].any() and vector[14:].sum() == 2 * 4
    picture = gym.spaces.Box(0, 255, (40, 40, 3), np.uint8)

    class Pictures(own_envs.Walk):
        observation_space = gym.spaces.Tuple((picture,))

        def seen(self) -> tuple[np.ndarray]:
            return (np.full((40, 40, 3), 255, np.uint8),)

    assert AsVector(Pictures(), "it").reset()[0].tolist() == [1] * 4800


def test_texts_with_different_words_differ() -> None:
    words = [f"word{number}" for number in range(300)]
    assert len({text_vector(word).tobytes() for word in words}) == 300
    assert (text_vector("a b") == text_vector("b a")).all() and text_vector("").sum() == 0


def test_observations_without_a_fixed_size_are_refused() -> None:
    with pytest.raises(SqirlError, match="which has no fixed size; wrap the env"):
        training_env("own_envs:SequenceObservations")


def test_minigrid_by_its_gymnasium_id() -> None:
    pytest.importorskip("minigrid")
    env = training_env("minigrid:MiniGrid-Empty-5x5-v0", num_envs=2)
    assert env.reset().shape == (2, 4 + 7 * 7 * 3 + 64)


def test_a_horizon_in_the_name_ends_episodes_there() -> None:
    name = 'own_envs:Walk {"sqirl:horizon": 3}'
    assert describe(name).horizon == 3
    env = training_env(name)
    env.reset()
    ends = [bool(env.step(np.array([0]))[2][0]) for _ in range(3)]
    assert ends == [False, False, True]
    assert describe('CartPole-v1 {"sqirl:horizon": 900}').horizon == 900  # beyond its own limit, as in `analyze`


def test_what_is_known_of_an_env_that_closes_quickly() -> None:
    known = target_of("own_envs:Walk")
    assert known.optimal == 1 and known.random == exact_return(build_mdp("own_envs:Walk"), uniform)
    assert target_of("FrozenLake-v1").optimal == pytest.approx(0.744, abs=0.001)  # from its P, within 100 steps
    assert target_of('own_envs:Walk {"sqirl:horizon": 3}').optimal == 0
    assert (
        target_of("hostile_envs:Unpicklable").optimal is None and target_of("hostile_envs:HugeReward").optimal is None
    )


def uniform(t: int, nodes: Nodes) -> NDArray[np.floating]:
    return np.full((len(nodes.states), 2), 0.5)


def test_the_share_of_the_way_from_random_play_to_the_optimum() -> None:
    config = planned_run("ppo", "own_envs:Walk", timesteps=100)
    record = RunRecord(config, (Point(100, 0.41),), 100, 1.0, optimal_return=0.85, random_return=0.02)
    assert record.share == pytest.approx((0.41 - 0.02) / (0.85 - 0.02)) and record.to_dict()["share"] == record.share
    line = "return 0.41 = 47 % of the way from random play (0.02) to the optimum (0.85)"
    assert record.share_line == line and lines_after(record)[1:] == [f"  {line}"]
    assert lines_after(replace(record, curve=(Point(100, 0.85),)))[1:] == []  # solved
    for unknown in ({"optimal_return": None}, {"random_return": None}, {"random_return": 0.85}, {"curve": ()}):
        assert replace(record, **unknown).share is None


def test_how_many_iterations_a_budget_covers() -> None:
    def said(algorithm: str, timesteps: int, **options: int) -> str | None:
        config = planned_run(algorithm, 'own_envs:Walk {"sqirl:horizon": 60}', timesteps=timesteps, options=options)
        return config.spec.coverage(config.chosen, describe(config.env_id), config.timesteps)

    least = "more if episodes end early"
    assert said("sqirl", 20_000) == f"20,000 steps cover 3 of 60 iterations with m = 100, {least}; m = 5 would fit"
    assert (
        said("gorp", 20_000, k=2, m=10)
        == f"20,000 steps cover 8 of 60 iterations with m = 10, {least}; m = 1 would fit"
    )
    assert said("gorp", 2_000, m=1) == (
        f"2,000 steps cover 16 of 60 iterations with m = 1, {least}; with m = 1 all of them need 7,200 steps"
    )
    assert said("sqirl", 18_000, m=5) is None and said("ppo", 10) is None
    assert planned_run("sqirl", "hostile_envs:NeverEnds").spec.coverage(
        {"k": 1, "m": 1}, describe("hostile_envs:NeverEnds"), 100
    ) == "hostile_envs:NeverEnds has no horizon, so SQIRL iterates until its budget is spent; --horizon T sets one"  # fmt: skip


def test_train_says_it_before_and_after(sqirl, tmp_path: Path) -> None:
    arguments = ("--timesteps", "300", "-m", "30", "-o", str(tmp_path))
    code, out, err = sqirl("train", "gorp", "own_envs:DictObservations", *arguments, "--horizon", "5")
    assert code == 0
    name = 'own_envs:DictObservations {"sqirl:horizon": 5}'
    assert f"{name} is observed as one vector: 9 of grid, 5 of cell (one-hot), 64 of task (text)" in err
    assert f"known of {name}: optimal return 1, random play 0.09375" in err
    assert "300 steps cover 1 of 5 iterations with m = 30, more if episodes end early; m = 6 would fit" in err
    first, share, iterations = out.splitlines()
    assert (
        "not solved; last mean return" in first
        and "% of the way from random play (0.09375) to the optimum (1)" in share
    )
    assert iterations.strip().startswith("1 of 5 iterations are done; the actions of later steps are not fixed yet")
    assert "see it play: sqirl watch " in err


def test_the_search_for_k_and_m_on_an_own_env(sqirl, tmp_path: Path) -> None:
    env = describe("own_envs:Walk")
    assert Cost(env, algorithm("sqirl")).horizon == 8 and promising_ks(env, (1, 5, 9)) == [1, 5]
    searching = search(Sweep("tune", ("own_envs:Walk",), ("sqirl",), seeds=1, timesteps=3000), env.name, "sqirl")
    [config] = next(searching)
    assert config.env_id == "own_envs:Walk" and config.chosen == {"k": 1, "m": 32}  # 32 · 8 · 8 steps end before 3,000


def test_a_missing_torch_is_one_line(sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = sqirl("train", "ppo", "own_envs:Walk", "-o", str(tmp_path))
    assert (code, out) == (2, "")
    assert err == "sqirl: PyTorch is not installed; install it with: pip install 'sqirl[train]'\n"
    monkeypatch.delitem(sys.modules, "sqirl.runs.policies", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.base_class", None)
    code, out, again = sqirl("watch", "own_envs:Walk", "--runs", str(tmp_path))
    assert (code, out, again) == (2, "", err.replace("PyTorch", "Stable-Baselines3"))


def test_a_full_disk_costs_checkpoints_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    config = planned_run("gorp", "own_envs:Walk", timesteps=200, options={"m": 5})
    with pytest.warns(
        UserWarning, match=r"checkpoint '.*' cannot be written \(No space left on device\); the run goes on"
    ):
        record = perform(config, RecordStore(tmp_path), checkpoint_seconds=0)
    assert record.curve
    monkeypatch.setattr(RecordStore, "put", full)
    with pytest.raises(
        WorkFailed, match=r"record '.*json' cannot be written: No space left on device; its checkpoint is kept"
    ):
        perform(replace(config, seed=1), RecordStore(tmp_path))


def test_learning_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sqirl_api.GORP(env="own_envs:Walk", m=2, seed=0).learn(50)
    assert not list(tmp_path.iterdir())


def test_the_api_is_what_dir_shows() -> None:
    assert dir(sqirl_api) == sorted(sqirl_api.__all__)
