"""Holding step counters: with one, an env's states never repeat and cannot be listed.

Holding it at its value of the start changes the env where rewards or ends depend on it. `held_env` does it only where play
stays alike: with the same seeds and actions, rewards and ends come at the same steps. The size of a reward may depend on the
counter, as in MiniGrid.
"""

from __future__ import annotations

import time

import numpy as np

from sqirl.diagnosis.simulator import Simulator, simulator_of
from sqirl.envs.counters import step_counters
from sqirl.envs.description import EnvDescription, holding
from sqirl.errors import SqirlError

#: Episodes of random play that are compared, and seconds for them, at most.
EPISODES, SECONDS = 20, 1.5


def counters_of(description: EnvDescription) -> list[str]:
    """Attributes of a user's env that count steps and are part of its state."""
    try:
        return [] if description.is_bridge else step_counters(description.make_game())
    except SqirlError:  # an env that cannot be copied
        return []


def held_env(description: EnvDescription, counters: list[str], horizon: int) -> EnvDescription | None:
    """The env with its counters held; None if it has none, or if they decide when rewards come or episodes end."""
    if not counters:
        return None
    held = holding(description, counters)
    try:
        alike = plays_alike(simulator_of(description, horizon=horizon), simulator_of(held, horizon=horizon))
    except SqirlError:
        return None
    return held if alike else None


def plays_alike(one: Simulator, other: Simulator) -> bool:
    """Do rewards and ends come at the same steps of random play?"""
    rng, until = np.random.default_rng(0), time.monotonic() + SECONDS
    for seed in range(EPISODES):
        one.reset(seed)
        other.reset(seed)
        over = False
        while not over and time.monotonic() < until:
            action = int(rng.integers(one.num_actions))
            (_, reward, over), (_, other_reward, other_over) = one.step(action), other.step(action)
            if over != other_over or (reward != 0) != (other_reward != 0):
                return False
    return True
