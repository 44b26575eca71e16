"""The analysis of an environment that is named: archived, or computed from its MDP."""

from __future__ import annotations

from collections.abc import Callable

from sqirl.analysis.analyze import analyze
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.progress import AnalysisProgress
from sqirl.analysis.result import Analysis
from sqirl.analysis.tolerance import TOLERANCES
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
    tolerance: float = TOLERANCES[0],
    max_states: int = 1_000_000,
    progress: Callable[[BuildProgress], None] | None = None,
    starts: int | None = None,
    draws: int | None = None,
) -> Analysis:
    """The analysis of an id, an .npz file, or 'module:Class'; the archived one if all options have their defaults.

    :param env: what to analyse
    :param sticky: probability of sticky actions; what the id says if None
    :param horizon: steps of an episode; the env's own if None
    :param max_k: look at Q^1..Q^max_k at least
    :param search_k: stop the search for min k beyond this k
    :param discount: discount factor
    :param tolerance: ε of the effective horizon H̄_ε
    :param max_states: if the env must be enumerated, stop beyond this many states
    :param progress: called during an enumeration
    :param starts: seeds for finding random starts; see `sqirl.mdp.build.build_mdp`
    :param draws: draws of each action where outcomes are random
    """
    return analyze_and_open(
        env, sticky=sticky, horizon=horizon, max_k=max_k, search_k=search_k, discount=discount, tolerance=tolerance,
        max_states=max_states, progress=progress, starts=starts, draws=draws,
    )[0]  # fmt: skip


def analyze_and_open(
    env: str,
    *,
    sticky: float | None = None, horizon: int | None = None, max_k: int = 5, search_k: int | None = None,
    discount: float = 1.0, tolerance: float = TOLERANCES[0], max_states: int = 1_000_000,
    progress: Callable[[BuildProgress], None] | None = None,
    with_mdp: bool = False, starts: int | None = None, draws: int | None = None,
    memory: float | None = None, on_analysis: Callable[[AnalysisProgress], None] | None = None,
) -> tuple[Analysis, TabularMDP | None]:  # fmt: skip
    """The analysis and the MDP that it is of; of an archived analysis the MDP is opened only `with_mdp`.

    `memory` and `on_analysis` are the options `memory` and `progress` of `analyze`.
    """
    by_default = sticky is None and horizon is None and max_k == 5 and search_k is None and discount == 1.0
    archived = archived_analyses().get(env) if by_default and tolerance == TOLERANCES[0] else None
    if archived is not None and not with_mdp:
        return archived, None
    mdp = open_mdp(env, horizon=horizon, max_states=max_states, progress=progress, starts=starts, draws=draws)
    mdp = mdp if sticky is None else mdp.sticky(sticky)
    if archived is not None:
        return archived, mdp
    found = analyze(
        mdp, horizon=horizon, max_k=max_k, search_k=search_k, discount=discount, tolerances=(tolerance,), memory=memory,
        progress=on_analysis,
    )  # fmt: skip
    return found, mdp
