"""Sweeps: searches, claims, kills, clusters, and what a wrong call is told."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from sqirl.algorithms.registry import DQN, SQIRL
from sqirl.envs.catalogue import lookup
from sqirl.envs.description import describe
from sqirl.errors import SqirlError
from sqirl.experiments.scheduler import OpenSearch, Scheduler
from sqirl.experiments.search import promising_ks, search
from sqirl.experiments.sweeps import EASY_ENVS, Sweep, named_sweep, read_sweep
from sqirl.experiments.worker import perform_tasks, task_of
from sqirl.mdp.store import stored_mdp
from sqirl.results.known_runs import KnownRuns
from sqirl.runs import run as run_module
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord
from sqirl.runs.store import RecordStore
from waiting import wait_until

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"
SMALL = Sweep("small", (EMPTY,), ("gorp",), seeds=2, timesteps=60_000, values={"k": (1,), "m": (2,)})
TOML = """
envs = ["BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", "BRIDGE/MiniGrid-LavaGapS5-Sticky-v0"]
algorithms = ["gorp"]
seeds = 2
timesteps = 12_000
ks = [1]
"""


def solved_from(threshold: int, steps_per_m: int):
    """An imaginary algorithm that solves with every m from a threshold on, in steps proportional to m."""

    def answer(config: RunConfig) -> RunRecord:
        m = config.chosen["m"]
        solved = m >= threshold and m * steps_per_m <= config.timesteps
        point = Point(m * steps_per_m, 1.0 if solved else 0.0)
        return RunRecord(config, (point,), optimal_return=1.0)

    return answer


def conduct(open_search, answer) -> tuple[object, list[RunConfig]]:
    asked: list[RunConfig] = []
    wanted = next(open_search)
    while True:
        asked += wanted
        try:
            wanted = open_search.send([answer(config) for config in wanted])
        except StopIteration as stop:
            return stop.value, asked


def test_the_search_multiplies_then_bisects_and_never_spends_on_losers() -> None:
    sweep = replace(SMALL, values={"k": (1, 2), "m": (2,)}, timesteps=5_000_000)
    finding, asked = conduct(search(sweep, EMPTY, "sqirl"), solved_from(50, 10_000))
    first, second = promising_ks(EMPTY, (1, 2))
    options = [config.chosen for config in asked]
    tried = [config.chosen["m"] for config in asked if config.chosen["k"] == first and config.seed == 0]
    best = finding.best[0].chosen["m"]
    assert tried[:6] == [2, 8, 32, 128, 64, 45] and 50 <= best <= 64
    assert finding.steps == best * 10_000 and finding.num_runs == len(asked)
    solved = next(place for place, chosen in enumerate(options) if chosen["m"] >= 50) + 2  # both seeds
    assert all(config.timesteps < finding.steps for config in asked[solved:] if config.chosen["k"] == second)
    assert {chosen["m"] for chosen in options[:solved] if chosen["k"] == second} == {2, 8, 32}  # no k waits


def test_nothing_is_better_than_the_first_evaluation() -> None:
    finding, asked = conduct(
        search(replace(SMALL, values={"k": (1, 2, 3), "m": (2,)}), EMPTY, "sqirl"), solved_from(1, 10)
    )
    assert finding.steps == 10_000 and len(asked) == 2  # both seeds of the first setting


def test_a_failed_run_ends_its_search() -> None:
    finding, asked = conduct(search(SMALL, EMPTY, "gorp"), lambda config: RunRecord(config, error="no memory"))
    assert finding.error == "no memory" and finding.steps is None and len(asked) == 2


def test_records_answer_for_other_budgets() -> None:
    config = RunConfig("sqirl", EMPTY, options={"k": 1, "m": 4}, timesteps=50_000, eval_every=10_000)
    curve = (Point(10_004, 0.2), Point(20_004, 0.4), Point(30_004, 0.6))
    known = KnownRuns([RunRecord(config, curve, steps=40_000)])  # over after 40,000 of 50,000 steps
    shorter, longer = known.answer(replace(config, timesteps=20_000)), known.answer(replace(config, timesteps=90_000))
    assert shorter.curve == curve[:2] and shorter.steps == 20_000 == shorter.config.timesteps
    assert longer.curve == curve and longer.steps == 40_000 and longer.config.timesteps == 90_000
    early = KnownRuns([RunRecord(config, (Point(3499, 1.0),), steps=3499, optimal_return=1.0)])
    assert early.answer(replace(config, timesteps=1000)).solved_at is None  # it was not over by then
    assert (
        known.answer(replace(config, options={"k": 1, "m": 5})) is None
        and known.answer(replace(config, seed=1)) is None
    )
    known = KnownRuns(
        [RunRecord(config, curve, steps=50_000), RunRecord(replace(config, algorithm="dqn"), curve, steps=50_000)]
    )
    assert known.answer(replace(config, timesteps=90_000)) is None  # it was cut short
    shorter = known.answer(replace(config, algorithm="dqn", timesteps=20_000))  # learning does not depend on the budget
    assert shorter.curve == curve[:2] and shorter.steps == 20_000
    assert known.answer(replace(config, algorithm="dqn")).curve == curve


def test_a_search_that_finds_nothing_says_so() -> None:
    finding, _ = conduct(search(SMALL, EMPTY, "gorp"), solved_from(10**9, 1))
    assert finding.steps is None and finding.best


def test_records_tell_which_m_cannot_finish_an_iteration() -> None:
    """Episodes of the whole horizon: an m whose first iteration alone is over the budget is never run."""

    def answer(config: RunConfig) -> RunRecord:
        return RunRecord(
            config,
            (Point(1, 0.0),),
            steps=min(config.timesteps, config.chosen["m"] * 3 * 100 * 100),
            optimal_return=1.0,
        )

    _, asked = conduct(search(replace(SMALL, timesteps=600_000), EMPTY, "gorp"), answer)
    largest = max(config.chosen["m"] for config in asked)
    assert largest * 3 * 100 / 2 < 600_000 <= 2 * largest * 3 * 100 / 2


def test_the_analysis_orders_the_ks() -> None:
    assert promising_ks("BRIDGE/qbert_10_fs30-Sticky-v0", (1, 2, 3, 4, 5))[0] == 4  # the first k that is solvable
    assert promising_ks("BRIDGE/alien_10_fs30-Sticky-v0", (3, 1)) == [3, 1]  # nothing is known


def curves(folder: Path) -> dict[str, object]:
    return {record.config.digest: record.curve for record in RecordStore(folder).all()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("expected")
    (folder / "s.toml").write_text(TOML)
    Scheduler(read_sweep(folder / "s.toml"), folder / "runs", jobs=1).run()
    found = curves(folder / "runs")
    assert len(found) > 6 and {path.suffix for path in (folder / "runs").iterdir()} == {".json"}
    return found


def sweep_command(folder: Path) -> list[str]:
    (folder / "s.toml").write_text(TOML)
    return [sys.executable, "-W", "ignore", "-m", "sqirl.cli.main", "sweep", str(folder / "s.toml"), "--no-preview", "-j", "1",
            "-o", str(folder / "runs")]  # fmt: skip


def test_killed_in_the_middle_and_given_again(tmp_path: Path, expected: dict[str, object]) -> None:
    """`test_hostile_limits` does it many times, at random moments."""
    process = subprocess.Popen(sweep_command(tmp_path), start_new_session=True, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list((tmp_path / "runs").glob("*.json"))) >= 2, "the second record")
    time.sleep(random.Random(0).uniform(0, 0.3))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(sweep_command(tmp_path), check=True, capture_output=True)
    assert curves(tmp_path / "runs") == expected


def test_two_sweeps_at_once_share_the_work(tmp_path: Path, expected: dict[str, object]) -> None:
    both = [subprocess.Popen(sweep_command(tmp_path), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert said[0] == said[1] and all(process.returncode == 0 for process in both)
    assert curves(tmp_path / "runs") == expected


def test_a_run_is_done_once_however_many_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = next(search(SMALL, EMPTY, "gorp"))[0]
    done, perform = [], run_module.Run.perform
    monkeypatch.setattr(run_module.Run, "perform", lambda self: (done.append(1), time.sleep(0.3), perform(self))[2])
    answers: list[dict] = []
    threads = [
        threading.Thread(target=lambda: answers.extend(perform_tasks([task_of(config)], str(tmp_path))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1 and answers[0] == answers[1] == answers[2]
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_failed_run_is_a_record_and_the_sweep_goes_on(tmp_path: Path) -> None:
    config = RunConfig("gorp", EMPTY, options={"k": 12, "m": 1})  # 3^12 episodes are fine, but 6^12 are not
    [record] = perform_tasks([task_of(replace(config, env_id="BRIDGE/MiniGrid-LavaGapS5-v0"))], str(tmp_path))
    assert f"{6**12:,} episodes" in record["error"] and RecordStore(tmp_path).all()[0].error == record["error"]


def test_a_sweep_with_failed_runs_says_so_and_fails(sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "_start", start_here)
    monkeypatch.setattr(run_module.Run, "perform", lambda self: 1 / 0)
    (tmp_path / "s.toml").write_text(f'envs = ["{EMPTY}"]\nalgorithms = ["gorp"]\nseeds = 1\nks = [1]\n')
    code, out, err = sqirl("sweep", "s.toml", "--no-preview", "-o", "runs")
    assert code == 1 and "a run failed: ZeroDivisionError" in out
    assert f"gorp on {EMPTY}: ZeroDivisionError: division by zero; the same command tries them again" in err


def start_here(self: Scheduler, configs: list[RunConfig], open_search: OpenSearch) -> Future[list[dict]]:
    """In this process, where monkeypatches are."""
    done: Future[list[dict]] = Future()
    done.set_result(perform_tasks([task_of(config) for config in configs], str(self.store.folder)))
    return done


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RecordStore, record: RunRecord) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RecordStore, "put", full)
    with pytest.raises(OSError, match="No space left"):
        perform_tasks([task_of(next(search(SMALL, EMPTY, "gorp"))[0])], str(tmp_path))
    assert not list(tmp_path.glob("*.json"))


def test_a_really_full_disk_stops_the_sweep_with_a_line(
    tmp_path: Path, small_disk: Path, expected: dict[str, object]
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(236 << 10))  # which leaves room for a few records
    command = [*sweep_command(tmp_path)[:-1], str(small_disk / "runs")]
    full = subprocess.run(command, capture_output=True, text=True)
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.startswith("sqirl: No space left on device") and full.stderr.count("\n") == 1
    filler.unlink()
    subprocess.run(command, check=True, capture_output=True)
    assert curves(small_disk / "runs") == expected


def test_searches_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = replace(SMALL, envs=(EMPTY, "BRIDGE/MiniGrid-LavaGapS5-v0"), seeds=3)
    scheduler, asked = Scheduler(sweep, tmp_path), []

    def start(self: Scheduler, configs: list[RunConfig], open_search: OpenSearch) -> Future[list[dict]]:
        [config] = configs  # a CPU has no populations
        assert open_search.solved == ()
        asked.append(config.env_id)
        done: Future[list[dict]] = Future()
        done.set_result([RunRecord(config, (Point(1, 0.0),), steps=1, optimal_return=1.0).to_dict()])
        return done

    monkeypatch.setattr(Scheduler, "_start", start)
    scheduler.run()
    longest = min(asked.count(env) for env in set(asked))  # as long as both have runs to do
    assert all(asked[i] != asked[i + 1] for i in range(0, 2 * longest - 2, 2))


def test_records_of_workers_with_disks_of_their_own_come_home(tmp_path: Path) -> None:
    config = next(search(SMALL, EMPTY, "gorp"))[0]
    scheduler = Scheduler(SMALL, tmp_path / "here")
    waiting = scheduler.searches[0]
    waiting.wanted = [config, replace(config, seed=99)]  # the second keeps the search waiting
    done: Future[list[dict]] = Future()
    done.set_result(perform_tasks([task_of(config)], str(tmp_path / "there")))
    scheduler._running = {done: (waiting, [config])}
    scheduler._collect()
    assert curves(tmp_path / "here") == curves(tmp_path / "there")


def test_a_worker_killed_in_mid_run_is_replaced(tmp_path: Path, expected: dict[str, object]) -> None:
    (tmp_path / "s.toml").write_text(TOML)
    scheduler = Scheduler(read_sweep(tmp_path / "s.toml"), tmp_path / "runs", jobs=2)
    killed: list[int] = []

    def kill_one(_: object) -> None:
        processes = list((scheduler.pool._pool._processes or {}).values()) if scheduler.pool._pool else []
        if processes and not killed and scheduler._done > 2:
            killed.append(processes[0].pid)
            os.kill(processes[0].pid, signal.SIGKILL)

    scheduler.progress = kill_one
    scheduler.run()
    assert killed and curves(tmp_path / "runs") == expected


def test_a_dask_cluster_makes_the_same_records(tmp_path: Path, expected: dict[str, object]) -> None:
    distributed = pytest.importorskip("distributed")
    (tmp_path / "s.toml").write_text(TOML)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
    ) as cluster:
        Scheduler(read_sweep(tmp_path / "s.toml"), tmp_path / "runs", cluster=cluster.scheduler_address).run()
    assert curves(tmp_path / "runs") == expected


def test_workers_may_start_in_a_folder_that_comes_and_goes(tmp_path: Path) -> None:
    """Each of them makes the folder, and may remove it if it is empty at the end: none may miss it."""
    configs = [replace(next(search(SMALL, EMPTY, "gorp"))[0], seed=seed) for seed in range(8)]
    errors: list[Exception] = []

    def claim(config: RunConfig) -> None:
        store = RecordStore(tmp_path / "new" / "runs")
        try:
            for _ in range(200):
                with store.claimed(config):
                    pass
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=claim, args=(config,)) for config in configs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_shipped_runs_count_as_done(sqirl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "_start", lambda self, configs, open_search: pytest.fail(f"{configs} were run"))
    code, out, _ = sqirl("sweep", "easy", "--no-preview", "--shipped", "--algorithm", "ppo", "-o", str(tmp_path / "r"))
    assert code == 0 and out.count("steps with rollout=") >= 11 and out.count("\n") == 12


def test_a_dry_run_says_what_is_left(sqirl, tmp_path: Path) -> None:
    """Without a calibration it takes no time; runs that are known are left out."""
    folder = str(tmp_path / "r")
    code, out, err = sqirl("sweep", "easy", "--no-preview", "--dry-run", "--algorithm", "ppo", "-o", folder)
    assert (
        code == 0 and err == "" and out.startswith("12 searches go on with 12 runs of at most 6,000,000 steps in all")
    )
    assert "hours" not in out and not Path(folder).exists()
    code, out, _ = sqirl("sweep", "easy", "--shipped", "--no-preview", "--dry-run", "--algorithm", "ppo", "-o", folder)
    assert code == 0 and out.startswith("12 of 12 searches are answered by known runs; 0 searches go on with 0 runs")
    code, out, err = sqirl("sweep", "easy", "--no-preview", "--dry-run", "--variant", "nonsense")
    assert code == 2 and out == "" and err.count("\n") == 1 and "variant = 'nonsense'" in err


def test_named_sweeps() -> None:
    assert len(named_sweep("bridge").envs) == 155 and len(named_sweep("atari-long").envs) == 6
    assert len(EASY_ENVS) == 12 and all(stored_mdp(env) is not None for env in EASY_ENVS)
    steps = [lookup(env).paper_steps["sqirl"] for env in EASY_ENVS]
    assert steps == sorted(steps) and steps[-1] < 500_000
    assert named_sweep("easy").seeds_of(SQIRL) == range(5) and named_sweep("easy").seeds_of(DQN) == range(1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("envs = [", "is not TOML"),
        ("seeds = 5", "names no envs"),
        ('envs = ["BRIDGE/x"]', "not an environment id"),
        (f'envs = ["{EMPTY}"]\ncolour = 3', "sets 'colour'"),
        (f'envs = ["{EMPTY}"]\nalgorithms = ["a2c"]', "unknown algorithm 'a2c'"),
        (f'envs = ["{EMPTY}"]\nseeds = 0', "seeds = 0"),
        (f'envs = ["{EMPTY}"]\nseeds = true', "seeds = True"),
        (f'envs = ["{EMPTY}"]\nbaseline_seeds = -1', "baseline_seeds = -1"),
        (f'envs = ["{EMPTY}"]\nks = 2', "ks = 2 is not a list"),
        (f'envs = ["{EMPTY}"]\nks = []', "ks = .* is not a list"),
        (f'envs = ["{EMPTY}"]\nks = [101]', "k = 101 is more than the 100 steps"),
        (f'envs = ["{EMPTY}"]\nrollouts = ["128"]', "rollouts = .128. is not a whole number"),
        (f'envs = ["{EMPTY}"]\nlive = "no"', "live = 'no' is neither"),
        (f'envs = ["{EMPTY}"]\nalgorithms = []', "algorithms = .* list of names"),
        (f'envs = "{EMPTY}"', "envs = .* list of names"),
        ("envs = [1]", "envs = .* list of names"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(SqirlError, match=words):
        read_sweep(tmp_path / "s.toml")


def test_the_commands(sqirl, tmp_path: Path) -> None:
    code, _, err = sqirl("tune", "CartPole-v1", "--timesteps", "1000", "-j", "1", "-o", str(tmp_path / "u"))
    assert code == 2 and "the optimal return of CartPole-v1 is not known" in err
    code, _, err = sqirl("tune", EMPTY, "-o", __file__)
    assert code == 2 and "cannot hold records: Not a directory; choose another folder with --out" in err
    code, _, err = sqirl("sweep", "huge")
    assert code == 2 and "there are smoke, easy, tables, bridge, atari-long" in err
    code, _, err = sqirl("sweep", "smoke", "--no-preview", "--device", "banana")
    assert code == 2 and "no device 'banana'" in err
    code, out, _ = sqirl("tune", EMPTY, "--algorithm", "gorp", "--seeds", "1", "--timesteps", "60k", "-j", "1", "-o",
                         str(tmp_path / "r"))  # fmt: skip
    assert code == 0 and "steps with k=" in out
    code, out, _ = sqirl("sweep", "smoke", "--dry-run", "--algorithm", "gorp")
    assert code == 0 and "core hours" in out and "steps/s" in out


def test_the_preview_counts_epochs_that_it_did_not_wait_for() -> None:
    class Model:
        n_epochs, trained, training_seconds = 10, 0, 0.0

        def learn(self, timesteps: int) -> None:
            for _ in range(3):
                self.trained += self.n_epochs
                self.training_seconds += 0.01 * self.n_epochs

    model = Model()
    left_out = SQIRL.calibrate(model, describe("PongNoFrameskip-v4"), 100)
    assert left_out == pytest.approx(9 * 3 * 0.01) and model.trained == 3
    whole = Model()
    assert SQIRL.calibrate(whole, describe(EMPTY), 100) == 0.0 and whole.trained == 30  # a table is fast enough


def test_a_sweep_in_a_file_may_set_every_option(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        f'envs = ["{EMPTY}"]\nsmallest_m = 3\nks = [2]\nrollouts = [64]\nepsilon_steps = [700]\nname = "all"\n'
    )
    sweep = read_sweep(tmp_path / "s.toml")
    assert sweep.name == "all" and sweep.values == {"m": (3,), "k": (2,), "rollout": (64,), "epsilon_steps": (700,)}
    assert sweep.values_of(SQIRL) == {"k": (2,), "m": (3,)} and sweep.values_of(DQN) == {"epsilon_steps": (700,)}
