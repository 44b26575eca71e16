"""The return that a run should reach: the optimal return of an environment, where it is known or quickly found."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sqirl.analysis.archive import archived_analyses
from sqirl.envs.calls import env_errors, naming_actions
from sqirl.envs.description import EnvDescription, describe
from sqirl.errors import EnvFailed, SqirlError
from sqirl.mdp.build import build_mdp
from sqirl.mdp.scope import is_estimated, starts_are_drawn
from sqirl.mdp.store import is_stored, stored_mdp
from sqirl.mdp.tabular import TabularMDP

#: The paper prints optimal returns with two digits.
PRINTED_TOLERANCE = 0.005
#: A user's env is enumerated for so many seconds, up to so many states; a larger one has no target.
QUICK_SECONDS, QUICK_STATES = 1.0, 20_000
#: An env whose steps take more seconds than this is not tried: looking for random outcomes would take too long.
SLOW_STEP = 0.003
#: (states · actions · steps of an episode) up to which a stored MDP is solved before a run; it takes about a second.
QUICK_ENTRIES = 300_000_000


@dataclass(frozen=True)
class Target:
    """What is known of an environment's returns before anything is learned."""

    optimal: float | None
    random: float | None
    tolerance: float = 0.0


def target_of(env: EnvDescription | str) -> Target:
    """The optimal and the random return, exact where an analysis is at hand or cheap, else as the paper prints the optimal one.

    Cheap are an MDP that is stored, and a user's env whose states are listed within a second. Values that are estimated from
    draws are no target: nothing could be seen to reach them.
    """
    description = describe(env)
    analysis = archived_analyses().get(description.name)
    if analysis is not None:
        return Target(analysis.optimal_return, analysis.random_return)
    found = _quick_target(description.name, description.horizon) if description.remote_name is not None else None
    if isinstance(found, Target):
        return found
    if description.row is None or not description.stickiness:  # the paper's table is of sticky actions
        return Target(None, None)
    return Target(description.row.paper_returns["optimal"], None, PRINTED_TOLERANCE)


def trouble_of(description: EnvDescription) -> str | None:
    """What a user's env did that is not allowed while its states were listed; None if they have no such trouble."""
    found = _quick_target(description.name, description.horizon)
    return found if isinstance(found, str) else None


@lru_cache(maxsize=64)
def _quick_target(name: str, horizon: int | None) -> Target | str | None:
    """The exact returns of an environment that is given by its name; what the env did that is not allowed; or None.

    None: the returns are not found quickly.
    """
    description = describe(name)
    if horizon is None or description.is_full_length:
        return None
    try:
        mdp = _quick_mdp(description)
    except EnvFailed as error:
        return str(error)
    except SqirlError:
        return None
    if mdp is None or mdp.is_partial or is_estimated(mdp) or starts_are_drawn(mdp):
        return None
    slots = mdp.num_actions + 1 if mdp.stickiness else 1
    if mdp.num_states * mdp.num_actions * slots * horizon > QUICK_ENTRIES:
        return None
    from sqirl.analysis.backward import value
    from sqirl.analysis.sweeps import MAXIMUM, MEAN

    optimal, random = (value(mdp, horizon, rule) for rule in (MAXIMUM, MEAN))
    return Target(optimal, random) if np.isfinite([optimal, random]).all() else None


def _quick_mdp(description: EnvDescription) -> TabularMDP | None:
    if description.bridge_id is not None:
        return stored_mdp(description) if is_stored(description.bridge_id) else None
    if description.dynamics is not None:
        return build_mdp(description)
    if _seconds_of_a_step(description) > SLOW_STEP:
        return None
    with env_errors(description.name, "state_key"):  # whatever fails in it, the run does without a target
        return build_mdp(description, time_limit=QUICK_SECONDS, max_states=QUICK_STATES, replays=20)


def _seconds_of_a_step(description: EnvDescription, steps: int = 10) -> float:
    game, rng = description.make_game(), np.random.default_rng(0)
    began = time.monotonic()
    actions: list[int] = []
    for _ in range(steps):
        state = game.get_state()
        actions.append(int(rng.integers(game.num_actions)))
        with naming_actions(actions):
            over = game.step(actions[-1])[1]
        if over:
            game.set_state(state)
            actions.pop()
    return (time.monotonic() - began) / steps
