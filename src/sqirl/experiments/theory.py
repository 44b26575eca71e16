"""Practice against theory: the steps that SQIRL and GORP as the paper writes them need, and the theorem's bound on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sqirl.algorithms.literal import Fitted, fit_gorp, fit_sqirl
from sqirl.algorithms.registry import GORP, SQIRL
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.bounds import EPSILON, Instance, gorp_bound
from sqirl.analysis.result import Analysis
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP

#: MDPs whose A^H̄ is below this and whose min k is at most MAX_K are small enough to be learned here.
SMALL_POWER, MAX_K = 10**8.5, 3
#: All of so many seeds must be that accurate; m is doubled up to the largest.
SEEDS, FIRST_M, LARGEST_M = 3, 8, 40_000


@dataclass(frozen=True)
class TheoryPoint:
    """One MDP: the steps that an algorithm needed, and the theorem's bound on them."""

    env_id: str
    algorithm: str
    steps: int
    bound: float


def theory_points() -> list[TheoryPoint]:
    """All shipped MDPs that are small enough, sorted by algorithm and bound. Takes a minute."""
    points = [point for name, analysis in archived_analyses().items() for point in _points_of(name, analysis)]
    return sorted(points, key=lambda point: (point.algorithm, point.bound))


def _points_of(name: str, analysis: Analysis) -> Iterator[TheoryPoint]:
    k = analysis.min_k
    if k is None or k > MAX_K:
        return
    horizon, gap = analysis.effective_horizons[k - 1], analysis.gaps[k - 1]
    assert horizon is not None and gap is not None
    mdp = stored_mdp(name) if analysis.num_actions**horizon <= SMALL_POWER else None
    if mdp is None or analysis.bounds is None or analysis.bounds.sqirl is None:
        return
    needed = _steps_needed(mdp, analysis, lambda m, seed: fit_sqirl(mdp, k=k, m=m, seed=seed))
    if needed is not None:
        yield TheoryPoint(name, SQIRL.name, needed, analysis.bounds.sqirl)
    if not analysis.sticky:  # the bound of GORP is for deterministic MDPs
        needed = _steps_needed(mdp, analysis, lambda m, seed: fit_gorp(mdp, k=k, m=m, seed=seed))
        if needed is not None:
            bound = gorp_bound(Instance(k, analysis.horizon, analysis.num_actions, gap))
            yield TheoryPoint(name, GORP.name, needed, bound)


def _steps_needed(mdp: TabularMDP, analysis: Analysis, fit: Callable[[int, int], Fitted]) -> int | None:
    """The median steps with the smallest m at which all seeds are accurate; None if no m is large enough."""
    low, high = analysis.return_range
    enough = analysis.optimal_return - EPSILON * (high - low)
    m = FIRST_M
    while m <= LARGEST_M:
        runs = [fit(m, seed) for seed in range(SEEDS)]
        if all(run.true_return(mdp) >= enough for run in runs):
            return int(np.median([run.num_steps for run in runs]))
        m *= 2
    return None
