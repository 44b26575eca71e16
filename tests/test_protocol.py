"""The protocol: presets, sweeps, the search on imaginary algorithms, what a sweep costs, and theory against practice."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqirl.algorithms.registry import DQN, GORP, PPO, SQIRL, algorithm, algorithms
from sqirl.analysis.analyze import analyze
from sqirl.analysis.bounds import Instance, gorp_bound
from sqirl.envs.catalogue import lookup
from sqirl.envs.description import describe
from sqirl.errors import SqirlError, WorkFailed
from sqirl.experiments import calibration, theory
from sqirl.experiments.calibration import Preview, preview
from sqirl.experiments.protocol import check_k, planned_run
from sqirl.experiments.scheduler import Scheduler, run_sweep
from sqirl.experiments.search import Cost, Finding, SearchContext, _smallest, search
from sqirl.experiments.sweeps import Sweep, check_sweep, named_sweep, narrowed
from sqirl.mdp.tabular import TabularMDP
from sqirl.results.censoring import StepRange
from sqirl.runs.config import RunConfig
from sqirl.runs.record import Point, RunRecord
from test_fit import trap
from test_sweep import conduct, solved_from

EMPTY = "BRIDGE/MiniGrid-Empty-5x5-v0"

# One run -------------------------------------------------------------------------------------------------------------

#: env -> (timesteps, interval, episodes of an evaluation, presets of SQIRL, GORP, PPO, DQN): appendix C of the paper
PRESETS = {
    "BRIDGE/freeway_10_fs30-Sticky-v0": (5_000_000, 10_000, 100, (1, 100), (1, 100), 128, 500_000),
    "BRIDGE/maze_easy_l0_30_fs1-v0": (5_000_000, 10_000, 100, (1, 100), (1, 100), 128, 500_000),
    EMPTY: (5_000_000, 10_000, 100, (1, 100), (1, 100), 128, 500_000),
    "PongNoFrameskip-v4": (10_000_000, 100_000, 20, (1, 10), (1, 3), 128, 1_000_000),
    "SeaquestNoFrameskip-v4": (10_000_000, 100_000, 20, (1, 10), (1, 1), 128, 1_000_000),
    "CartPole-v1": (5_000_000, 10_000, 100, (1, 100), (1, 100), 128, 500_000),
}


@pytest.mark.parametrize("env", PRESETS)
def test_the_presets_of_every_suite(env: str) -> None:
    timesteps, every, episodes, sqirl, gorp, rollout, epsilon_steps = PRESETS[env]
    options = {
        SQIRL: dict(zip("km", sqirl, strict=True)), GORP: dict(zip("km", gorp, strict=True)), PPO: {"rollout": rollout},
        DQN: {"epsilon_steps": epsilon_steps},
    }  # fmt: skip
    for spec in algorithms():
        config = planned_run(spec.name, env, seed=3)
        assert (config.timesteps, config.eval_every, config.eval_episodes) == (timesteps, every, episodes)
        assert config.chosen == options[spec] and config.env_id == env and config.seed == 3 and not config.live
        assert config.stop == "exact" and planned_run(spec.name, env, keep_going=True).stop == "never"


def test_what_is_asked_for_goes_before_the_presets() -> None:
    config = planned_run("sqirl", EMPTY, timesteps=7, live=True, options={"k": 4, "m": None})
    assert config.chosen == {"k": 4, "m": 100} and config.timesteps == 7 and config.live
    assert planned_run("dqn", describe(EMPTY), options={"epsilon_steps": 9}).chosen == {"epsilon_steps": 9}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("sqirl", {"options": {"k": 101}}), f"k = 101 is more than the 100 steps of an episode of {EMPTY}"),
        (("sqirl", {"options": {"m": -4}}), "m = -4 is below 1"),
        (("ppo", {"options": {"rollout": 0}}), "rollout = 0 is below 1"),
        (("ppo", {"options": {"m": 3}}), "ppo has no option m; it has rollout, num_envs"),
        (("a2c", {}), "unknown algorithm 'a2c'"),
        (("gorp", {"timesteps": 0}), "timesteps = 0 is below 1"),
        (("gorp", {"timesteps": -5}), "timesteps = -5 is below 1"),
    ],
)
def test_wrong_values_are_refused_before_torch_is_loaded(call: tuple[str, dict], words: str) -> None:
    name, arguments = call
    with pytest.raises(SqirlError, match=words):
        planned_run(name, EMPTY, **arguments)


def test_k_is_checked_where_the_length_of_episodes_is_fixed() -> None:
    check_k(describe(EMPTY), 100)
    check_k(describe(EMPTY), None)
    check_k(describe("CartPole-v1"), 500)
    check_k(describe("envs_for_tests:Corridor"), 10_000)  # it has no limit
    with pytest.raises(SqirlError, match="more than the 500 steps"):
        check_k(describe("CartPole-v1"), 501)
    with pytest.raises(SqirlError, match="more than the 10 steps"):
        check_k(describe("BRIDGE/freeway_10_fs30-Sticky-v0"), 11)


# Sweeps --------------------------------------------------------------------------------------------------------------


def test_a_sweep_replaces_the_values_that_it_names() -> None:
    sweep = Sweep("s", (EMPTY,), seeds=5, baseline_seeds=2, values={"k": (3,), "rollout": (64,)})
    assert sweep.values_of(SQIRL) == {"k": (3,), "m": (1,)} == sweep.values_of(GORP)
    assert sweep.values_of(PPO) == {"rollout": (64,), "num_envs": (8,)}
    assert sweep.values_of(DQN) == {"epsilon_steps": (500_000, 5_000_000)}
    assert [list(sweep.seeds_of(spec)) for spec in (SQIRL, PPO)] == [[0, 1, 2, 3, 4], [0, 1]]
    assert sweep.seeds_of(DQN) == range(2) and replace(sweep, baseline_seeds=0).seeds_of(DQN) == range(5)


def test_a_sweep_is_narrowed_by_what_is_given() -> None:
    sweep = named_sweep("easy")
    assert narrowed(sweep) == sweep == narrowed(sweep, envs=None, algorithms=[], seeds=None, timesteps=None)
    small = narrowed(sweep, envs=[EMPTY], algorithms=["gorp"], seeds=2, timesteps=900)
    assert (small.envs, small.algorithms, small.seeds, small.timesteps) == ((EMPTY,), ("gorp",), 2, 900)
    assert small.values == sweep.values and small.baseline_seeds == sweep.baseline_seeds


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"envs": ["NoSuchGame-v3"]}, "no environment named 'NoSuchGame-v3'"),
        ({"algorithms": ["a2c"]}, "unknown algorithm 'a2c'"),
        ({"seeds": 0}, "seeds = 0 is below 1"),
        ({"timesteps": 2.5}, "timesteps = 2.5 is not a whole number"),
        ({"baseline_seeds": True}, "baseline_seeds = True"),
        ({"name": 3}, "name = 3 is not a text"),
        ({"search": "yes"}, "search = 'yes' is neither true nor false"),
        ({"values": {"k": (0,)}}, r"ks = 0 is below 1"),
        ({"values": {"m": ()}}, r"smallest_m = \[\] is not a list"),
        ({"values": {"k": (200, 300)}}, "k = 200 is more than the 100 steps"),
        ({"values": {"ks": (1, 2)}}, "no algorithm has an option ks; there are k, m, rollout, num_envs, epsilon_steps"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SqirlError, match=words):
        narrowed(Sweep("s", (EMPTY,)), **changes)


def test_the_named_sweeps_make_sense() -> None:
    for name in ("smoke", "easy", "tables", "bridge", "atari-long"):
        check_sweep(replace(named_sweep(name), envs=named_sweep(name).envs[:3]))
    long = named_sweep("atari-long")
    assert not long.search and long.values == {"rollout": (128,), "epsilon_steps": (1_000_000,)}
    first = next(search(long, long.envs[1], "gorp"))
    assert [config.chosen for config in first] == [{"k": 3, "m": 1}] * 5  # the paper's, which no values replace


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail where the code would take longer, also in an endless loop."""

    def fail(*_: object) -> None:
        pytest.fail(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_the_easiest_searches_come_first() -> None:
    """By the steps of the paper's table; what the paper did not solve, or has not, comes last."""
    tables = named_sweep("tables")
    assert tables.easiest_first and tables.variant == "paper" and tables.algorithms == ("sqirl", "ppo", "dqn")
    pairs = tables.cases()
    steps = [lookup(env).paper_steps[name] or math.inf for env, name in pairs]
    assert len(pairs) == 3 * len(tables.envs) == len(set(pairs)) and steps == sorted(steps) and steps[0] < steps[-1]
    plain = replace(tables, easiest_first=False).cases()
    assert plain == [(env, name) for env in tables.envs for name in tables.algorithms] and sorted(plain) == sorted(
        pairs
    )
    elsewhere = Sweep("s", ("CartPole-v1", tables.envs[0]), ("sqirl",), easiest_first=True)
    assert elsewhere.cases()[-1] == ("CartPole-v1", "sqirl")


def test_a_variant_is_given_to_the_algorithms_that_have_it() -> None:
    sweep = Sweep("s", (EMPTY,), ("sqirl", "dqn"), variant="table")
    check_sweep(sweep)
    assert sweep.variant_of(DQN) == "table" and sweep.variant_of(SQIRL) == "ours"
    assert {config.variant for config in next(search(sweep, EMPTY, "dqn"))} == {"table"}
    assert {config.variant for config in next(search(sweep, EMPTY, "sqirl"))} == {"ours"}
    with pytest.raises(
        SqirlError, match="variant = 'nonsense' is unknown to these algorithms; they have ours, paper, table"
    ):
        narrowed(sweep, variant="nonsense")
    with pytest.raises(SqirlError, match="sqirl has no variant 'table'; it has ours, paper"):
        planned_run("sqirl", EMPTY, variant="table")


# The search ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "name", "k", "start", "first"),
    [
        ("BRIDGE/freeway_10_fs30-Sticky-v0", "sqirl", 1, 1, 64),  # T² m = 100 m, at most 10,000
        ("BRIDGE/freeway_10_fs30-Sticky-v0", "sqirl", 1, 75, 75),  # 150 are too many
        ("BRIDGE/freeway_10_fs30-Sticky-v0", "gorp", 1, 1, 32),  # three actions: 3 T² m
        (EMPTY, "sqirl", 1, 1, 1),  # 10,000 m
        ("CartPole-v1", "sqirl", 1, 1, 1),  # the length of its episodes is not known
    ],
)
def test_the_search_starts_with_the_largest_m_that_surely_ends_before_the_first_evaluation(
    env: str, name: str, k: int, start: int, first: int
) -> None:
    context = SearchContext(Sweep("s", (env,), (name,), seeds=1), describe(env), algorithm(name))
    with within(10):
        assert _smallest(context, {"k": k}, start) == first


