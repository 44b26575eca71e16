"""Merging compared with its definition, computed by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqirl.errors import InvalidMDP
from sqirl.mdp.convert import to_stochastic
from sqirl.mdp.merge import indistinguishable
from sqirl.mdp.tabular import TabularMDP


@st.composite
def tables(draw: st.DrawFn) -> TabularMDP:
    num_states, num_actions = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    cell = st.integers(-1, num_states - 1)
    transitions = [[draw(cell) for _ in range(num_actions)] for _ in range(num_states)]
    rewards = [[draw(st.integers(0, 1)) for _ in range(num_actions)] for _ in range(num_states)]
    screens = np.array([draw(st.integers(0, 1)) for _ in range(num_states)], np.int32)
    return TabularMDP.deterministic(
        transitions, rewards, screens=np.array([[0], [1]], np.uint8), screen_mapping=screens
    )


def seen_by(mdp: TabularMDP, state: int, depth: int, by: str) -> object:
    """All that action sequences of up to `depth` actions can show of a state."""
    if state == -1:
        return "end"
    look = int(mdp.screen_mapping[state]) if by == "screen" else None
    if depth == 0:
        return look
    rows = [
        (float(mdp.rewards[state, a]), seen_by(mdp, int(mdp.transitions[state, a]), depth - 1, by))
        for a in range(mdp.num_actions)
    ]
    return (look, tuple(rows))


@given(tables(), st.sampled_from(["screen", "reward"]))
def test_classes_are_what_no_action_sequence_can_tell_apart(mdp: TabularMDP, by: str) -> None:
    depth = min(mdp.num_states, 6)
    slow = [seen_by(mdp, s, depth, by) for s in range(mdp.num_states)]
    classes = indistinguishable(mdp, by=by)
    for s in range(mdp.num_states):
        for other in range(mdp.num_states):
            assert (classes[s] == classes[other]) == (slow[s] == slow[other])


@given(tables())
def test_the_merged_mdp_plays_like_the_original(mdp: TabularMDP) -> None:
    merged = mdp.merge()
    rng = np.random.default_rng(0)
    for _ in range(5):
        s, q = 0, int(merged.start_states[0])
        for _ in range(10):
            assert mdp.screens[mdp.screen_mapping[s]] == merged.screens[merged.screen_mapping[q]]
            a = int(rng.integers(mdp.num_actions))
            assert mdp.rewards[s, a] == merged.rewards[q, a]
            s, q = int(mdp.transitions[s, a]), int(merged.transitions[q, a])
            assert (s == -1) == (q == -1)
            if s == -1:
                break
    assert merged.merge().num_states == merged.num_states


def test_what_cannot_be_merged_says_so() -> None:
    mdp = TabularMDP.deterministic([[0, 0]], [[0.0, 1.0]])
    with pytest.raises(InvalidMDP, match="no screens"):
        mdp.merge()
    with pytest.raises(InvalidMDP, match="'screen' or by 'reward'"):
        mdp.merge(by="colour")
    with pytest.raises(InvalidMDP, match="deterministic"):
        to_stochastic(mdp).merge(by="reward")
