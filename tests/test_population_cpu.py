"""What populations do differently on a CPU: MiniGrid's networks with gradients written out, Adam in one pass, compiled draws."""

from __future__ import annotations

import gc
import itertools
import weakref
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch as th
from typer.testing import CliRunner

from population_cases import relative
from sqirl.algorithms.checkpoints import write_checkpoint
from sqirl.algorithms.population import draws, plain
from sqirl.algorithms.population.batch import AdamSettings, Learner
from sqirl.algorithms.population.cpu_networks import CpuGridNetworks, fused_adam
from sqirl.algorithms.population.grid_networks import GridNetworks
from sqirl.algorithms.population.layout import initial_weights
from sqirl.algorithms.population.networks import layout_of, torch_networks
from sqirl.algorithms.population.table import DeviceTable, device_table
from sqirl.algorithms.population.trainer import stored
from sqirl.cli.main import application
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.experiments.scheduler import Scheduler, run_sweep
from sqirl.experiments.search import search
from sqirl.experiments.sweeps import Sweep
from sqirl.play.table import load_table
from sqirl.runs.config import STOP_NEVER, RunConfig
from sqirl.runs.perform import trains_together
from sqirl.runs.population_run import perform_together
from sqirl.runs.progress import RunProgress
from sqirl.runs.store import RecordStore, policy_path

EMPTY, KEYS = "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", "BRIDGE/MiniGrid-KeyCorridorS3R1-Sticky-v0"


def table_of(name: str, variant: str) -> DeviceTable:
    env = describe(name, variant=variant)
    table = load_table(env)
    assert table is not None
    return device_table(table, network=env.network)