def test_a_budget_below_the_first_evaluation_does_not_double_m_for_ever() -> None:
    sweep = Sweep("s", (EMPTY,), ("gorp",), seeds=1, timesteps=4000)  # as the sweep "smoke" has it
    with within(10):
        assert _smallest(SearchContext(sweep, describe(EMPTY), GORP), {"k": 1}, 4) == 4


@given(threshold=st.integers(1, 400), smallest=st.sampled_from([1, 2, 5, 64]), seeds=st.integers(1, 3))
def test_the_search_finds_the_smallest_m_within_a_half(threshold: int, smallest: int, seeds: int) -> None:
    """An algorithm that solves from a threshold on: the m that is found solves, and one of two thirds of it does not."""
    sweep = Sweep("s", (EMPTY,), ("sqirl",), seeds=seeds, values={"k": (1,), "m": (smallest,)}, timesteps=10**8)
    finding, asked = conduct(search(sweep, EMPTY, "sqirl"), solved_from(threshold, 10_000))
    found = finding.best[0].chosen["m"]
    assert found >= threshold and finding.steps == 10_000 * found
    assert found <= max(1.5 * (threshold - 1), threshold)
    tried = [config.chosen["m"] for config in asked if config.seed == 0]
    assert len(tried) == len(set(tried)) <= 2 * math.log2(max(threshold, smallest)) + 4 and len(asked) == seeds * len(
        tried
    )
    low, high = 0, math.inf
    for m in tried:  # no run that the others have answered already
        assert low < m < high
        low, high = (low, m) if m >= threshold else (m, high)


