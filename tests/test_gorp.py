"""GORP: the deep version and the version of the paper against each other and against every sequence of actions."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch as th
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sqirl.algorithms.gorp.algorithm import GORP
from sqirl.algorithms.gorp.policy import table_policy_of
from sqirl.algorithms.gorp.sequences import (
    MAX_SEQUENCES,
    action_sequences,
    check_sequences,
    follow,
    plans_after,
    returns_from,
)
from sqirl.algorithms.literal import Fitted, OpenLoopPolicy, fit_gorp, fit_sqirl
from sqirl.errors import SqirlError
from sqirl.evaluation.returns import evaluate_on_table
from sqirl.mdp.tabular import TabularMDP
from sqirl.play.episodes import play_episodes
from sqirl.play.players import TablePlayer
from sqirl.play.table import Table
from sqirl.play.vec_env import TableVecEnv
from strategies import Example, deterministic, random_tables, stochastic
from tiny_tables import enumerated_return, played_by_hand, tiny_table


def deep_gorp(table: Table, *, seed: int = 0, **arguments: int) -> GORP:
    return GORP(env=TableVecEnv(table, 1), seed=seed, device="cpu", **arguments).learn(10**9)


def best_sequence(mdp: TabularMDP) -> tuple[float, list[int]]:
    """The highest return over all sequences, and the first sequence that has it."""
    found = [
        (played_by_hand(mdp, plan)[0], plan) for plan in itertools.product(range(mdp.num_actions), repeat=mdp.horizon)
    ]
    best = max(total for total, _ in found)
    return best, list(next(plan for total, plan in found if total == best))


def test_learning_leaves_no_folder_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deep_gorp(tiny_table(random_tables(0, 5, 2, 2)), k=1, m=1)
    assert not list(tmp_path.iterdir())


@settings(max_examples=25)
@given(example=deterministic(max_horizon=4))
def test_with_k_as_long_as_the_episode_gorp_is_brute_force(example: Example) -> None:
    """No random action is left, so one episode for each sequence is enough."""
    mdp = example.mdp
    best, plan = best_sequence(mdp)
    written, deep = fit_gorp(mdp, k=mdp.horizon, m=1), deep_gorp(tiny_table(mdp), k=mdp.horizon, m=1)
    assert written.policy.actions == deep.policy.actions.tolist() == plan
    assert written.true_return(mdp) == best == float(example.exact.optimal_return)
    assert written.num_steps == deep.num_timesteps and deep.iteration == mdp.horizon


@settings(max_examples=10)
@given(example=deterministic(max_horizon=4), k=st.integers(1, 2))
def test_both_versions_agree_where_m_is_large(example: Example, k: int) -> None:
    """Where one sequence is clearly the best by the exact means of random play, both must take its first action."""
    mdp, A, T = example.mdp, example.mdp.num_actions, example.mdp.horizon
    assume(k <= T)
    fixed: list[int] = []
    for i in range(T):
        sequences = list(itertools.product(range(A), repeat=min(k, T - i)))
        means = []
        for sequence in sequences:
            plan = [*fixed, *sequence]
            uniform, sure = [1 / A] * A, np.eye(A).tolist()
            means.append(
                enumerated_return(mdp, lambda t, path, e, plan=plan: sure[plan[t]] if t < len(plan) else uniform)  # noqa: B023
            )
        ranked = sorted(means, reverse=True)
        assume(ranked[0] - ranked[1] > 0.3)
        fixed.append(sequences[int(np.argmax(means))][0])
    assert fit_gorp(mdp, k=k, m=1500).policy.actions == fixed
    assert deep_gorp(tiny_table(mdp), k=k, m=1500).policy.actions.tolist() == fixed


@pytest.mark.parametrize("lanes", [1, 3, 1000])
def test_the_number_of_lanes_does_not_change_what_is_found(lanes: int) -> None:
    mdp = random_tables(11, 7, 3, 4, signed=True)
    best, plan = best_sequence(mdp)
    fitted = fit_gorp(TablePlayer(mdp, max_lanes=lanes), k=4, m=1)
    assert fitted.policy.actions == plan and fitted.true_return(mdp) == best
    assert fitted.num_steps == sum(
        played_by_hand(mdp, [*plan[:i], *rest])[1]
        for i in range(4)
        for rest in itertools.product(range(3), repeat=4 - i)
    )


def test_all_sequences_in_order() -> None:
    assert action_sequences(2, 3).tolist() == [[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    plans = plans_after([7, 8], action_sequences(2, 1), 2)
    assert plans.tolist() == [[7, 8, 0], [7, 8, 0], [7, 8, 1], [7, 8, 1]]
    assert plans_after([], action_sequences(2, 1), 1).tolist() == [[0], [1]]


def test_following_plans_then_chance() -> None:
    act = follow(np.array([[2, 0], [1, 1]]), 3, np.random.default_rng(0))
    t, episodes = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    assert act(t, np.empty((4, 0), np.int32), episodes).tolist() == [2, 0, 1, 1]
    later = act(np.full(9000, 2), np.empty((9000, 0), np.int32), np.zeros(9000, int))
    assert np.allclose(np.bincount(later, minlength=3) / 9000, 1 / 3, atol=0.03)


def test_a_sequence_of_no_actions_is_random_play() -> None:
    """As GORP's policy is before its first iteration."""
    actions = OpenLoopPolicy(3)(np.zeros(9000, int), np.zeros(9000), np.random.default_rng(0))
    assert np.allclose(np.bincount(actions, minlength=3) / 9000, 1 / 3, atol=0.03)