def repeated_keys(table: DeviceTable) -> th.Tensor:
    """(2, 40, 2) keys of few screens and times, so that many rows of a member have the same observation."""
    g = th.Generator().manual_seed(0)
    screens, times = th.randint(0, 4, (2, 40), generator=g), th.randint(0, 3, (2, 40), generator=g)
    return th.stack([screens, times * (table.horizon // 2)], dim=-1).int()


@pytest.mark.parametrize("name", [EMPTY, KEYS])
@pytest.mark.parametrize("variant", ["ours", "paper"])
@pytest.mark.parametrize("actor_critic", [False, True])
def test_outputs_and_gradients_are_those_of_autograd(name: str, variant: str, actor_critic: bool) -> None:
    table = table_of(name, variant)
    layout = layout_of(table, 7, actor_critic=actor_critic)
    flat, keys = initial_weights(layout, [4, 5]), repeated_keys(table)
    mine, reference = torch_networks(layout, table.screens), GridNetworks(layout, table.screens)
    assert isinstance(mine, CpuGridNetworks)
    weighted = th.randn(2, 40, 7, generator=th.Generator().manual_seed(1))
    found = []
    for networks in (mine, reference):
        leaf, out = networks.learn(flat, keys, 40)
        found.append((out.detach(), th.autograd.grad((out.square() * weighted).sum(), leaf)[0]))
        assert relative(networks.forward(flat, keys), out) < 1e-6
    (out, gradient), (wanted_out, wanted) = found
    assert relative(out, wanted_out) < 1e-6 and relative(gradient, wanted) < 1e-5
    assert wanted.norm() > 1 and not gradient[wanted == 0].any()  # of the padding too


def test_equal_observations_are_evaluated_once() -> None:
    """Of the variant "paper" all times but the first look the same."""
    table = table_of(EMPTY, "paper")
    networks = torch_networks(layout_of(table, 3), table.screens)
    assert isinstance(networks, CpuGridNetworks)
    keys = th.tensor([[[0, 0], [0, 5], [0, 9], [1, 0], [0, 0], [1, 70]]], dtype=th.int32)
    distinct, place = networks.distinct(th.cat([keys, keys[:, :1].expand(-1, 6, -1)]))
    assert distinct.tolist() == [[[0, 5], [0, 0], [1, 70], [1, 0]], [[0, 0]] * 4]
    assert place.tolist() == [[1, 0, 0, 3, 1, 2], [0] * 6]


def test_a_gradient_step_leaves_nothing_that_waits_for_the_garbage_collector() -> None:
    table = table_of(EMPTY, "paper")
    networks = torch_networks(layout_of(table, 3), table.screens)
    learner, kept = Learner.start(initial_weights(networks.layout, [0]), rate=1e-3), []
    networks.evaluate = lambda *given: _noting(kept, GridNetworks.evaluate(networks, *given))  # type: ignore[method-assign]
    gc.collect()
    gc.disable()
    try:
        networks.descend(learner, repeated_keys(table)[:1], lambda out: out.square().mean((1, 2)), AdamSettings())
        assert kept and [reference() for reference in kept] == [None] * len(kept)
    finally:
        gc.enable()


def _noting(kept: list[weakref.ref[th.Tensor]], tensor: th.Tensor) -> th.Tensor:
    kept.append(weakref.ref(tensor))
    return tensor


@pytest.mark.parametrize("max_norm", [None, 0.5, 1e6])
def test_adam_in_one_pass_is_adam(max_norm: float | None) -> None:
    g = th.Generator().manual_seed(0)
    start = Learner.start(th.randn(3, 1000, generator=g), rate=1e-2)
    start.running[1] = 0
    learners = [replace(start, **{f.name: getattr(start, f.name).clone() for f in fields(start)}) for _ in range(2)]
    settings = AdamSettings(max_norm=max_norm, epsilon=1e-5)
    for _ in range(4):
        gradient = th.randn(3, 1000, generator=g)
        fused_adam(learners[0], gradient.clone(), settings)
        plain.adam(learners[1], gradient, settings)
    for mine, wanted in zip(learners[0].tensors(), learners[1].tensors(), strict=True):
        assert th.allclose(mine, wanted, rtol=1e-5, atol=1e-7)
    assert th.equal(learners[0].flat[1], start.flat[1]) and learners[0].steps.tolist() == [4, 0, 4]


def test_compiled_random_numbers_are_those_of_philox() -> None:
    seeds, steps = th.tensor([0, 7, (3 << 32) + 5, 2**62 + 1]), th.tensor([0, 1, 2**33 + 4, 99])
    for step in (steps, steps[:1]):
        found = draws.bits(seeds, draws.EXPLORES, step, 6)
        index, zero = th.arange(6)[None], th.zeros(1, 6, dtype=th.int64)
        wanted = draws.philox(seeds[:, None], (index, step[:, None], zero + draws.EXPLORES, zero))[0]
        assert th.equal(found, wanted) and len(found.unique()) == 24


@pytest.mark.parametrize("members", [None, 1, 2])
def test_on_a_cpu_train_keeps_policies_unless_it_is_asked_for_populations(members: int | None, tmp_path: Path) -> None:
    command = f"train ppo {EMPTY} --variant paper --seeds 0-1 --timesteps 1024 --device cpu -o {tmp_path}"
    if members is not None:
        command += f" --members {members}"
    result = CliRunner().invoke(application("train"), command.split())
    assert result.exit_code == 0, result.output
    records = RecordStore(tmp_path).all()
    assert [record.trainer for record in records] == ["population" if members == 2 else "single"] * 2
    assert [policy_path(tmp_path, record.config).is_file() for record in records] == [members != 2] * 2


def test_on_a_cpu_sweeps_of_minigrid_are_populations(tmp_path: Path) -> None:
    config = RunConfig("ppo", EMPTY, options={"rollout": 128}, variant="paper")
    assert not trains_together(replace(config, variant="ours"), "cpu")
    assert trains_together(config, "cpu") and not trains_together(config, "cpu", alone=True)
    assert not trains_together(replace(config, live=True), "cpu")
    sweep = Sweep("s", (EMPTY,), ("ppo",), seeds=2, timesteps=2048, variant="paper", values={"rollout": (128,)})
    [finding] = run_sweep(sweep, folder=tmp_path, jobs=1, device="cpu")
    records = RecordStore(tmp_path).all()
    assert finding.num_runs == 2 and {record.trainer for record in records} == {"population"}
    assert {(record.device, record.precision, record.steps) for record in records} == {("cpu", "float32", 2048)}


@pytest.mark.parametrize(
    ("jobs", "searches", "sizes"), [(1, 1, [5]), (2, 1, [3, 2]), (8, 1, [1] * 5), (8, 2, [2, 2, 1])]
)
def test_idle_workers_take_a_part_of_a_population(jobs: int, searches: int, sizes: list[int], tmp_path: Path) -> None:
    sweep = Sweep("s", (EMPTY, KEYS)[:searches], ("dqn",), variant="paper")
    scheduler = Scheduler(sweep, tmp_path, jobs=jobs, device="cpu")
    configs = next(search(sweep, EMPTY, "dqn"))
    tasks = scheduler._tasks(configs)
    assert [len(task) for task in tasks] == sizes and [config for task in tasks for config in task] == configs
    assert [len(task) for task in Scheduler(sweep, tmp_path, jobs=jobs, members=4, device="cpu")._tasks(configs)] == [
        4,
        1,
    ]


def test_a_population_that_was_stopped_goes_on_as_if_it_was_not(tmp_path: Path) -> None:
    options = {"timesteps": 4096, "eval_every": 1000, "eval_episodes": 5, "options": {"rollout": 128}}
    configs = [RunConfig("ppo", EMPTY, seed=seed, stop=STOP_NEVER, **options) for seed in (0, 3)]
    whole = perform_together(configs, RecordStore(tmp_path / "whole"), device="cpu")
    rounds = itertools.count()

    def stop(_: RunProgress) -> None:
        if next(rounds) == 5:
            raise KeyboardInterrupt

    store = RecordStore(tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        perform_together(configs, store, device="cpu", checkpoint_seconds=0, progress=stop)
    [checkpoint] = (tmp_path / "stopped").glob("*.checkpoint")
    found = perform_together(configs, store, device="cpu")
    assert [record.curve for record in found] == [record.curve for record in whole]
    assert [record.steps for record in found] == [4096, 4096] and not checkpoint.is_file()


def test_a_checkpoint_holds_the_transitions_that_were_played(tmp_path: Path) -> None:
    """The ring of the replay has a million places."""
    env = describe(EMPTY, variant="paper")
    config = RunConfig("sqirl", EMPTY, variant="paper", options={"k": 1, "m": 1})
    trainer = config.spec.make_trainer(table_of(EMPTY, "paper"), env, config.chosen, seeds=[0, 1], precision="float32")
    trainer.play()
    write_checkpoint(tmp_path / "c", {"members": stored(trainer.state()[0])})
    weights = sum(tensor.numel() * tensor.element_size() for tensor in trainer.learner.tensors())
    assert weights < (tmp_path / "c").stat().st_size < weights + 100_000


def test_a_budget_without_an_iteration_is_refused(tmp_path: Path) -> None:
    config = RunConfig("sqirl", EMPTY, timesteps=1000, options={"k": 1, "m": 2000})
    with pytest.raises(SqirlError, match="plays 2,000 episodes, more than the 1,000 steps of the budget"):
        perform_together([config], RecordStore(tmp_path), device="cpu")
