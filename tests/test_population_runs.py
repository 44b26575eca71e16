"""Runs as populations: their records, stops and halves, on tiny tables on the CPU. A run alone is the second representation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from population_cases import corridor, relative
from sqirl.algorithms.checkpoints import write_checkpoint
from sqirl.algorithms.dqn import spec as dqn_spec
from sqirl.algorithms.dqn.hyperparameters import DQNHyperparameters
from sqirl.algorithms.population.dqn import DQNPopulation
from sqirl.algorithms.population.ppo import PPOPopulation
from sqirl.algorithms.population.sqirl import SQIRLPopulation
from sqirl.algorithms.population.table import device_table
from sqirl.algorithms.population.trainer import Trainer, selected, stored
from sqirl.algorithms.registry import algorithm
from sqirl.algorithms.sqirl import spec as sqirl_spec
from sqirl.algorithms.sqirl.hyperparameters import SQIRLHyperparameters
from sqirl.analysis.analyze import analyze
from sqirl.envs.description import describe
from sqirl.envs.view import View, frames_as_channels
from sqirl.errors import SqirlError, WorkFailed
from sqirl.evaluation.exact import Nodes, exact_return
from sqirl.experiments.scheduler import OpenSearch, Scheduler
from sqirl.experiments.search import search
from sqirl.experiments.sweeps import Sweep
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.table import Table
from sqirl.results.known_runs import KnownRuns, majority
from sqirl.runs import perform as perform_module
from sqirl.runs import population_run
from sqirl.runs.config import STOP_MEAN, STOP_NEVER, RunConfig
from sqirl.runs.perform import perform_all, trains_together
from sqirl.runs.population_groups import groups_of
from sqirl.runs.population_run import PopulationRun, can_be_together, perform_together
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import RecordStore
from sqirl.runs.target import Target

th.set_num_threads(1)
#: The name under which the tiny tables are played; its network is NatureCNN.
ROW = "BRIDGE/freeway_10_fs30-Sticky-v0"
TRAINERS = {"sqirl": SQIRLPopulation, "ppo": PPOPopulation, "dqn": DQNPopulation}
#: (options, budget, interval of evaluations)
RUNS: dict[str, tuple[dict[str, int], int, int]] = {
    "sqirl": ({"k": 2, "m": 6}, 1000, 40),
    "ppo": ({"rollout": 32}, 900, 200),
    "dqn": ({"epsilon_steps": 1500}, 3000, 1000),  # it is evaluated after blocks of 1,000 steps
}


def wheel() -> Table:
    """Eight states with random successors and rewards, five steps, sticky actions; every state has its own screen."""
    rng = np.random.default_rng(5)
    mdp = TabularMDP.deterministic(
        rng.integers(0, 8, size=(8, 3)), rng.normal(size=(8, 3)), horizon=5, screen_mapping=np.arange(8)
    ).sticky(0.25)
    frames = rng.integers(256, size=(9, 36, 36), dtype=np.uint8)
    return Table(mdp, View((36, 36), (36, 36, 1), np.asarray, frames_as_channels), frames)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small replays and minibatches."""
    monkeypatch.setitem(
        sqirl_spec.HYPERPARAMETERS, "ours",
        SQIRLHyperparameters(learning_rate=1e-3, buffer_size=500, batch_size=16, n_epochs=4),
    )  # fmt: skip
    monkeypatch.setitem(
        dqn_spec.HYPERPARAMETERS, "ours",
        DQNHyperparameters(buffer_size=1000, batch_size=4, target_update_interval=80, learning_rate=5e-4),
    )  # fmt: skip