@given(
    thresholds=st.lists(st.integers(1, 60), min_size=2, max_size=4),
    costs=st.lists(st.integers(1, 5), min_size=4, max_size=4),
)
def test_of_several_k_the_cheapest_wins(thresholds: list[int], costs: list[int]) -> None:
    """No setting that was tried is better, and no k could have won with its threshold by a half."""
    ks = tuple(range(1, len(thresholds) + 1))
    sweep = Sweep("s", (EMPTY,), ("sqirl",), seeds=1, values={"k": ks, "m": (1,)}, timesteps=10**7)

    def answer(config: RunConfig) -> RunRecord:
        k, m = config.chosen["k"], config.chosen["m"]
        steps = 10_000 * math.ceil(costs[k - 1] * m / 5)  # a whole run has 10,000 m
        solved = m >= thresholds[k - 1] and steps <= config.timesteps
        return RunRecord(config, (Point(steps, float(solved)),), steps=config.timesteps, optimal_return=1.0)

    finding, asked = conduct(search(sweep, EMPTY, "sqirl"), answer)
    records = {config: answer(replace(config, timesteps=10**7)) for config in asked}
    assert finding.steps == min(r.complexity for r in records.values() if r.complexity is not None)
    assert finding.steps <= 10_000 + 2 * min(2000 * c * t for c, t in zip(costs, thresholds, strict=False))
    assert finding.best[0].chosen["m"] >= thresholds[finding.best[0].chosen["k"] - 1] and finding.error is None