@pytest.mark.parametrize(("num_actions", "k", "fits"), [(10, 6, True), (10, 7, False), (18, 4, True), (18, 5, False)])
def test_too_many_sequences_are_refused(num_actions: int, k: int, fits: bool) -> None:
    assert (num_actions**k <= MAX_SEQUENCES) is fits
    if fits:
        return check_sequences(num_actions, k)
    with pytest.raises(SqirlError, match=rf"{num_actions}\^{k} = {num_actions**k:,} action sequences .* a smaller k"):
        check_sequences(num_actions, k)


@settings(max_examples=30)
@given(
    example=st.one_of(deterministic(max_horizon=3), stochastic(max_horizon=3)),
    stickiness=st.sampled_from([0.0, 0.25]),
    known=st.integers(0, 3),
)
def test_the_exact_return_counts_the_random_tail_as_an_expectation(
    example: Example, stickiness: float, known: int
) -> None:
    table = tiny_table(example.mdp.sticky(stickiness))
    A, T = table.mdp.num_actions, table.horizon
    model = GORP(env=TableVecEnv(table, 1), k=1, m=1, seed=0, device="cpu")
    plan = [(2 * t + 1) % A for t in range(min(known, T))]
    model.policy.actions = th.tensor(plan, dtype=th.int64)

    def choose(t: int, path: tuple[int, ...], executed: int) -> list[float]:
        return np.eye(A)[plan[t]].tolist() if t < len(plan) else [1 / A] * A

    found = evaluate_on_table(table_policy_of(model.policy), table, episodes=5, rng=np.random.default_rng(0))
    assert found.exact == pytest.approx(enumerated_return(table.mdp, choose), abs=1e-12)


def test_a_model_that_learned_nothing_plays_at_random_and_counts_from_the_envs_first_action() -> None:
    table = tiny_table(random_tables(1, 5, 3, 4))
    model = GORP(env=TableVecEnv(table, 1), k=1, m=1, seed=0, device="cpu")
    actions, state = model.predict(np.zeros((3000, 2, 3, 2), np.uint8))
    assert np.allclose(np.bincount(actions, minlength=3) / 3000, 1 / 3, atol=0.05)
    model.policy.actions = th.tensor([2, 1])
    actions, state = model.predict(np.zeros((4, 2, 3, 2), np.uint8), state=(np.array([0, 1, 0, 1]),))
    assert actions.tolist() == [2, 1, 2, 1] and state[0].tolist() == [1, 2, 1, 2]
    actions, state = model.predict(np.zeros((2, 2, 3, 2), np.uint8), (np.array([1, 1]),), np.array([True, False]))
    assert actions.tolist() == [2, 1] and state[0].tolist() == [1, 2]


def test_learning_anew_forgets_and_the_same_seed_finds_the_same() -> None:
    table = tiny_table(random_tables(8, 9, 3, 5).sticky(0.25))
    model = deep_gorp(table, k=1, m=20, seed=4)
    first, steps = model.policy.actions.tolist(), model.num_timesteps
    model.learn(10**9)
    assert model.policy.actions.tolist() == first and model.num_timesteps == steps and len(first) == 5
    assert deep_gorp(table, k=1, m=20, seed=4).policy.actions.tolist() == first


