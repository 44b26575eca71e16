"""Random small MDPs, as the oracle's exact form and as ours."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from oracle import ExactMDP
from sqirl.mdp.tabular import TabularMDP

REWARDS = [Fraction(0), Fraction(0), Fraction(1), Fraction(1, 2), Fraction(3)]
SIGNED_REWARDS = [*REWARDS, Fraction(-1), Fraction(-2)]
#: Sums of these differ by parts of 1e-18, which floats cannot hold beside 1. The floats 0.1 + 0.2 and 0.3 differ by 3e-17.
CRUMB = Fraction(1, 2**60)
CLOSE_REWARDS = [Fraction(0), Fraction(1), CRUMB, 3 * CRUMB, 1 + 2**9 * CRUMB, *map(Fraction, (0.1, 0.2, 0.3))]
SIGNED_CLOSE_REWARDS = [*CLOSE_REWARDS, -CRUMB, Fraction(-1)]


def reward_lists(close: bool) -> list[list[Fraction]]:
    return [CLOSE_REWARDS, SIGNED_CLOSE_REWARDS] if close else [REWARDS, SIGNED_REWARDS]


@dataclass(frozen=True, eq=False)
class Example:
    exact: ExactMDP
    mdp: TabularMDP


def sizes(max_states: int, max_horizon: int) -> st.SearchStrategy[tuple[int, int, int]]:
    """States, actions and horizon; small ones are tried too, but most are as large as they may be."""
    large = st.tuples(st.just(max_states), st.integers(2, 3), st.integers(max_horizon - 1, max_horizon))
    return st.one_of(
        large, large, large, st.tuples(st.integers(1, max_states), st.integers(2, 3), st.integers(1, max_horizon))
    )


@st.composite
def deterministic(
    draw: st.DrawFn, max_states: int = 4, max_horizon: int = 4, stickiness: Fraction | None = None, close: bool = False
) -> Example:
    """A deterministic MDP, sticky if a stickiness is given; start state 0."""
    num_states, num_actions, horizon = draw(sizes(max_states, max_horizon))
    rewards = st.sampled_from(draw(st.sampled_from(reward_lists(close))))
    # Ends are rare, or most states would never be seen
    successors = st.sampled_from([*range(num_states), *range(num_states), *range(num_states), -1])
    table = {(s, a): (draw(successors), draw(rewards)) for s in range(num_states) for a in range(num_actions)}
    exact = ExactMDP(
        {key: [(Fraction(1), r, None if n < 0 else n)] for key, (n, r) in table.items()},
        [(Fraction(1), 0)],
        num_actions,
        horizon,
    )
    transitions = np.array([[table[s, a][0] for a in range(num_actions)] for s in range(num_states)])
    reward_table = np.array([[float(table[s, a][1]) for a in range(num_actions)] for s in range(num_states)])
    mdp = TabularMDP.deterministic(transitions, reward_table, horizon=horizon)
    if stickiness is not None:
        return Example(exact.sticky(stickiness), mdp.sticky(float(stickiness)))
    return Example(exact, mdp)


@st.composite
def stochastic(draw: st.DrawFn, max_states: int = 3, max_horizon: int = 4, close: bool = False) -> Example:
    """Random outcomes with thirds, quarters and halves, random rewards for each, a random start distribution."""
    num_states, num_actions, horizon = draw(sizes(max_states, max_horizon))
    rewards = st.sampled_from(draw(st.sampled_from(reward_lists(close))))
    successors = st.sampled_from([*range(num_states), *range(num_states), None])
    law = st.sampled_from(
        [
            [1],
            [Fraction(1, 2)] * 2,
            [Fraction(1, 3)] * 3,
            [Fraction(1, 4), Fraction(3, 4)],
            [Fraction(1, 3), Fraction(2, 3)],
        ]
    )
    outcomes = {
        (s, a): [(Fraction(p), draw(rewards), draw(successors)) for p in draw(law)]
        for s in range(num_states)
        for a in range(num_actions)
    }
    start = (
        [Fraction(1)] if num_states == 1 else draw(st.sampled_from([[Fraction(1)], [Fraction(1, 3), Fraction(2, 3)]]))
    )
    exact = ExactMDP(outcomes, list(zip(start, range(num_states), strict=False)), num_actions, horizon)
    dynamics = {
        s: {
            a: [(float(p), 0 if n is None else n, float(r), n is None) for p, r, n in outcomes[s, a]]
            for a in range(num_actions)
        }
        for s in range(num_states)
    }
    distribution = np.zeros(num_states)
    distribution[: len(start)] = [float(p) for p in start]
    return Example(exact, TabularMDP.from_dynamics(dynamics, start=distribution, horizon=horizon))


def random_tables(seed: int, num_states: int, num_actions: int, horizon: int, *, signed: bool = False) -> TabularMDP:
    """A larger deterministic MDP of numpy's making, with ends, self-loops and sparse rewards."""
    rng = np.random.default_rng(seed)
    transitions = rng.integers(-1, num_states, (num_states, num_actions))
    rewards = rng.choice([0, 0, 0, 1, 2, -1 if signed else 0.5], (num_states, num_actions)).astype(float)
    return TabularMDP.deterministic(transitions, rewards, horizon=horizon)