def test_all_values_of_a_baseline_are_tried_once() -> None:
    """Once a setting has solved in 30,000 steps, the next ones are given the 20,000 in which they could be better."""
    sweep = Sweep("s", (EMPTY,), ("dqn",), seeds=3, values={"epsilon_steps": (100, 200, 300)}, timesteps=50_000)

    def answer(config: RunConfig) -> RunRecord:
        solved = config.chosen["epsilon_steps"] == 200 and config.seed != 1
        steps, mean = min(30_000, config.timesteps), 1.0 if solved else 0.2
        found = 21_000 + config.seed if solved else None
        points = (Point(steps, mean, exact=mean),)
        return RunRecord(config, points, steps=config.timesteps, optimal_return=1.0, optimal_at=found)

    finding, asked = conduct(search(sweep, EMPTY, "dqn"), answer)
    assert len(asked) == 9 == finding.num_runs == len(set(asked)) and all(config.stop == "mean" for config in asked)
    assert [(config.chosen["epsilon_steps"], config.seed, config.timesteps) for config in asked] == [
        (value, seed, budget)
        for value, budget in ((100, 50_000), (200, 50_000), (300, 20_000))
        for seed in range(3)
    ]  # fmt: skip
    assert finding.steps == 30_000 and {config.chosen["epsilon_steps"] for config in finding.best} == {200}
    assert str(finding) == (
        f"{EMPTY} dqn: 30,000 steps with epsilon_steps=200, seen to be truly optimal after 21,002 "
        "(9 runs, an evaluation every 10,000 steps)"
    )
    assert finding.to_dict() == {
        "env_id": EMPTY, "algorithm": "dqn", "steps": 30_000, "runs": 9, "epsilon_steps": 200,
        "truly_optimal_after": 21_002,
    }  # fmt: skip
    unseen = replace(finding, steps_to_optimal=StepRange(9_000, 9_000 + 1))
    never = replace(finding, steps_to_optimal=StepRange(math.inf, math.inf))
    for other in (unseen, never):
        assert "truly" not in str(other) and other.to_dict()["truly_optimal_after"] is None