class Play:
    """Plays a tiny table in the place of `ROW`, and notes what is made and learned."""

    def __init__(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table, self.trainers, self.learned, self.stop_after = table, [], 0, None
        self.optimal = analyze(table.mdp).optimal_return
        on_device = device_table(table, reward_factor=2.0), th.tensor(table.mdp.rewards.reshape(-1)).double()
        monkeypatch.setattr(population_run, "_tables", lambda *_: on_device)
        monkeypatch.setattr(population_run, "target_of", lambda env: Target(self.optimal, -1.0))
        for name, cls in TRAINERS.items():
            monkeypatch.setattr(cls, "learn", self._counted(cls.learn))
            spec = type(algorithm(name))
            monkeypatch.setattr(spec, "make_trainer", self._noted(spec.make_trainer))

    def _noted(self, make: Callable[..., Trainer]) -> Callable[..., Trainer]:
        def noted(*args: Any, **options: Any) -> Trainer:
            self.trainers.append(make(*args, **options))
            return self.trainers[-1]

        return noted

    def _counted(self, learn: Callable[[Any], None]) -> Callable[[Any], None]:
        def counted(trainer: Any) -> None:
            if self.stop_after is not None and self.learned >= self.stop_after:
                raise KeyboardInterrupt
            self.learned += 1
            learn(trainer)

        return counted


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(wheel(), monkeypatch)


def configs_of(name: str, seeds: range, *, stop: str = STOP_NEVER, **changes: Any) -> list[RunConfig]:
    options, timesteps, every = RUNS[name]
    first = RunConfig(
        name, ROW, timesteps=timesteps, options=options, eval_every=every, eval_episodes=20, stop=stop
    )  # fmt: skip
    return [replace(first, seed=seed, **changes) for seed in seeds]


def together(configs: list[RunConfig], folder: Path, **how: Any) -> list[RunRecord]:
    return perform_together(configs, RecordStore(folder), device="cpu", **how)


def without_time(records: list[RunRecord]) -> list[RunRecord]:
    return [replace(record, seconds=0.0) for record in records]


# Records -------------------------------------------------------------------------------------------------------------


def returns_on_the_cpu(trainer: Trainer, table: Table) -> list[float]:
    """The exact returns of the policies, by `sqirl.evaluation.exact`, which knows nothing of populations."""
    policies, members = trainer.policies(64), len(trainer.seeds)

    def policy_of(member: int) -> Callable[[int, Nodes], np.ndarray]:
        def choose(t: int, nodes: Nodes) -> np.ndarray:
            keys = np.repeat(nodes.keys[:1], 64, axis=0)
            keys[: len(nodes.keys)] = nodes.keys
            policies.prepare(t)
            asked = th.as_tensor(keys.astype(np.int32)).expand(members, -1, -1).contiguous()
            return policies.act(asked)[member, : len(nodes.keys)].numpy().astype(np.int64)

        return choose

    return [exact_return(table, policy_of(member)) for member in range(members)]


@pytest.mark.parametrize("name", TRAINERS)
def test_records_are_those_of_their_configs(name: str, play: Play, tmp_path: Path) -> None:
    configs = configs_of(name, range(3))
    records = together(configs, tmp_path)
    assert [record.config for record in records] == configs and all(record.error is None for record in records)
    for record in records:
        assert (record.trainer, record.precision, record.device) == ("population", "float32", "cpu")
        assert record.played_from == "table" and record.optimal_return == play.optimal and record.random_return == -1.0
        assert {"sqirl", "torch"} <= record.versions.keys() and record.seconds > 0
        every, budget = record.config.eval_every, record.config.timesteps
        end = record.steps if name == "sqirl" else budget  # SQIRL ends with its last iteration
        due = list(range(every, end + 1, every))
        assert [point.steps for point in record.curve[: len(due)]] == due and record.steps == end <= budget
        assert record.curve[-1].steps == record.steps and len(record.curve) - len(due) in (0, 1)
        assert RecordStore(tmp_path).get(record.config) == record
    [trainer] = play.trainers  # nobody was solved, so nobody left before the end
    assert [record.curve[-1].exact for record in records] == pytest.approx(
        returns_on_the_cpu(trainer, play.table), rel=1e-12
    )
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}


