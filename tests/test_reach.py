"""Reachable sets, paths and cuts against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from sqirl.errors import InvalidMDP
from sqirl.mdp.convert import expand_sticky, to_stochastic
from sqirl.mdp.reach import breadth_first_tree, count_reachable, reachable_sets
from sqirl.mdp.tabular import TabularMDP
from strategies import Example, deterministic, random_tables, stochastic


@given(stochastic())
def test_sets_are_what_the_oracle_reaches(example: Example) -> None:
    sets = reachable_sets(example.mdp, example.exact.horizon)
    assert [set(sets.states(t).tolist()) for t in range(sets.horizon)] == example.exact.reachable


@given(deterministic())
def test_both_forms_of_the_dynamics_reach_the_same(example: Example) -> None:
    mdp, horizon = example.mdp, example.exact.horizon
    one, other = reachable_sets(mdp, horizon), reachable_sets(to_stochastic(mdp), horizon)
    assert all(np.array_equal(one.states(t), other.states(t)) for t in range(horizon))
    sticky = mdp.sticky(0.5)
    product = expand_sticky(sticky)
    assert count_reachable(sticky, one) == count_reachable(product, reachable_sets(product, horizon))


@pytest.mark.parametrize("seed", range(4))
def test_paths_lead_where_they_say(seed: int) -> None:
    mdp = random_tables(seed, 60, 3, 12)
    tree, sets = breadth_first_tree(mdp), reachable_sets(mdp, 13)
    depth = {int(s): t for t in reversed(range(13)) for s in sets.states(t)}
    for state, steps in depth.items():
        path = tree.path_to(state)
        assert len(path) == steps and follow(mdp, path) == state
        longer = [t for t in range(13) if sets.mask(t)[state]][-1]
        assert follow(mdp, mdp.path_to(state, steps=longer)) == state
    for state in np.flatnonzero(tree.rows == -2).tolist():
        with pytest.raises(InvalidMDP, match="cannot be reached"):
            tree.path_to(state)


def follow(mdp: TabularMDP, actions: list[int]) -> int:
    state = 0
    for action in actions:
        state = int(mdp.transitions[state, action])
    return state


def test_sets_stop_growing_at_a_fixed_point() -> None:
    corridor = TabularMDP.deterministic([[0, 1], [1, 2], [2, 2]], np.zeros((3, 2)))
    sets = reachable_sets(corridor, 1_000_000)
    assert len(sets.bits) == 3 and sets.states(999_999).tolist() == [0, 1, 2] and sets.horizon == 1_000_000


@pytest.mark.parametrize("form", [lambda mdp: mdp, to_stochastic])
def test_a_cut_keeps_the_first_steps_and_no_more(form) -> None:
    mdp = form(random_tables(5, 80, 3, 10))
    for horizon in (1, 3, 6):
        cut = mdp.cut(horizon)
        assert cut.num_states == int(reachable_sets(mdp, horizon).union().sum()) and cut.horizon == horizon
        before, after = reachable_sets(mdp, horizon), reachable_sets(cut, horizon)
        assert [len(before.states(t)) for t in range(horizon)] == [len(after.states(t)) for t in range(horizon)]
    assert mdp.cut(10).cut(4).num_states == mdp.cut(4).num_states
    with pytest.raises(InvalidMDP, match="above 1,000,000"):
        mdp.cut(10**10)
