"""The registry: what a spec says, and a fifth algorithm that goes through everything without touching another file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from sqirl.algorithms import registry
from sqirl.algorithms.registry import algorithm, algorithm_names, algorithms, all_options
from sqirl.algorithms.spec import RESERVED_NAMES, Option
from sqirl.envs.catalogue import catalogue
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.experiments.protocol import planned_run
from sqirl.experiments.scheduler import run_sweep
from sqirl.experiments.sweeps import Sweep, read_sweep
from sqirl.report.data import report_data
from sqirl.report.page import report_page
from sqirl.report.tables import complexity_table
from sqirl.runs.config import RunConfig
from sqirl.runs.run import Run, perform
from sqirl.runs.store import RecordStore, gather_records

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"
SOURCE = Path(__file__).parent.parent / "src" / "sqirl"


@pytest.fixture
def fifth(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a fifth algorithm, known during one test."""
    before = dict(registry._registry)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from random_search import RANDOM_SEARCH

    yield registry.register(RANDOM_SEARCH).name
    registry._registry.clear()
    registry._registry.update(before)


def test_the_registry_has_the_papers_four() -> None:
    assert algorithm_names() == ("sqirl", "gorp", "ppo", "dqn")
    assert all(name in row.paper_steps for row in catalogue() for name in algorithm_names())
    assert len({spec.colour for spec in algorithms()} | {spec.dark_colour for spec in algorithms()}) == 8
    assert list(all_options()) == ["k", "m", "rollout", "num_envs", "epsilon_steps"]
    with pytest.raises(SqirlError, match="unknown algorithm 'a2c'; there are sqirl, gorp, ppo, dqn"):
        algorithm("a2c")


@pytest.mark.parametrize("name", ["sqirl", "gorp", "ppo", "dqn"])
def test_presets_set_every_option(name: str) -> None:
    for env in (EMPTY, "PongNoFrameskip-v4", "CartPole-v1"):
        spec, description = algorithm(name), describe(env)
        assert spec.presets(description).keys() == {option.name for option in spec.options if option.default is None}
        assert spec.num_envs(spec.presets(description), description) >= 1


def test_an_iteration_of_gorp_tries_all_sequences() -> None:
    assert registry.SQIRL.episodes_per_iteration({"k": 3, "m": 7}, 4) == 7
    assert registry.GORP.episodes_per_iteration({"k": 3, "m": 7}, 4) == 7 * 64
    assert registry.PPO.episodes_per_iteration({"rollout": 128}, 4) is None
    assert registry.SQIRL.max_steps({"k": 1, "m": 2}, describe(EMPTY), 10**9) == 2 * 100**2
    assert registry.SQIRL.max_steps({"k": 1, "m": 2}, describe(EMPTY), 500) == 500
    assert registry.PPO.max_steps({"rollout": 128}, describe(EMPTY), 500) == 500


def test_live_lanes_divide_the_episodes() -> None:
    game, pong = describe(EMPTY), describe("PongNoFrameskip-v4")
    assert (
        registry.SQIRL.num_envs({"k": 1, "m": 100}, game) == 5 and registry.SQIRL.num_envs({"k": 1, "m": 7}, game) == 7
    )
    assert registry.SQIRL.num_envs({"k": 1, "m": 20}, pong) == 20 and registry.PPO.num_envs({}, pong) == 8
    assert registry.GORP.num_envs({"k": 1, "m": 1}, pong) == 6  # six actions, one episode each


def test_configs_keep_their_names_and_their_plain_form() -> None:
    """The digest names records on disk: it must not change from one version to the next."""
    config = RunConfig("sqirl", EMPTY, seed=3, options={"m": 100, "k": 2})
    assert config.digest == "376b41c41c85db75" == RunConfig("sqirl", EMPTY, seed=3, options={"k": 2, "m": 100}).digest
    assert RunConfig("ppo", EMPTY, options={"rollout": 128}).digest == "05fb94b2cb0fec87"
    plain = config.to_dict()
    assert plain["k"] == 2 and plain["m"] == 100 and "options" not in plain
    assert RunConfig.from_dict({**plain, "rollout": None, "epsilon_steps": None}) == config  # as older records have it
    assert config.label == f"sqirl k=2 m=100 seed 3 on {EMPTY}" and config.setting == "k=2 m=100"
    with pytest.raises(ValueError, match="sqirl has no option rollout"):
        RunConfig.from_dict({**plain, "rollout": 128})


