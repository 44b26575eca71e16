"""The return that a run should reach: the optimal return of an environment, where it is known."""

from __future__ import annotations

from dataclasses import dataclass

from sqirl.analysis.archive import archived_analyses
from sqirl.envs.description import EnvDescription, describe

#: The paper prints optimal returns with two digits.
PRINTED_TOLERANCE = 0.005


@dataclass(frozen=True)
class Target:
    """What is known of an environment's returns before anything is learned."""

    optimal: float | None
    random: float | None
    tolerance: float = 0.0


def target_of(env: EnvDescription | str) -> Target:
    """The optimal and the random return: exact where the MDP was analysed, else as the paper prints the optimal one."""
    description = describe(env)
    analysis = archived_analyses().get(description.name)
    if analysis is not None:
        return Target(analysis.optimal_return, analysis.random_return)
    if description.row is None or not description.stickiness:  # the paper's table is of sticky actions
        return Target(None, None)
    return Target(description.row.paper_returns["optimal"], None, PRINTED_TOLERANCE)
