"""The returns of policies that are nearly greedy, and the planning window, against plain computations of the same."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from sqirl.analysis import tolerance
from sqirl.analysis.analyze import analyze
from sqirl.analysis.backward import Exactness, backward_pass, return_range
from sqirl.analysis.code_search import Bracket
from sqirl.analysis.memory import NotEnoughMemory
from sqirl.analysis.near_greedy import NearGreedy
from sqirl.analysis.near_greedy_steps import LAST_CODE, code_of, lead_of
from sqirl.mdp.build import build_mdp
from sqirl.mdp.reach import reachable_sets
from sqirl.mdp.tabular import TabularMDP
from strategies import random_tables

T = 7
CODES = [0, code_of(1e-3), code_of(0.05), code_of(0.3), LAST_CODE]


def tables(kind: str, seed: int = 0) -> TabularMDP:
    if kind == "stochastic":
        return build_mdp(gym.make("FrozenLake-v1"), horizon=T)
    return random_tables(seed, 40, 3, T, signed=bool(seed % 2)).sticky(0.25 if kind == "sticky" else 0.0)


def near_greedy(mdp: TabularMDP, memory: float | None = None) -> NearGreedy:
    sets = reachable_sets(mdp, T)
    low_high = return_range(mdp, T, discount=1.0, sets=sets)
    return NearGreedy(mdp, T, discount=1.0, sets=sets, return_range=low_high, exactness=Exactness(mdp, memory=memory))


def dense(mdp: TabularMDP) -> NDArray[np.float64]:
    """(S, A, S + 1) probabilities; the last next state is the end."""
    P = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states + 1))
    for s in range(mdp.num_states):
        for a in range(mdp.num_actions):
            if mdp.transitions is not None:
                P[s, a, mdp.transitions[s, a]] = 1.0
            else:
                assert mdp.outcomes is not None
                row = slice(*mdp.outcomes.indptr[s * mdp.num_actions + a :][:2])
                np.add.at(P[s, a], mdp.outcomes.next_states[row], mdp.outcomes.probabilities[row])
    P[..., -1] = 0.0
    return P


def plainly(mdp: TabularMDP, k: int, code: int) -> float:
    """The return of the worst policy near Q^k, from tables of all (state, previous action) and all times."""
    low, high = return_range(mdp, T, discount=1.0, sets=reachable_sets(mdp, T))
    S, A, P = mdp.num_states, mdp.num_actions, dense(mdp)

    def execute(V: NDArray[np.float64]) -> NDArray[np.float64]:  # (A, S) by previous action → X (S, A)
        after = np.concatenate([V, np.zeros((A, 1))], axis=1)
        return mdp.rewards + np.einsum("san,an->sa", P, after)

    def choose(X: NDArray[np.float64], W: NDArray[np.float64], t: int) -> NDArray[np.float64]:
        rho = mdp.stickiness if t else 0.0
        return (1 - rho) * W + rho * X.T

    V, best, worst = np.zeros((A, S)), [np.zeros((A, S))] * (k + 1), np.zeros((A, S))
    for t in reversed(range(T)):
        X_of, X = [execute(V), *(execute(of_k) for of_k in best[1:k])], execute(worst)
        V = choose(X_of[0], X_of[0].mean(axis=1), t)
        best = [best[0], *(choose(each, each.max(axis=1), t) for each in X_of)]
        lead = (X_of[-1].max(axis=1, keepdims=True) - X_of[-1]) * (1 - (mdp.stickiness if t else 0)) / (high - low)
        allowed = lead < lead_of(code + 1) * (1 + 1e-12)
        worst = choose(X, np.where(allowed, X, np.inf).min(axis=1), t)
    return float(mdp.start_probabilities @ worst[0, mdp.start_states])


@pytest.mark.parametrize("kind", ["deterministic", "sticky", "stochastic"])
def test_returns_are_those_of_a_plain_computation(kind: str) -> None:
    mdp = tables(kind)
    search = near_greedy(mdp)
    assert search.look_at(1, T) == T
    for k in (1, 2, 4, T):
        expected = [plainly(mdp, k, code) for code in CODES]
        assert search.returns([k] * len(CODES), CODES) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["deterministic", "sticky", "stochastic"])
def test_they_fall_from_greedy_to_worst(kind: str, seed: int) -> None:
    mdp = tables(kind, seed)
    greedy, search = backward_pass(mdp, T, max_k=3), near_greedy(mdp)
    search.look_at(1, 3)
    found = np.array([search.returns([k] * len(CODES), CODES) for k in (1, 2, 3)])
    assert found[:, 0] == pytest.approx(greedy.greedy) and (np.diff(found, axis=1) <= 1e-12).all()
    assert found[:, -1] == pytest.approx(np.full(3, greedy.worst))


@pytest.mark.parametrize("kind", ["deterministic", "sticky", "stochastic"])
def test_with_less_memory_the_returns_are_the_same(kind: str) -> None:
    """From leads of fewer k, or from leads that are computed in every pass, with one layer and fewer returns at once."""
    mdp = tables(kind)
    whole, sizes = near_greedy(mdp), 8 * mdp.num_states * (mdp.num_actions + 1 if mdp.stickiness else 2)
    whole.look_at(2, 6)
    expected = {k: whole.returns([k] * 3, CODES[1:4]).tolist() for k in range(2, 7)}
    for columns in (5.0, 7.5, 9.5, 12.0, 24.0):
        search, limit = near_greedy(mdp, columns * sizes), columns * sizes
        ways = [search._planned(2, last_k, limit, is_kept=is_kept) for last_k in (2, 6) for is_kept in (True, False)]
        for plan in [plan for plan in ways if plan and plan.num_columns >= 3]:
            search._plan, search._kept = plan, []
            search._kept = list(search._codes_by_pass(plan)) if plan.is_kept else []
            for k in range(2, plan.last_k + 1):
                assert search.returns([k] * 3, CODES[1:4]).tolist() == expected[k]


@pytest.mark.parametrize("kind", ["deterministic", "sticky", "stochastic"])
def test_the_horizon_does_not_depend_on_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = tables(kind)
    whole = analyze(mdp, tolerances=(0.1, 0.3))
    for limit in (8, 12, 20):
        scarce = Exactness(mdp, memory=limit * 8 * mdp.num_states * (mdp.num_actions + 1))
        monkeypatch.setattr(
            tolerance, "NearGreedy", lambda *args, scarce=scarce, **kw: NearGreedy(*args, **{**kw, "exactness": scarce})
        )
        assert analyze(mdp, tolerances=(0.1, 0.3)).tolerant == whole.tolerant


def test_too_little_memory_for_many_actions_is_one_line() -> None:
    """The leads over 60 actions take more memory than a backward pass of one k."""
    mdp = random_tables(0, 200, 60, T, signed=False)
    found = [near_greedy(mdp, memory).look_at(1, 6) for memory in (60_000, 100_000, 10_000_000)]
    assert found == sorted(found) and 1 <= found[0] < found[-1] == 6
    with pytest.raises(NotEnoughMemory, match=r"200 states and 60 actions, does not fit into .* GB; free memory"):
        near_greedy(mdp, 20_000).look_at(1, 6)


def test_leads_are_given_back_before_more_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    search = near_greedy(tables("deterministic"))
    search.look_at(1, 2)
    buffer, held = search._exactness.buffer, []
    take = buffer.words
    monkeypatch.setattr(buffer, "words", lambda num_words: held.append(len(search._kept)) or take(num_words))
    search.look_at(1, 6)
    assert held == [0]


def test_a_code_is_one_more_for_each_thousandth() -> None:
    for lead in (1e-15, 1e-9, 0.0017, 0.4, 1.0):
        code = code_of(lead)
        assert lead_of(code) <= lead < lead_of(code + 1) <= lead_of(code) * (1 + 1e-3)
    assert code_of(0.0) == code_of(1e-16) == 0 and code_of(1.0) == LAST_CODE


@pytest.mark.parametrize("allowed", [0.0, 1.0])
@pytest.mark.parametrize("most", [1, 2, 5, 8])
@pytest.mark.parametrize("last_good", [-1, 0, 1, 20_000, LAST_CODE])
def test_the_search_ends_at_the_last_good_code(last_good: int, most: int, allowed: float) -> None:
    """Whether returns fall in one step, or as a power of Δ."""
    for shape in (
        lambda code: 1.0 if code <= last_good else -1.0,
        lambda code: 1 - math.exp((code - last_good - 0.5) / 999),
    ):
        bracket = Bracket(1, allowed)
        for _ in range(60):
            if not bracket.is_open:
                break
            codes = bracket.codes(bracket.good + 1, most)
            surplus = [shape(code) for code in codes]
            bracket.take(codes, surplus, [more >= 0 for more in surplus])
        assert (bracket.good, bracket.bad) == (last_good, last_good + 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stickiness", [0.0, 0.25])
def test_the_planning_window_where_states_are_reached_at_one_time_only(stickiness: float, seed: int) -> None:
    """A layered MDP: no state is seen twice, so the greedy actions of k steps need a pass of their own."""
    rng, width = np.random.default_rng(seed), 5
    layers = np.arange(T * width) // width
    transitions = (layers[:, None] + 1) * width + rng.integers(0, width, (T * width, 3))
    transitions[layers == T - 1] = -1
    rewards = rng.choice([0.0, 0.0, 1.0, 2.0], transitions.shape)
    mdp = TabularMDP.deterministic(transitions, rewards, horizon=T).sticky(stickiness)
    P, V = dense(mdp), {0: np.zeros((3, T * width))}
    greedy = {}
    for k in range(1, T + 1):
        after = np.concatenate([V[k - 1], np.zeros((3, 1))], axis=1)
        X = rewards + np.einsum("san,an->sa", P, after)
        greedy[k] = np.isclose(X, X.max(axis=1, keepdims=True))
        V[k] = (1 - stickiness) * X.max(axis=1) + stickiness * X.T

    def will_do(k: int) -> bool:
        pairs = {(0, -1)}
        for t in range(T - k):
            following = set()
            for s, previous in pairs:
                if (greedy[k][s] & ~greedy[T - t][s]).any():
                    return False
                executed = set(np.flatnonzero(greedy[k][s]).tolist()) | (
                    {previous} if stickiness and previous >= 0 else set()
                )
                following |= {(int(transitions[s, a]), a) for a in executed if transitions[s, a] >= 0}
            pairs = following
        return True

    assert analyze(mdp).effective_planning_window == next(k for k in range(1, T + 1) if will_do(k))