def test_no_other_module_names_an_algorithm() -> None:
    """Strings of names are in the registry's specs alone."""
    named = re.compile("[\"'](sqirl|gorp|ppo|dqn)[\"']")
    allowed = {SOURCE / "algorithms" / name / "spec.py" for name in algorithm_names()}
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *SOURCE.rglob("*.html")]
    found = {
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in files
        if path not in allowed
        for line in path.read_text().splitlines()
        if named.search(line)
    }
    # Elsewhere "sqirl" is the package, its command, its folder, or its entry in an .npz
    package = {line for line in found if not re.search("[\"'](gorp|ppo|dqn)[\"']", line)}
    assert found == package
    assert {line.partition(":")[0] for line in package} <= {
        "__init__.py", "cli/main.py", "mdp/npz.py", "mdp/enumeration.py", "mdp/store.py", "runs/curve.py"
    }  # fmt: skip


def test_a_fifth_algorithm_trains_and_resumes(fifth: str, tmp_path: Path) -> None:
    config = replace(
        planned_run(fifth, EMPTY, timesteps=9000, keep_going=True, options={"tries": 3}),
        eval_every=1000,
        eval_episodes=10,
    )
    whole = perform(config, RecordStore(tmp_path / "whole"))
    assert len(whole.curve) > 3 and whole.config.chosen == {"tries": 3} and "tries=3" in whole.config.label
    store = RecordStore(tmp_path / "stopped")
    run = Run(config, store, "cpu", 0.0, None, None)
    save = run.save_checkpoint

    def save_then_stop() -> None:
        save()
        raise KeyboardInterrupt

    run.save_checkpoint = save_then_stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.perform()
    assert run.checkpoint_path.is_file()
    assert perform(config, store).curve == whole.curve


def test_a_fifth_algorithm_is_swept_by_workers_and_reported(fifth: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        f'envs = ["{EMPTY}"]\nalgorithms = ["{fifth}"]\nseeds = 2\ntimesteps = 4000\ntries = [2, 3]\n'
    )
    sweep = read_sweep(tmp_path / "s.toml")
    assert sweep.values == {"tries": (2, 3)} and Sweep("all", (EMPTY,)).algorithms[-1] == fifth
    findings = run_sweep(sweep, folder=tmp_path / "runs", jobs=1)
    # Solved at the first evaluation with two tries: three cannot be better, and are not run
    assert findings[0].algorithm == fifth and findings[0].num_runs == 2 and findings[0].error is None
    assert findings[0].steps == 10_000 and findings[0].best[0].chosen == {"tries": 2}
    records = gather_records([tmp_path / "runs"], shipped=False)
    data = report_data(records)
    page = report_page(data, pictures=False)
    assert "Random search" in page and "#808000" in page and "#c0c040" in page
    assert f"{fifth}_ours" in complexity_table(data).header


def test_a_fifth_algorithm_has_its_options_on_the_command_line(tmp_path: Path) -> None:
    arguments = ["train", "random-search", EMPTY, "--tries", "2", "--timesteps", "900", "--json", "-o", str(tmp_path)]
    command = [sys.executable, "-m", "sqirl"]

    def call(plugins: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SQIRL_PLUGINS": plugins}
        here = Path(__file__).parent
        return subprocess.run([*command, *words], cwd=here, env=environment, capture_output=True, text=True)

    done = call("random_search", *arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"]["tries"] == 2
    report = ("report", "--no-pictures", "--no-shipped", "-o", str(tmp_path / "r.html"), "--runs", str(tmp_path))
    assert "1 run\n" in call("random_search", *report).stdout
    without = call("", *report)  # a record of an algorithm that is not known is left out, and stays where it is
    assert without.returncode == 0 and "0 runs" in without.stdout and "left out: unknown algorithm" in without.stderr
    wrong = call("no_such_module", "envs")
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1 and "no_such_module" in wrong.stderr


def test_options_that_would_clash_are_refused(fifth: str) -> None:
    from random_search import RandomSearchSpec

    class Clashing(RandomSearchSpec):
        name, options = "clashing", (Option("seed", "", (1,)),)

    class Different(RandomSearchSpec):
        name, options = "different", (Option("k", "another meaning", (1,)),)

    with pytest.raises(SqirlError, match="an option 'seed'"):
        registry.register(Clashing())
    with pytest.raises(SqirlError, match="'k' that differs"):
        registry.register(Different())
    assert {f.name for cls in (RunConfig, Sweep) for f in fields(cls)} == RESERVED_NAMES