@pytest.mark.parametrize("name", TRAINERS)
def test_the_same_seeds_give_the_same_records_and_the_others_do_not_matter(
    name: str, play: Play, tmp_path: Path
) -> None:
    configs = configs_of(name, range(3))
    first, again = (without_time(together(configs, tmp_path / folder)) for folder in ("a", "b"))
    assert first == again and first[0].curve != first[1].curve
    if name != "dqn":  # its curve depends on rounding, which the other members change on a CPU
        assert without_time(together(configs[1:2], tmp_path / "alone")) == first[1:2]


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("calls", [1, 2])
def test_a_population_that_was_killed_goes_on_as_if_it_had_not(
    name: str, calls: int, play: Play, tmp_path: Path
) -> None:
    configs = configs_of(name, range(2))
    whole = without_time(together(configs, tmp_path / "whole"))
    all_calls, play.learned, play.stop_after = play.learned, 0, calls
    with pytest.raises(KeyboardInterrupt):
        together(configs, tmp_path / "killed", checkpoint_seconds=-1.0)
    assert len(list((tmp_path / "killed").glob("*.checkpoint"))) == 1
    play.learned, play.stop_after = 0, None
    again = without_time(together(configs, tmp_path / "killed", checkpoint_seconds=-1.0))
    assert again == whole and play.learned == all_calls - calls  # nothing was learned twice
    assert {path.suffix for path in (tmp_path / "killed").iterdir()} == {".json"}


@pytest.mark.parametrize("name", ["sqirl", "ppo"])
def test_runs_of_a_checkpoint_go_on_although_others_are_asked_for(name: str, play: Play, tmp_path: Path) -> None:
    """Seeds 0 to 2 were killed, 0 and 1 have records since then, and 2 and 3 are asked for."""
    configs = configs_of(name, range(4))
    whole = without_time(together(configs, tmp_path / "whole"))
    all_calls, play.learned, play.stop_after = play.learned, 0, 2
    with pytest.raises(KeyboardInterrupt):
        together(configs[:3], tmp_path / "killed", checkpoint_seconds=-1.0)
    play.learned, play.stop_after, play.trainers[:] = 0, None, []
    for config in configs[:2]:
        RecordStore(tmp_path / "killed").put(RunRecord(config, (Point(40, 0.5),), steps=40))
    assert without_time(together(configs[2:], tmp_path / "killed")) == whole[2:]
    assert {tuple(trainer.seeds.tolist()) for trainer in play.trainers} >= {(2,), (3,)}
    assert play.learned == (all_calls - 2) + all_calls  # seed 2 went on, seed 3 began


def test_the_groups_of_runs_by_their_checkpoints(tmp_path: Path) -> None:
    configs, store = configs_of("sqirl", range(4)), RecordStore(tmp_path)
    [fresh] = groups_of(configs, store)
    assert fresh.configs == configs and groups_of(configs[1:], store)[0].name != fresh.name
    setting = fresh.name.partition("-")[0]
    ended = [(configs[1].to_dict(), {}), (configs_of("sqirl", range(9))[8].to_dict(), {})]
    write_checkpoint(tmp_path / f"{setting}-one.checkpoint", {"rows": [(configs[3].to_dict(), 0)], "ended": ended})
    (tmp_path / f"{setting}-one.checkpoint").rename(
        tmp_path / f"{setting}-one.checkpoint.before"
    )  # killed while writing
    kept, others = groups_of(configs, store)
    assert (kept.configs, kept.name) == ([configs[1], configs[3]], f"{setting}-one")
    assert others.configs == [configs[0], configs[2]]
    [other] = groups_of(configs[:3], store)  # seed 3 is in the checkpoint too: another process may go on with it
    assert other.configs == configs[:3] and other.name != kept.name
    store.put(RunRecord(configs[3], (Point(40, 0.5),), steps=40))
    assert [group.configs for group in groups_of(configs[:3], store)] == [[configs[1]], [configs[0], configs[2]]]
    assert groups_of(configs_of("sqirl", range(2), stop=STOP_MEAN), store)[0].configs[0].stop == STOP_MEAN
    (tmp_path / f"{setting}-two.checkpoint").write_bytes(b"damaged")
    with pytest.raises(WorkFailed, match=f"{setting}-two.checkpoint' cannot be used"):
        groups_of(configs, store)


@pytest.mark.parametrize("timesteps", [80, 100])
def test_a_policy_is_evaluated_once_at_the_end_of_a_budget(timesteps: int, play: Play, tmp_path: Path) -> None:
    """The budget ends in the second or third iteration, which is dropped. At 100 steps no evaluation was due before the end."""
    [record] = together(configs_of("sqirl", range(1), timesteps=timesteps), tmp_path)
    assert [point.steps for point in record.curve] == ([40, 80] if timesteps == 80 else [40, 80, 100])
    assert record.curve[-1].exact is not None and record.steps == timesteps