def test_a_finding_without_runs_can_be_shown() -> None:
    finding = Finding(EMPTY, "gorp", None, (), 1, "no memory")
    assert str(finding) == f"{EMPTY} gorp: not solved, a run failed: no memory (1 run)"
    assert finding.to_dict() == {
        "env_id": EMPTY, "algorithm": "gorp", "steps": None, "runs": 1, "truly_optimal_after": None
    }  # fmt: skip


def test_the_cost_of_an_iteration() -> None:
    cost = Cost(describe(EMPTY), GORP)  # 100 steps, three actions
    assert cost.of_an_iteration({"k": 2, "m": 5}) == 5 * 9 * 10  # at first a tenth of the horizon
    config = RunConfig("gorp", EMPTY, options={"k": 1, "m": 4}, timesteps=10**6)
    cost.learn([RunRecord(config, steps=10**6), RunRecord(config, steps=10, error="failed")])
    assert cost.episode == 10  # a run that spent its budget, or failed, shows nothing
    cost.learn([RunRecord(config, steps=100 * 12 * 60)])  # 60 steps in each of its 12 episodes in 100 iterations
    assert cost.episode == 30
    cost.learn([RunRecord(config, steps=100 * 12 * 2)])
    assert cost.episode == 30
    assert Cost(describe("CartPole-v1"), SQIRL).of_an_iteration({"k": 1, "m": 7}) == 7


# What a sweep costs --------------------------------------------------------------------------------------------------


def test_the_preview_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        calibration, "_calibrate", lambda configs, *how: (50.0 if configs[0].algorithm == "ppo" else 200.0, 3e9)
    )
    sweep = Sweep(
        "s", (EMPTY, "BRIDGE/alien_10_fs30-Sticky-v0"), ("sqirl", "ppo"), seeds=2, timesteps=20_000, values={"m": (3,)}
    )
    found = preview(sweep)
    sqirl_steps = 2 * (20_000 + 96 * 10**2)  # T² · m of the game of 10 steps is less than the budget
    ppo_steps = 2 * 2 * 20_000  # of the first of two rollouts
    assert (found.searches, found.finished, found.next_runs) == (4, 0, 2 + 2 + 2 + 2)
    assert found.most_steps == sqirl_steps + ppo_steps and found.device == "cpu"
    assert found.hours == pytest.approx((sqirl_steps / 200 + ppo_steps / 50) / 3600) and found.memory_gb == 3.0
    assert found.live == ("BRIDGE/alien_10_fs30-Sticky-v0",) and found.speeds.keys() == {
        "sqirl on MiniGrid", "sqirl on Atari", "ppo on MiniGrid", "ppo on Atari"
    }  # fmt: skip
    assert "1 environment has no table and is played live" in str(found) and "50 steps/s" in str(found)
    assert "no table" not in str(replace(found, live=())) and " …" in str(replace(found, live=tuple("abcd")))
    assert isinstance(found, Preview) and preview(replace(sweep, live=True)).live == sweep.envs
    assert "core hours" in str(found) and "GPU hours" in str(replace(found, device="cuda"))


def test_the_preview_leaves_out_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_calibrate", lambda *how: pytest.fail("nothing is to be measured"))
    sweep = Sweep("s", (EMPTY,), ("gorp", "dqn"), seeds=3, timesteps=50_000, values={"k": (1,), "epsilon_steps": (9,)})
    asked = next(search(sweep, EMPTY, "dqn"))
    known = [RunRecord(config, (Point(10_000, 0.1),), steps=50_000, optimal_return=1.0) for config in asked]
    found = preview(sweep, known=known[:1], measure=False)
    assert (found.searches, found.finished, found.next_runs) == (2, 0, 3 + 2) and found.hours is None
    found = preview(sweep, known=known[:2], measure=False)  # two unsolved runs of three decide
    assert (found.searches, found.finished, found.next_runs) == (2, 1, 3) and found.hours is None
    found = preview(sweep, known=known, measure=False)
    assert (found.searches, found.finished, found.next_runs) == (2, 1, 3) and not found.speeds
    assert "1 of 2 searches are answered by known runs; 1 searches go on with 3 runs" in str(found)
    assert "hours" not in str(found)


