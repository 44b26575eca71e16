"""The analysis of an environment that is named: archived, or computed from its MDP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.result import Analysis
from sqirl.mdp.build import BuildProgress
from sqirl.mdp.store import open_mdp
from sqirl.mdp.tabular import TabularMDP


def analyze_env(
    env: str,
    *,
    sticky: float | None = None,
    horizon: int | None = None,
    max_k: int = 5,
    search_k: int | None = None,
    discount: float = 1.0,
    max_states: int = 1_000_000,
    progress: Callable[[BuildProgress], None] | None = None,
) -> Analysis:
    """The analysis of an id, an .npz file, or 'module:Class'; the archived one if all options have their defaults.

    :param env: what to analyse
    :param sticky: probability of sticky actions; what the id says if None
    :param horizon: steps of an episode; the env's own if None
    :param max_k: look at Q^1..Q^max_k at least
    :param search_k: stop the search for min k beyond this k
    :param discount: discount factor
    :param max_states: if the env must be enumerated, stop beyond this many states
    :param progress: called during an enumeration
    """
    by_default = sticky is None and horizon is None and max_k == 5 and search_k is None and discount == 1.0
    archived = archived_analyses().get(env) if by_default else None
    if archived is not None:
        return archived
    mdp = open_sticky(env, sticky=sticky, horizon=horizon, max_states=max_states, progress=progress)
    return analyze(mdp, horizon=horizon, max_k=max_k, search_k=search_k, discount=discount)


def open_sticky(
    env: str | Path,
    *,
    sticky: float | None = None,
    horizon: int | None = None,
    max_states: int = 1_000_000,
    progress: Callable[[BuildProgress], None] | None = None,
) -> TabularMDP:
    """The MDP of an environment, with this stickiness instead of its own if one is given."""
    mdp = open_mdp(env, horizon=horizon, max_states=max_states, progress=progress)
    return mdp if sticky is None else mdp.sticky(sticky)