def test_a_record_that_exists_is_not_run_again(play: Play, tmp_path: Path) -> None:
    configs = configs_of("sqirl", range(3))
    done = RunRecord(configs[1], (Point(40, 0.5),), steps=40)
    RecordStore(tmp_path).put(done)
    RecordStore(tmp_path).put(RunRecord(configs[2], error="failed before"))
    records = together(configs, tmp_path)
    assert records[1] == done and play.trainers[0].seeds.tolist() == [0, 2]
    assert records[2].error is None and together(configs, tmp_path) == records and len(play.trainers) == 1


def test_runs_that_differ_in_more_than_seeds_are_refused(tmp_path: Path) -> None:
    first, second = configs_of("sqirl", range(2))
    with pytest.raises(SqirlError, match="differ in more than their seeds"):
        together([first, replace(second, timesteps=7)], tmp_path)
    assert not tmp_path.exists() or not list(tmp_path.iterdir())


def test_progress_is_told_for_every_run(play: Play, tmp_path: Path) -> None:
    told = []
    configs = configs_of("sqirl", range(2))
    together(configs, tmp_path, progress=told.append)
    assert {each.config for each in told} == set(configs) and max(each.steps for each in told) <= 5 * 5 * 6
    assert all(each.optimal_return == play.optimal for each in told) and told[-1].last is not None


# Ends ----------------------------------------------------------------------------------------------------------------


def test_an_iteration_that_the_budget_cuts_short_is_dropped(play: Play, tmp_path: Path) -> None:
    """Episodes have five steps and iterations 30: of 70 steps, the last ten teach nothing."""
    [record] = together(configs_of("sqirl", range(1), timesteps=70, eval_every=20), tmp_path)
    assert play.learned == 2 and record.steps == 70
    assert [point.steps for point in record.curve] == [20, 40, 60, 70]
    longer = together(configs_of("sqirl", range(1), timesteps=95, eval_every=20), tmp_path)[0]
    assert play.learned == 5 and longer.curve[:3] == record.curve[:3]


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("moment", ["before learning", "after learning"])
def test_a_smaller_population_goes_on_where_the_larger_one_was(name: str, moment: str, play: Play) -> None:
    """The state of one of three members, in a population of its own: what it learns next is the same up to rounding."""
    table, _ = population_run._tables()
    options, spec = RUNS[name][0], algorithm(name)
    make = lambda seeds: spec.make_trainer(table, describe(ROW), options, seeds=seeds, precision="float32")  # noqa: E731
    large, small = make([3, 4, 5]), make([4])
    large.play()
    if moment == "after learning":
        large.learn()
        large.play()
        large.learn()
    members, shared = large.state()
    small.restore(selected(stored(members), [1]), shared)
    assert small.steps() == large.steps()[1:2] and th.equal(small.learner.flat[0], large.learner.flat[1])
    start = large.learner.flat[1].clone()
    for trainer in (large, small):
        if moment == "before learning":
            trainer.learn()
        else:
            trainer.play()
            trainer.learn()
    assert small.steps() == large.steps()[1:2]
    moved = large.learner.flat[1] - start
    if name != "dqn":  # which learns while it plays
        assert moved.any()
    assert relative(small.learner.flat[0] - start, moved) < 0.01 or not moved.any()


def test_solved_runs_leave_and_the_others_go_on_in_a_smaller_population(play: Play, tmp_path: Path) -> None:
    configs = configs_of("sqirl", range(4), timesteps=1000, eval_every=10, stop=STOP_MEAN)
    play.optimal = 10.0
    free = together([replace(config, stop=STOP_NEVER) for config in configs], tmp_path / "free")
    # Which return counts as optimal: most runs reach it before their last evaluation
    play.optimal = sorted(max(point.mean for point in record.curve[1:-1]) for record in free)[1]
    play.trainers.clear()
    seen: list[int] = []
    store = RecordStore(tmp_path / "all")
    records = together(
        configs, tmp_path / "all", progress=lambda told: seen.append(sum(store.get(c) is not None for c in configs))
    )
    solved = [record.solved_at is not None for record in records]
    assert any(solved) and any(0 < count < 4 for count in seen)  # records are there while others run
    assert len(play.trainers[0].seeds) == 4 and len(play.trainers) > 1
    alone = [together([config], tmp_path / f"alone{config.seed}")[0] for config in configs]
    assert without_time(records) == without_time(alone)


