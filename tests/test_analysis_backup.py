"""The layers of the backward pass against brute force in exact arithmetic, at every reachable time and state."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from oracle import ExactMDP, Node
from sqirl.analysis.backward import Exactness, Layers, return_range, value
from sqirl.analysis.columns import BASE, OPTIMAL, Columns
from sqirl.analysis.episode import optimal_episode
from sqirl.analysis.reduction import values_at
from sqirl.analysis.rounding import LEVELS
from sqirl.analysis.sweeps import MAXIMUM, MEAN, MINIMUM
from sqirl.analysis.witness import decode_witness
from sqirl.errors import InvalidMDP
from sqirl.mdp.convert import to_stochastic
from sqirl.mdp.reach import reachable_sets
from strategies import Example, deterministic, random_tables, stochastic

QUARTER = Fraction(1, 4)


def close(expected: Fraction) -> object:
    return pytest.approx(float(expected), rel=1e-12, abs=1e-12)


def layers_of(
    example: Example, columns: Columns, level: int = 0
) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """(t, V as floats (S, slots, width), G, D), from the last step to the first."""
    mdp, horizon = example.mdp, example.exact.horizon
    exactness = Exactness(mdp)
    exactness.level = level
    layers = Layers(mdp, horizon, columns, float(example.exact.discount), exactness)
    sets, every = reachable_sets(mdp, horizon), np.arange(mdp.num_states, dtype=np.int32)
    for t in reversed(range(horizon)):
        layers.step_back(sets.states(t), t)
        (V, _, G, D), slots, unit = layers.layer, layers.slots, layers.step(t).precision.unit
        values = np.stack([values_at(V[slab], every, unit) for slab in slots.values], axis=1)
        yield t, values, np.moveaxis(G[slots.values], 1, 0), np.moveaxis(D[slots.prints], 1, 0)


def place(example: Example, state) -> tuple[int, int]:
    """The state and the slot of a state of the exact MDP, which is a (state, previous action) pair if sticky."""
    if not example.mdp.stickiness:
        return state, 0
    return state[0], state[1] or 0  # before the first step there is no previous action, and all slots are equal


def greedy_values(exact: ExactMDP, q: dict[Node, list[Fraction]]) -> dict[Node, Fraction]:
    """The value of the worst policy greedy on q."""
    greedy, values = exact.greedy(q), {}
    for t, s in reversed(exact.nodes):
        values[t, s] = min(exact.backup(values, t, s, a) for a in greedy[t, s])
    return values


def visited_from(exact: ExactMDP, node: Node, allowed: dict[Node, list[int]]) -> set[Node]:
    """The nodes that policies with the allowed actions can visit from a node on."""
    found, new = {node}, {node}
    while new:
        new = {
            (t + 1, n)
            for t, s in new
            if t + 1 < exact.horizon
            for a in allowed[t, s]
            for _, _, n in exact.outcomes[s, a]
            if n is not None
        }
        found |= new
    return found


def assert_values(example: Example, level: int, num_k: int = 3) -> None:
    exact, columns = example.exact, Columns(num_k, 1, True)
    best = {node: max(row) for node, row in exact.q_star.items()}
    random = exact.solve(lambda row: sum(row) / len(row))[1]
    worst = exact.solve(min)[1]
    q = {k: exact.q(k) for k in range(1, num_k + 1)}
    greedy = {k: greedy_values(exact, q[k]) for k in q}
    for t, V, G, _ in layers_of(example, columns, level):
        for state in exact.reachable[t]:
            node, (s, slot) = (t, state), place(example, state)
            expected = {OPTIMAL: best[node], BASE: random[node]} | {k + 1: max(q[k][node]) for k in range(1, num_k)}
            for column, number in expected.items():
                assert V[s, slot, column] == close(number)
            assert G[s, slot, -1] == close(worst[node])
            returns = [float(greedy[k][node]) for k in q]
            assert G[s, slot, :-1] == pytest.approx(returns, rel=1e-12, abs=1e-12)


def assert_margins(example: Example, num_k: int = 3) -> None:
    exact, columns = example.exact, Columns(num_k, 1, False)
    optimal = exact.greedy(exact.q_star)
    for t, _, _, D in layers_of(example, columns):
        for state in exact.reachable[t]:
            s, slot = place(example, state)
            for k in range(1, num_k + 1):
                q, found = exact.q(k), float(D[s, slot, k - 1])
                greedy = exact.greedy(q)
                visited = visited_from(exact, (t, state), greedy)
                wrong = {(u, place(example, n)[0]) for u, n in visited if not set(greedy[u, n]) <= set(optimal[u, n])}
                decision = decode_witness(found, example.mdp.num_states, exact.horizon)
                if wrong:
                    assert decision is not None and (decision.t, decision.state) in wrong
                    assert decision.t == min(u for u, _ in wrong)
                    continue
                margins = [max(q[n]) - q[n][a] for n in visited for a in exact.actions if a not in optimal[n]]
                assert decision is None and found == (close(min(margins)) if margins else np.inf)


def assert_range(example: Example) -> None:
    mdp, exact = example.mdp, example.exact
    found = return_range(mdp, exact.horizon, discount=1.0, sets=reachable_sets(mdp, exact.horizon))
    assert found == tuple(map(close, exact.return_range))


@pytest.mark.parametrize("level", range(len(LEVELS)))
@pytest.mark.parametrize("kind", [stochastic(), deterministic(), deterministic(stickiness=QUARTER)])
def test_values_in_all_kinds_of_numbers(kind, level: int) -> None:
    @settings(max_examples=25)
    @given(kind)
    def check(example: Example) -> None:
        assert_values(example, level)

    check()


@pytest.mark.parametrize("kind", [stochastic(), deterministic(), deterministic(stickiness=QUARTER)])
def test_the_range_of_returns(kind) -> None:
    @settings(max_examples=40)
    @given(kind)
    def check(example: Example) -> None:
        assert_range(example)

    check()


@given(stochastic())
def test_margins_of_random_outcomes(example: Example) -> None:
    assert_margins(example)


@given(deterministic(stickiness=QUARTER))
def test_margins_with_sticky_actions(example: Example) -> None:
    assert_margins(example)


@given(stochastic())
def test_single_values_of_random_outcomes(example: Example) -> None:
    exact, mdp = example.exact, example.mdp
    expected = {MAXIMUM: exact.optimal_return, MEAN: exact.random_return, MINIMUM: exact.worst_return}
    for rule, exact_value in expected.items():
        assert value(mdp, exact.horizon, rule) == close(exact_value)


def first_optimal_actions(example: Example) -> list[int]:
    """The first optimal action at every step, where every chosen action is executed."""
    exact, actions = example.exact, []
    (_, state), t = exact.start[0], 0
    while state is not None and t < exact.horizon:
        row = exact.q_star[t, state]
        actions.append(row.index(max(row)))
        # The chosen action is the first outcome; where actions are sticky, the repeated one comes after it
        _, _, state = exact.outcomes[state, actions[-1]][0]
        t += 1
    return actions


@given(deterministic())
def test_an_optimal_episode_takes_the_first_optimal_actions(example: Example) -> None:
    exact, mdp = example.exact, example.mdp
    actions = optimal_episode(mdp)
    assert actions == first_optimal_actions(example)
    state, total = 0, 0.0
    for action in actions:
        total += mdp.rewards[state, action]
        state = mdp.transitions[state, action]
    assert total == float(exact.optimal_return)


@given(deterministic(stickiness=QUARTER))
def test_an_optimal_episode_of_a_sticky_mdp(example: Example) -> None:
    assert optimal_episode(example.mdp) == first_optimal_actions(example)


def test_an_optimal_episode_needs_a_deterministic_table() -> None:
    with pytest.raises(InvalidMDP, match="random outcomes"):
        optimal_episode(to_stochastic(random_tables(0, 5, 2, 4)))