def test_an_iteration_that_the_budget_cuts_short_fixes_nothing() -> None:
    table = tiny_table(TabularMDP.deterministic([[0, 0]], [[0.0, 1.0]], horizon=4))
    model = GORP(env=TableVecEnv(table, 1), k=1, m=5, seed=0, device="cpu").learn(2 * 5 * 4 + 3)
    assert model.iteration == 1 and model.policy.actions.tolist() == [1] and model.num_timesteps > 2 * 5 * 4


def test_a_saved_sequence_has_its_own_length(tmp_path: Path) -> None:
    table = tiny_table(random_tables(8, 9, 3, 5))
    model = deep_gorp(table, k=2, m=3)
    model.save(tmp_path / "g.zip")
    loaded = GORP.load(tmp_path / "g.zip")
    assert loaded.policy.actions.tolist() == model.policy.actions.tolist() and len(loaded.policy.actions) == 5
    with pytest.raises(SqirlError, match="trained with m = 3, not 4"):
        GORP.load(tmp_path / "g.zip", m=4)


@settings(max_examples=15)
@given(example=deterministic(max_horizon=3))
def test_sqirl_with_k_as_long_as_the_episode_is_optimal(example: Example) -> None:
    """Algorithm 2 with all steps of Q-iteration: with enough episodes every action of every state is seen."""
    mdp = example.mdp
    fitted = fit_sqirl(mdp, k=mdp.horizon, m=600)
    assert fitted.true_return(mdp) == pytest.approx(float(example.exact.optimal_return))
    assert isinstance(fitted, Fitted) and fitted.num_steps <= 600 * mdp.horizon**2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 1.0, "m": 1}, "k = 1.0 is not a whole number"),
        ({"k": 1, "m": "3"}, "m = '3' is not a whole number"),
        ({"k": 1, "m": 1, "horizon": 0}, "horizon 0"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(arguments: dict[str, object], words: str) -> None:
    for fit in (fit_sqirl, fit_gorp):
        with pytest.raises(SqirlError, match=words):
            fit(random_tables(0, 4, 2, 3), **arguments)


def test_a_player_without_a_horizon_is_refused() -> None:
    player = TablePlayer(random_tables(0, 4, 2, 3))
    player.horizon = None
    with pytest.raises(SqirlError, match="says nothing about the length of its episodes; give horizon="):
        fit_sqirl(player, k=1, m=1)


def test_gorp_discounts_from_the_timestep_that_it_decides() -> None:
    """1 now or 1.5 a step later: without a discount the later one is better, with γ = 0.5 the earlier one."""
    transitions = np.array([[1, 2], [-1, -1], [-1, -1]])
    mdp = TabularMDP.deterministic(transitions, np.array([[1.0, 0.0], [0.0, 0.0], [1.5, 1.5]]), horizon=2)
    chosen = [fit_gorp(mdp, k=2, m=1, gamma=gamma).policy.actions[0] for gamma in (1.0, 0.7, 0.6, 0.5)]
    assert chosen == [1, 1, 0, 0]  # 1.5 · 0.7 > 1 > 1.5 · 0.6
    for gamma in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(SqirlError, match=r"is not in \(0, 1\]"):
            fit_gorp(mdp, k=1, m=1, gamma=gamma)


def test_returns_are_counted_from_a_timestep_on() -> None:
    mdp = TabularMDP.deterministic([[1, -1], [2, 2], [-1, -1]], [[4.0, 1.0], [2.0, 2.0], [8.0, 8.0]], horizon=3)
    plans = np.array([[0, 0, 0], [1, 0, 0]])  # rewards 4, 2, 8; and 1, over after one step
    player, rng = TablePlayer(mdp), np.random.default_rng(0)
    episodes = play_episodes(player, follow(plans, 2, rng), 2, rng)
    assert returns_from(episodes, 0, 0.5).tolist() == episodes.returns(0.5).tolist() == [7.0, 1.0]
    assert returns_from(episodes, 1, 0.5).tolist() == [6.0, 0.0] and returns_from(episodes, 2).tolist() == [8.0, 0.0]
