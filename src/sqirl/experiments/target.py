"""What there is to reach: the optimal return of an environment, where anybody knows it."""

from __future__ import annotations

from dataclasses import dataclass

from sqirl.analysis.archive import archived_analyses
from sqirl.envs.catalogue import lookup
from sqirl.envs.ids import is_bridge_id, parse_id
from sqirl.errors import UnknownEnv

#: The paper prints optimal returns with two digits.
PRINTED_TOLERANCE = 0.005


@dataclass(frozen=True)
class Target:
    """What is known of an environment's returns before anything is learned."""

    optimal: float | None
    random: float | None
    tolerance: float = 0.0


def target_of(env_id: str) -> Target:
    """The optimal and the random return: exact where the MDP was analysed, else as the paper prints them."""
    analysis = archived_analyses().get(env_id)
    if analysis is not None:
        return Target(analysis.optimal_return, analysis.random_return)
    if not is_bridge_id(env_id) or not parse_id(env_id).sticky:
        return Target(None, None)
    try:
        return Target(lookup(env_id).paper_returns["optimal"], None, PRINTED_TOLERANCE)
    except UnknownEnv:
        return Target(None, None)
