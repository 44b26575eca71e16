"""Tiny tables with screens, and a slow enumeration of everything that can happen in an episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from sqirl.envs.view import View, frames_as_channels
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.play.table import Table, make_table

#: (t, states so far, action executed last or -1) -> probability of each action
Choose = Callable[[int, tuple[int, ...], int], Sequence[float]]


def tiny_table(mdp: TabularMDP, *, num_screens: int = 2, stacked: int = 2, clock: bool = False, seed: int = 0) -> Table:
    """A table over the MDP; several states share a screen, so an observation does not tell the state."""
    screens = 10 * np.arange(1, num_screens + 1, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 3), np.uint8)
    mapping = np.random.default_rng(seed).integers(num_screens, size=mdp.num_states)
    view = View((2, 3), (2, 3, stacked), np.asarray, frames_as_channels, stacked=stacked, uses_clock=clock)
    return make_table(replace(mdp, screens=screens, screen_mapping=mapping), view)


def outcomes_of(mdp: TabularMDP, state: int, action: int) -> Iterator[tuple[float, float, int]]:
    """(probability, reward, next state) of one execution."""
    if mdp.transitions is not None:
        yield 1.0, float(mdp.rewards[state, action]), int(mdp.transitions[state, action])
        return
    row = state * mdp.num_actions + action
    for entry in range(mdp.outcomes.indptr[row], mdp.outcomes.indptr[row + 1]):
        chance, reward = mdp.outcomes.probabilities[entry], mdp.outcomes.rewards[entry]
        yield float(chance), float(reward), int(mdp.outcomes.next_states[entry])


def enumerated_return(mdp: TabularMDP, choose: Choose) -> float:
    """The expected return, summed over every sequence of actions and outcomes; nothing is merged."""

    def value(t: int, path: tuple[int, ...], executed: int) -> float:
        if t == mdp.horizon or path[-1] == END:
            return 0.0
        total = 0.0
        for action, chance in enumerate(choose(t, path, executed)):
            if mdp.stickiness and executed >= 0:
                chance = (1 - mdp.stickiness) * chance + mdp.stickiness * (action == executed)
            if chance:
                total += chance * sum(
                    p * (reward + value(t + 1, (*path, after), action))
                    for p, reward, after in outcomes_of(mdp, path[-1], action)
                )
        return total

    starts = zip(mdp.start_probabilities.tolist(), mdp.start_states.tolist(), strict=True)
    return sum(chance * value(0, (state,), -1) for chance, state in starts)


def played_by_hand(mdp: TabularMDP, actions: Sequence[int]) -> tuple[float, int]:
    """(return, steps) of a sequence of actions in a deterministic MDP without sticky actions."""
    state, total, t = int(mdp.start_states[0]), 0.0, 0
    while t < mdp.horizon and state != END:
        [(_, reward, state)] = outcomes_of(mdp, state, actions[t])
        total, t = total + reward, t + 1
    return total, t