def test_a_sweep_stops_at_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "_start", lambda self, configs, open_search: Future())  # a run that never ends
    told = []
    sweep = Sweep("s", (EMPTY,), ("gorp",), seeds=3, values={"k": (1,), "m": (2,)})
    with pytest.raises(WorkFailed, match="the time limit is reached; run the same command again to continue"):
        run_sweep(sweep, folder=tmp_path, jobs=1, time_limit=0.0, progress=told.append)
    assert (told[-1].searches, told[-1].searches_done, told[-1].runs_done, told[-1].running) == (1, 0, 0, 2)


# Theory against practice ---------------------------------------------------------------------------------------------


def two_steps() -> TabularMDP:
    """The right action of two pays at once, then once more."""
    return TabularMDP.deterministic([[1, 1], [-1, -1]], [[0.0, 1.0], [0.0, 1.0]], horizon=2, name="two")


@pytest.fixture
def tiny_archive(monkeypatch: pytest.MonkeyPatch) -> dict[str, TabularMDP]:
    mdps = {"two": two_steps(), "two sticky": two_steps().sticky(0.25), "trap": trap()}
    monkeypatch.setattr(theory, "archived_analyses", lambda: {name: analyze(mdp) for name, mdp in mdps.items()})
    monkeypatch.setattr(theory, "stored_mdp", mdps.get)
    return mdps


def test_theory_points_are_the_smallest_m_and_the_bound(tiny_archive: dict[str, TabularMDP]) -> None:
    points = theory.theory_points()
    assert points == sorted(points, key=lambda point: (point.algorithm, point.bound))
    assert {(point.algorithm, point.env_id) for point in points} == {
        ("gorp", "two"), ("gorp", "trap"), ("sqirl", "two"), ("sqirl", "two sticky"), ("sqirl", "trap")
    }  # fmt: skip
    assert all(0 < point.steps < point.bound for point in points)
    analysis = analyze(tiny_archive["two"])
    [gorp] = [point for point in points if (point.algorithm, point.env_id) == ("gorp", "two")]
    assert gorp.bound == gorp_bound(Instance(1, 2, 2, analysis.gaps[0])) and gorp.steps % (2 * 2 * 2 * 8) == 0
    [trapped] = [point for point in points if (point.algorithm, point.env_id) == ("sqirl", "trap")]
    assert trapped.bound == analyze(tiny_archive["trap"]).bounds.sqirl  # with k = 2, the smallest that is solvable


def test_what_is_too_large_or_not_stored_has_no_point(tiny_archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "MAX_K", 1)
    assert {point.env_id for point in theory.theory_points()} == {"two", "two sticky"}
    del tiny_archive["two sticky"]
    tiny_archive["elsewhere"] = two_steps()
    monkeypatch.setattr(theory, "stored_mdp", {"two": two_steps()}.get)
    assert {point.env_id for point in theory.theory_points()} == {"two"}
    monkeypatch.setattr(theory, "SMALL_POWER", 1.0)
    assert theory.theory_points() == []


def test_an_m_that_is_never_enough_gives_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Poor:
        num_steps = 1

        def true_return(self, mdp: TabularMDP) -> float:
            return 0.0

    def fit(m: int, seed: int) -> Poor:
        asked.append((m, seed))
        return Poor()

    monkeypatch.setattr(theory, "LARGEST_M", 40)
    assert theory._steps_needed(two_steps(), analyze(two_steps()), fit) is None
    assert asked == [(m, 0) for m in (8, 16, 32)]  # with one failure the share of ten seeds is below 1 - δ
