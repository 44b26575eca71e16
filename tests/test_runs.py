"""Configs, records, stores, checkpoints and memory: round trips, slow references, and files that are wrong on purpose."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.registry import algorithm, algorithm_names, algorithms
from sqirl.errors import SqirlError, WorkFailed
from sqirl.experiments.protocol import planned_run
from sqirl.runs import checkpoint, memory, store
from sqirl.runs import run as run_module
from sqirl.runs.config import RunConfig
from sqirl.runs.curve import Curve, versions_of
from sqirl.runs.record import Point, RunRecord, reaches
from sqirl.runs.run import Run, _Watch, perform
from sqirl.runs.store import RecordStore, gather_records, pack_records, shipped_records, unpack_records
from sqirl.runs.target import Target

th.set_num_threads(1)
EMPTY = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0"

CONFIGS = st.sampled_from(algorithm_names()).flatmap(
    lambda name: st.builds(
        RunConfig,
        st.just(name),
        st.sampled_from([EMPTY, "CartPole-v1", "PongNoFrameskip-v4"]),
        seed=st.integers(0, 2**32 - 1),
        timesteps=st.integers(1, 10**7),
        options=st.fixed_dictionaries({option.name: st.integers(1, 5000) for option in algorithm(name).options}),
        live=st.booleans(),
        eval_every=st.sampled_from([10, 10_000]),
        eval_episodes=st.integers(1, 100),
        stop=st.sampled_from(["exact", "mean", "never"]),
    )
)


# Configs -------------------------------------------------------------------------------------------------------------


@given(config=CONFIGS)
def test_a_config_survives_its_plain_form(config: RunConfig) -> None:
    again = RunConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config and hash(again) == hash(config) and again.digest == config.digest
    backwards = replace(config, options=dict(reversed(config.options)))
    assert backwards == config and backwards.digest == config.digest


@given(first=CONFIGS, second=CONFIGS)
def test_different_runs_have_different_names(first: RunConfig, second: RunConfig) -> None:
    assert (first.digest == second.digest) == (first == second)


#: The names of the records of these runs. They are file names on the disks of users.
DIGESTS = {
    "sqirl": ({"k": 1, "m": 100}, "d1ffa0eb26fd5aed"),
    "gorp": ({"k": 2, "m": 7}, "5ea5d0e47f9d5c63"),
    "ppo": ({"rollout": 1280}, "1aab229441f9c323"),
    "dqn": ({"epsilon_steps": 500_000}, "a89bf5572d13b4b0"),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_name_of_a_run_does_not_change(name: str) -> None:
    options, digest = DIGESTS[name]
    assert RunConfig(name, EMPTY, seed=2, timesteps=1000, options=options, stop="mean").digest == digest


@pytest.mark.parametrize("name", DIGESTS)
def test_an_option_of_another_algorithm_is_refused(name: str) -> None:
    plain = RunConfig(name, EMPTY).to_dict()
    foreign = "rollout" if name != "ppo" else "k"
    with pytest.raises(
        ValueError, match=f"{name} has no option {foreign}, nonsense|{name} has no option nonsense, {foreign}"
    ):
        RunConfig.from_dict({**plain, foreign: 3, "nonsense": 1})
    with pytest.raises(SqirlError, match="unknown algorithm 'a2c'"):
        RunConfig.from_dict({**plain, "algorithm": "a2c"})


# Records -------------------------------------------------------------------------------------------------------------


@st.composite
def records(draw: st.DrawFn) -> RunRecord:
    """Learning curves as runs make them: steps never decrease."""
    values = st.sampled_from([0.0, 0.5, 0.995, 1.0])
    some = st.integers(0, 400) | st.sampled_from([0, 99, 100, 101, 200, 300])  # also on the very step, and twice
    steps = sorted(draw(st.lists(some, max_size=8)))
    curve = tuple(Point(at, draw(values), draw(st.none() | values)) for at in steps)
    config = draw(CONFIGS)
    optimal = draw(st.sampled_from([None, 0.5, 1.0]))
    tolerance = draw(st.sampled_from([0.0, 0.005]))
    return RunRecord(replace(config, eval_every=100), curve, steps=400, optimal_return=optimal, tolerance=tolerance)


@given(record=records())
def test_a_record_survives_its_plain_form(record: RunRecord) -> None:
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@given(record=records())
def test_when_a_run_has_solved(record: RunRecord) -> None:
    """Against a loop over the points."""
    solved = exactly = complexity = None
    for place, point in enumerate(record.curve):
        before = record.curve[place - 1].steps if place else 0
        passed = [due for due in range(0, 500, 100) if before < due <= point.steps or due == point.steps]
        due = max(passed) if passed else min(later for later in range(0, 600, 100) if later > point.steps)
        assert record.due(place) == due
        if record.optimal_return is None:
            continue
        enough = record.optimal_return - record.tolerance - 1e-9
        if solved is None and point.mean >= enough:
            solved, complexity = point.steps, due
        if exactly is None and point.exact is not None and point.exact >= enough:
            exactly = point.steps
    assert (record.solved_at, record.solved_exactly_at, record.complexity) == (solved, exactly, complexity)
    assert record.best_mean == (max(point.mean for point in record.curve) if record.curve else None)


@given(value=st.floats(-1e6, 1e6), optimum=st.floats(-1e6, 1e6))
def test_rounding_is_forgiven_and_nothing_else(value: float, optimum: float) -> None:
    assert reaches(optimum, optimum) and reaches(optimum + abs(value), optimum)
    size = max(1.0, abs(optimum))
    assert reaches(optimum - 0.5e-9 * size, optimum) and not reaches(optimum - 2e-9 * size, optimum)
    assert reaches(optimum - 0.004, optimum, 0.005) and not reaches(optimum - 0.0052, optimum, 0.005)


def test_the_summary_says_what_was_reached() -> None:
    record = RunRecord(planned_run("gorp", EMPTY), (Point(500, 0.2),), steps=500, seconds=3.2)
    assert record.summary == f"gorp k=1 m=100 seed 0 on {EMPTY}: done; last mean return 0.2, 500 steps, 3 s"
    unsolved = replace(record, optimal_return=1.0, curve=(Point(500, 0.2, 0.25),))
    assert ": not solved; last mean return 0.2 of 1 (true return 0.25), 500 steps" in unsolved.summary
    lucky = replace(unsolved, curve=(Point(1500, 1.0, 0.9),))
    assert ": solved after 1,500 steps, its true return not optimal; " in lucky.summary
    solved = replace(unsolved, curve=(Point(1500, 1.0, 0.9), Point(2500, 1.0, 1.0)))
    assert ": solved after 1,500 steps, its true return optimal after 2,500; " in solved.summary


# The store -----------------------------------------------------------------------------------------------------------


def test_the_lock_of_a_run_is_there_while_it_is_held(tmp_path: Path) -> None:
    config, new, old = RunConfig("gorp", EMPTY), RecordStore(tmp_path / "new"), RecordStore(tmp_path)
    with new.claimed(config):
        assert [path.name for path in new.folder.iterdir()] == [f"{config.digest}.lock"]
    assert not new.folder.exists()  # nothing was written, so nothing is left
    with pytest.raises(ZeroDivisionError), old.claimed(config):
        raise ZeroDivisionError
    assert old.folder.exists() and not list(old.folder.iterdir())
    with new.claimed(config):
        new.put(RunRecord(config))
    assert [path.suffix for path in new.folder.iterdir()] == [".json"]


def test_half_a_file_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    config, others = RunConfig("gorp", EMPTY), tmp_path / ".other.json.x.part"
    for path in (others, tmp_path / f".{config.digest}.json.x.part", tmp_path / f".{config.digest}.checkpoint.y.part"):
        path.write_text("half")
    with RecordStore(tmp_path).claimed(config):
        assert list(tmp_path.glob(".*.part")) == [others]


def test_a_run_is_claimed_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "POLL_SECONDS", 0.005)
    config, records, inside, most = RunConfig("gorp", EMPTY), RecordStore(tmp_path), [], []

    def claim() -> None:
        for _ in range(5):
            with records.claimed(config):
                inside.append(1)
                most.append(len(inside))
                threading.Event().wait(0.002)
                inside.pop()

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    with records.claimed(replace(config, seed=1)):  # another run does not wait
        pass
    for thread in threads:
        thread.join()
    assert most == [1] * 20 and not list(tmp_path.iterdir())


def test_the_last_of_equal_records_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig("gorp", EMPTY, options={"k": 1, "m": 1})
    shipped, first, second = (RunRecord(config, seconds=float(number)) for number in range(3))
    other = RunRecord(replace(config, seed=5))
    monkeypatch.setattr(store, "shipped_records", lambda: [shipped, other])
    RecordStore(tmp_path / "a").put(first)
    RecordStore(tmp_path / "b").put(second)
    both = [tmp_path / "a", tmp_path / "b"]
    assert gather_records(both) == [second, other] and gather_records(both[::-1]) == [first, other]
    assert gather_records(both, shipped=False) == [second] and gather_records() == [shipped, other]
    RecordStore(store.default_folder()).put(first)
    assert gather_records() == [first, other]
    with pytest.raises(SqirlError, match=r"no folder '.*/none' of records"):
        gather_records([tmp_path / "a", tmp_path / "none"])


@pytest.fixture(scope="module")
def some() -> list[RunRecord]:
    return shipped_records()[:40]


def test_packed_records_do_not_depend_on_their_order(tmp_path: Path, some: list[RunRecord]) -> None:
    pack_records(some, tmp_path / "a.gz")
    pack_records(reversed(some), tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    unpacked = unpack_records(tmp_path / "a.gz")
    assert len(unpacked) == 40 and {record.config for record in unpacked} == {record.config for record in some}


@pytest.mark.parametrize("damage", ["torn", "changed", "text", "list", "no record", "bytes", "none"])
def test_a_damaged_file_of_records_is_one_line(tmp_path: Path, damage: str, some: list[RunRecord]) -> None:
    path = tmp_path / "r.gz"
    pack_records(some, path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    content = {
        "torn": whole[:middle],
        "changed": whole[:middle] + bytes(byte ^ 255 for byte in whole[middle : middle + 40]) + whole[middle + 40 :],
        "text": b"{}",
        "list": gzip.compress(b"[1, 2]"),
        "no record": gzip.compress(b'{"config": {"algorithm": "gorp"}}'),
        "bytes": gzip.compress(b"\xff\xfe"),
    }
    path.unlink() if damage == "none" else path.write_bytes(content[damage])
    with pytest.raises(SqirlError, match=r"r\.gz' is not a file of records") as caught:
        unpack_records(path)
    assert "\n" not in str(caught.value)


# The run itself ------------------------------------------------------------------------------------------------------


@contextmanager
def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[list[RunConfig]]:
    """Runs that only note that they were done."""
    done: list[RunConfig] = []

    class Noted:
        def __init__(self, config: RunConfig, *_: object) -> None:
            self.config, self.checkpoint_path = config, folder / "a.checkpoint"

        def perform(self) -> RunRecord:
            done.append(self.config)
            return RunRecord(self.config, steps=7)

    monkeypatch.setattr(run_module, "Run", Noted)
    yield done


def test_a_run_that_failed_is_done_again_and_a_finished_one_is_not(tmp_path: Path, monkeypatch) -> None:
    config, records = RunConfig("gorp", EMPTY), RecordStore(tmp_path)
    records.put(RunRecord(config, error="no memory"))
    (tmp_path / "a.checkpoint").write_bytes(b"old")
    with stand_in(monkeypatch, tmp_path) as done:
        assert perform(config, records).steps == 7 == perform(config, records).steps and done == [config]
    assert not (tmp_path / "a.checkpoint").exists()


@pytest.mark.parametrize(
    ("stop", "point", "solved"),
    [
        ("exact", Point(10, 1.0, 0.9), False),
        ("exact", Point(10, 0.9, 1.0), True),
        ("exact", Point(10, 1.0, None), True),  # without a table the mean has to do
        ("mean", Point(10, 1.0, 0.9), True),
        ("mean", Point(10, 0.9, 1.0), False),
        ("never", Point(10, 1.0, 1.0), False),
    ],
)
def test_the_rules_to_stop(stop: str, point: Point, solved: bool) -> None:
    config = RunConfig("gorp", EMPTY, stop=stop)
    curve = Curve(config, Target(1.0, 0.1))
    assert curve.solved is False  # without an evaluation
    curve.add(point.steps, point.mean, point.exact)
    assert curve.solved is solved and curve.points == [point]
    assert Curve(config, Target(1.0, 0.1), [Point(5, 1.0, 1.0), replace(point, mean=0.0, exact=0.0)]).solved is False
    assert Curve(config, Target(None, None), [point]).solved is False


def test_a_curve_knows_when_evaluations_are_due() -> None:
    curve = Curve(RunConfig("ppo", EMPTY, timesteps=3500, eval_every=1000), Target(1.0, 0.1))
    assert list(curve.due(0, 999)) == [] and list(curve.due(0, 1000)) == [1000]
    assert list(curve.due(1000, 1000)) == [] and list(curve.due(1000, 3000)) == [2000, 3000]
    assert list(curve.due(999, 9000)) == [1000, 2000, 3000]  # none after the budget


def test_a_curve_becomes_a_record() -> None:
    config = RunConfig("ppo", EMPTY, timesteps=3500, eval_every=1000)
    curve = Curve(config, Target(1.0, 0.1, 0.005))
    curve.add(1000, 0.2, None)
    curve.add(1000, 0.2, None)  # the same evaluation is no other point
    curve.note_exact(1500, 0.9)
    assert curve.optimal_at is None
    curve.note_exact(1600, 0.996)  # within the tolerance of a printed number
    curve.add(2000, 0.9, 1.0)
    record = curve.record(2004, 1.23456, device="cpu", trainer="population", precision="bfloat16")
    assert (
        record.curve == (Point(1000, 0.2), Point(2000, 0.9, 1.0)) and record.steps == 2004 and record.seconds == 1.235
    )
    assert (record.optimal_return, record.tolerance, record.random_return) == (1.0, 0.005, 0.1)
    assert record.optimal_at == 1600 == record.solved_exactly_at and record.solved_at is None
    assert (record.device, record.trainer, record.precision) == ("cpu", "population", "bfloat16")
    assert RunRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    with pytest.raises(WorkFailed, match=r"after 3,000 steps is nan: its rewards are not finite"):
        curve.add(3000, float("nan"), None)


def test_versions_of_packages_that_are_not_there_are_left_out() -> None:
    assert set(versions_of(("numpy", "no-such-package"))) == {"numpy"} and "torch" in versions_of()


def test_evaluations_come_with_the_first_step_after_they_are_due() -> None:
    evaluated, model = [], SimpleNamespace(num_timesteps=0)
    run = SimpleNamespace(
        model=model, config=RunConfig("ppo", EMPTY, eval_every=1000), checkpoint_seconds=1e9, progress=None,
        evaluate=lambda: evaluated.append(model.num_timesteps), curve=SimpleNamespace(solved=False),
    )  # fmt: skip
    for steps in ([300, 950, 1000, 1008], [3500, 3600, 4100, 4999]):  # the second part is resumed at 1,008 steps
        watch = _Watch(run)
        watch.model = model
        for model.num_timesteps in steps:
            assert watch._on_step()
    assert evaluated == [1000, 3500, 4100]
    run.curve.solved = True
    assert not watch._on_step()


# Checkpoints and memory ----------------------------------------------------------------------------------------------


def made(name: str, folder: Path, **changes: object) -> BaseAlgorithm:
    config = replace(planned_run(name, EMPTY, timesteps=1000), **changes)
    return Run(config, RecordStore(folder), "cpu", 60.0, None, None).model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BaseAlgorithm]:
    """A model of each algorithm that has learned nothing."""
    return {name: made(name, tmp_path_factory.mktemp(name)) for name in algorithm_names()}


@pytest.mark.parametrize("saved", ["sqirl", "gorp", "ppo", "dqn"])
def test_a_checkpoint_of_another_algorithm_is_refused(saved: str, models, tmp_path: Path) -> None:
    path, curve = tmp_path / "c.checkpoint", [Point(10, 0.5, 0.25)]
    checkpoint.save(path, algorithm(saved), models[saved], curve, 1.5)
    assert checkpoint.load(path, algorithm(saved), models[saved]) == (curve, 1.5)
    for name, model in models.items():
        if {name, saved} in ({"ppo", "dqn"}, {saved}):
            continue
        with pytest.raises(WorkFailed, match=r"checkpoint '.*c\.checkpoint' cannot be used .* remove it") as caught:
            checkpoint.load(path, algorithm(name), model)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"\x80\x04."])
def test_a_file_that_is_no_checkpoint_is_one_line(content: bytes, models, tmp_path: Path) -> None:
    (tmp_path / "c.checkpoint").write_bytes(content)
    with pytest.raises(WorkFailed, match="remove it to start the run again from its first step") as caught:
        checkpoint.load(tmp_path / "c.checkpoint", algorithm("gorp"), models["gorp"])
    assert "\n" not in str(caught.value)


def test_the_parts_of_the_memory(models) -> None:
    observation = 5 * 5 * 4  # bytes: the cells of MiniGrid-Empty-5x5, three codes and the time
    parts = {name: memory.memory_need(algorithm(name), model, 50_000).parts for name, model in models.items()}
    assert all(need.pop("Python and torch") == memory.BASE_BYTES for need in parts.values())
    weights = 4 * sum(weight.numel() for weight in models["sqirl"].policy.parameters())
    assert parts["sqirl"] == {
        "transitions": 2 * 50_000 * 60, "frozen networks": 100 * weights, "gradients and optimizer": 3 * weights
    }  # fmt: skip
    assert parts["ppo"] == {"rollout": 2 * 128 * 8 * observation}
    assert parts["dqn"] == {"replay": 0}  # a table is played by keys
    steps = models["gorp"].m * 3 * (100 + 1)  # of an iteration with k = 1
    assert parts["gorp"] == {"plans": 2 * 8 * steps, "episodes": 50 * min(steps, 50_000)}


def test_pictures_of_live_games_are_counted(tmp_path: Path) -> None:
    for name, part in (("sqirl", "frames"), ("dqn", "replay")):
        model = made(name, tmp_path, live=True)
        small, large = (algorithm(name).memory(model, steps)[part] for steps in (1000, 50_000))
        shape = model.observation_space.shape
        assert large > 10 * small > 0 and large >= 50_000 * int(th.tensor(shape).prod())


@pytest.mark.parametrize("name", ["sqirl", "gorp", "ppo", "dqn"])
def test_a_run_that_does_not_fit_is_refused(name: str, models, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, model = algorithm(name), models[name]
    need = memory.memory_need(spec, model, 10**6).total
    monkeypatch.setattr(memory, "available_memory", lambda: int(need / memory.SHARE) + 10)
    assert memory.check_memory(spec, model, 10**6).total == need
    monkeypatch.setattr(memory, "available_memory", lambda: int(need / memory.SHARE) - 10)
    with pytest.raises(
        SqirlError, match=r"would need 0\.\d GB \(Python and torch 0\.5.*\), but 0\.\d GB are free; take"
    ):
        memory.check_memory(spec, model, 10**6)
    monkeypatch.setattr(memory, "available_memory", lambda: None)  # a system that does not say
    assert memory.check_memory(spec, model, 10**6).total == need


def test_every_algorithm_has_a_checkpoint_that_brings_a_model_back(tmp_path: Path) -> None:
    for spec in algorithms():
        trained, fresh = (made(spec.name, tmp_path, timesteps=300) for _ in range(2))
        trained.num_timesteps = 123
        with th.no_grad():
            for weight in trained.policy.parameters():
                weight.add_(0.5)
        if spec.name == "gorp":
            trained.policy.actions = th.tensor([1, 2, 0])
        checkpoint.save(tmp_path / "c.checkpoint", spec, trained, [], 0.0)
        checkpoint.load(tmp_path / "c.checkpoint", spec, fresh)
        assert fresh.num_timesteps == 123
        states = trained.policy.state_dict(), fresh.policy.state_dict()
        for name, value in states[0].items():
            assert not isinstance(value, th.Tensor) or th.equal(value, states[1][name])


def test_the_summary_of_a_run_without_an_evaluation() -> None:
    config = RunConfig("gorp", EMPTY, options={"k": 1, "m": 2})
    assert RunRecord(config, error="no memory").summary.endswith(": failed: no memory")
    assert RunRecord(config).summary.endswith(": not evaluated")
