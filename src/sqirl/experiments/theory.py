"""Practice against theory: the steps that SQIRL and GORP as the paper writes them need, and the theorem's bound on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqirl.algorithms.literal import Fitted, fit_gorp, fit_sqirl
from sqirl.algorithms.registry import GORP, SQIRL
from sqirl.analysis.archive import archived_analyses
from sqirl.analysis.bounds import DELTA, EPSILON, Instance, gorp_bound
from sqirl.analysis.result import Analysis
from sqirl.experiments.sample_complexity import SampleComplexity, Share, sample_complexity
from sqirl.mdp.store import stored_mdp
from sqirl.mdp.tabular import TabularMDP

#: MDPs whose A^H̄ is below this and whose min k is at most MAX_K are small enough to be learned here.
SMALL_POWER, MAX_K = 10**8.5, 3
#: The share 1 - δ of so many seeds must be that accurate; m is doubled up to the largest.
SEEDS, FIRST_M, LARGEST_M = 10, 8, 40_000


@dataclass(frozen=True)
class TheoryPoint:
    """One MDP: the steps N_{ε,δ} that an algorithm needed, the share of seeds that succeeded, and the theorem's bound."""

    env_id: str
    algorithm: str
    steps: int
    bound: float
    share: Share


def theory_points() -> list[TheoryPoint]:
    """All shipped MDPs that are small enough, sorted by algorithm and bound. Takes some minutes."""
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
        yield TheoryPoint(name, SQIRL.name, needed.steps, analysis.bounds.sqirl, needed.share)
    if not analysis.sticky:  # the bound of GORP is for deterministic MDPs
        needed = _steps_needed(mdp, analysis, lambda m, seed: fit_gorp(mdp, k=k, m=m, seed=seed))
        if needed is not None:
            bound = gorp_bound(Instance(k, analysis.horizon, analysis.num_actions, gap))
            yield TheoryPoint(name, GORP.name, needed.steps, bound, needed.share)


def _steps_needed(mdp: TabularMDP, analysis: Analysis, fit: Callable[[int, int], Fitted]) -> SampleComplexity | None:
    """N_{ε,δ} with the ε and δ of the bounds; None if no m is large enough."""
    low, high = analysis.return_range
    enough = analysis.optimal_return - EPSILON * (high - low)

    def succeeds(run: Fitted) -> bool:
        return run.true_return(mdp) >= enough

    return sample_complexity(fit, succeeds, delta=DELTA, seeds=SEEDS, first_m=FIRST_M, largest_m=LARGEST_M)