def test_when_enough_runs_are_solved_the_others_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(corridor(), monkeypatch)
    configs = configs_of("ppo", range(5), timesteps=20_000, eval_every=256, stop=STOP_MEAN)
    whole = together(configs, tmp_path / "whole")
    complexities = sorted(record.complexity for record in whole)
    assert play.optimal == 10.0 and complexities[0] < complexities[-1]
    records = together(configs, tmp_path / "enough", enough=1)
    budget = complexities[0]
    for config, record, full in zip(configs, records, whole, strict=True):
        if full.complexity <= budget:
            assert replace(record, seconds=0.0) == replace(full, seconds=0.0)
        else:
            assert record.config == replace(config, timesteps=budget) and record.steps == budget
            assert record.curve == tuple(point for point in full.curve if point.steps <= budget)
            assert record.complexity is None and record.solved_exactly_at in (None, full.solved_exactly_at)
    assert any(record.config.timesteps == budget for record in records)
    # Runs of other seeds count: a setting that three of five are known to solve within this budget needs no more
    elsewhere = together(configs, tmp_path / "elsewhere", enough=3, solved=(1, 2, budget))
    assert without_time(elsewhere) == without_time(records)


@pytest.mark.parametrize("fits", [1, 2])
def test_a_population_that_does_not_fit_is_halved(
    fits: int, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = configs_of("sqirl", range(4))
    expected = without_time(together(configs, tmp_path / "whole"))
    perform, sizes = PopulationRun.perform, []

    def limited(self: PopulationRun) -> dict[RunConfig, RunRecord]:
        sizes.append(len(self.configs))
        if len(self.configs) > fits:
            raise th.cuda.OutOfMemoryError("CUDA out of memory")
        return perform(self)

    monkeypatch.setattr(PopulationRun, "perform", limited)
    assert without_time(together(configs, tmp_path / "halves")) == expected
    assert sizes == ([4, 2, 2] if fits == 2 else [4, 2, 1, 1, 2, 1, 1])
    monkeypatch.setattr(PopulationRun, "perform", lambda self: (_ for _ in ()).throw(th.cuda.OutOfMemoryError("full")))
    with pytest.raises(SqirlError, match="does not fit into the memory of the GPU: full"):
        together(configs, tmp_path / "none")


# What is known -------------------------------------------------------------------------------------------------------


def test_short_records_are_enough_when_the_majority_has_solved() -> None:
    configs = [RunConfig("ppo", ROW, seed=seed, timesteps=100_000, stop=STOP_MEAN) for seed in range(5)]

    def solved(seed: int, steps: int) -> RunRecord:
        return RunRecord(configs[seed], (Point(steps, 1.0),), steps=steps, optimal_return=1.0)

    def short(seed: int, budget: int) -> RunRecord:
        config = replace(configs[seed], timesteps=budget)
        return RunRecord(config, (Point(10_000, 0.1),), steps=budget, optimal_return=1.0)

    three = [solved(0, 10_000), solved(1, 30_000), solved(2, 20_000)]
    assert majority(configs) == 3 and majority(configs[:4]) == 3 and majority(configs[:1]) == 1
    found = KnownRuns([*three, short(3, 30_000), short(4, 20_000)]).answers(configs)
    assert set(found) == set(configs[:4])  # 20,000 steps say nothing of a run that might solve in 25,000
    assert found[configs[3]].config.timesteps == 30_000
    assert set(KnownRuns([*three[:2], short(3, 30_000)]).answers(configs)) == set(configs[:2])
    assert KnownRuns([]).answers(configs) == {}


# Which way a run is trained --------------------------------------------------------------------------------------------


def test_populations_of_pictures_are_for_gpus_and_stored_tables() -> None:
    config = RunConfig("sqirl", ROW, options={"k": 1, "m": 4})
    assert can_be_together(config) and trains_together(config, "cuda:0") and not trains_together(config, "cpu")
    assert not can_be_together(replace(config, live=True)) and not can_be_together(replace(config, algorithm="gorp"))
    assert not can_be_together(replace(config, env_id="BRIDGE/alien_10_fs30-Sticky-v0"))  # no table is stored
    assert not can_be_together(replace(config, env_id="CartPole-v1"))


def test_on_a_cpu_a_run_on_pictures_has_a_model_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqirl.runs import run as run_module

    asked = []
    monkeypatch.setattr(population_run, "perform_together", lambda *_, **__: pytest.fail("a population on a CPU"))
    monkeypatch.setattr(
        run_module, "perform", lambda config, store, **how: (asked.append(how["device"]), RunRecord(config))[1]
    )
    configs = configs_of("sqirl", range(3))
    records = perform_all(configs, RecordStore(tmp_path), device="cpu")
    assert next(records).config == configs[0] and asked == ["cpu"]  # each as soon as it is there
    assert [record.config for record in records] == configs[1:]


def test_on_a_gpu_they_are_trained_together_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = []

    def note(configs: list[RunConfig], store: RecordStore, *, enough: int, **how: Any) -> list[RunRecord]:
        groups.append(([config.seed for config in configs], enough))
        return [RunRecord(config) for config in configs]

    monkeypatch.setattr(perform_module, "check_device", lambda device: device)
    monkeypatch.setattr(population_run, "perform_together", note)
    configs = [replace(config, eval_every=2000) for config in configs_of("sqirl", range(5))]
    assert not perform_module.trains_together(replace(configs[0], eval_every=2001), "cuda")
    for members in (None, 2):
        found = list(perform_all(configs, RecordStore(tmp_path), device="cuda", members=members, enough=3))
        assert [record.config for record in found] == configs
    assert groups == [([0, 1, 2, 3, 4], 3), ([0, 1], 3), ([2, 3], 3), ([4], 3)]


@pytest.mark.parametrize(
    ("device", "members", "sizes"), [("cuda", None, [5]), ("cuda", 2, [2, 2, 1]), ("cpu", None, [1] * 5)]
)
def test_the_scheduler_packs_the_seeds_of_a_setting_into_tasks(
    device: str, members: int | None, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perform_module, "trains_together", lambda config, device: device == "cuda")
    started: list[list[RunConfig]] = []

    def start(self: Scheduler, configs: list[RunConfig], open_search: OpenSearch) -> Future[list[dict]]:
        started.append(configs)
        done: Future[list[dict]] = Future()
        points = (Point(10_000, 1.0),)
        done.set_result([RunRecord(c, points, steps=10_000, optimal_return=1.0).to_dict() for c in configs])
        return done

    monkeypatch.setattr(Scheduler, "_start", start)
    sweep = Sweep("s", (ROW,), ("ppo",), seeds=5, values={"rollout": (128,)})
    [finding] = Scheduler(sweep, tmp_path, jobs=8, device=device, members=members).run()
    assert [len(configs) for configs in started] == sizes and finding.steps == 10_000 and finding.num_runs == 5
    assert [config for configs in started for config in configs] == next(search(sweep, ROW, "ppo"))


def test_when_most_settings_fail_a_majority_of_seeds_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three unsolved runs of five decide the median; the other two are run only where a run solved."""
    monkeypatch.setattr(perform_module, "trains_together", lambda config, device: True)
    started: list[tuple[int, list[int], tuple[int, ...]]] = []

    def start(self: Scheduler, configs: list[RunConfig], open_search: OpenSearch) -> Future[list[dict]]:
        m = configs[0].chosen["m"]
        started.append((m, [config.seed for config in configs], open_search.solved))
        done: Future[list[dict]] = Future()
        found = Point(20_000, 1.0 if m >= 32 else 0.0)
        done.set_result([RunRecord(c, (found,), steps=20_000, optimal_return=1.0).to_dict() for c in configs])
        return done

    monkeypatch.setattr(Scheduler, "_start", start)
    sweep = Sweep("s", (ROW,), ("sqirl",), seeds=5, values={"k": (1,), "m": (16,)})
    monkeypatch.setattr("sqirl.experiments.search._smallest", lambda context, setting, value: value)
    [finding] = Scheduler(sweep, tmp_path, jobs=8, device="cuda").run()
    assert started[:3] == [(16, [0, 1, 2], ()), (64, [0, 1, 2], ()), (64, [3, 4], (20_000,) * 3)]
    assert finding.steps == 20_000 and finding.best[0].chosen["m"] == 64
