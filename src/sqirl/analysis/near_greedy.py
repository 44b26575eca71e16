"""The returns of the worst policies that are nearly greedy on Q^k, by a backward pass in floats.

An action counts as nearly greedy if Q^k puts the best action at most a *slack* above it. Here no tie needs to be exact: the slack
is enlarged by the rounding error of the difference. So no action that belongs to the set is left out, and the return is never
above the true one by more than rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backup import Step
from sqirl.analysis.backward import fill_slots, means_at_start
from sqirl.analysis.columns import Places, Sizes, storages
from sqirl.analysis.dynamics import dynamics_of, weights_of
from sqirl.analysis.memory import Buffer
from sqirl.analysis.parallel import in_threads
from sqirl.analysis.probabilities import ExactProbabilities, exact_probabilities
from sqirl.analysis.progress import SILENT, Meter
from sqirl.analysis.rounding import Rounding
from sqirl.analysis.sweeps import Slack, near_greedy_step
from sqirl.mdp.reach import ReachableSets
from sqirl.mdp.tabular import TabularMDP


def near_greedy_returns(
    mdp: TabularMDP,
    horizon: int,
    max_k: int,
    slacks: NDArray[np.float64],
    *,
    discount: float,
    sets: ReachableSets,
    probabilities: ExactProbabilities | None = None,
    buffer: Buffer | None = None,
    meter: Meter = SILENT,
) -> NDArray[np.float64]:
    """(n, m) the returns for slacks (n, m) of the last n of Q^1..Q^max_k, in the units of the rewards."""
    dynamics, rounding = dynamics_of(mdp, discount), Rounding.of(mdp, horizon)
    weights = weights_of(mdp, discount, probabilities or exact_probabilities(mdp.outcomes), 0)
    sizes = _sizes(mdp, max_k, slacks.size)
    layer, places = (buffer or Buffer()).layer(mdp, sizes), Places(mdp, sizes)
    [moved] = sizes.moves
    for t in reversed(range(horizon)):
        stickiness, states = mdp.stickiness if t else 0.0, sets.states(t)
        precision = rounding.precision(horizon - t, 0)
        step = Step(stickiness > 0, t == horizon - 1, sizes.is_filled_first, precision, 0.0)
        # Q-values of (s, p) differ by the share 1 - ρ of what values of executing actions differ by
        slack = Slack(slacks / (1 - stickiness), precision.relative, precision.absolute)
        source, target = places.move(moved)
        if step.is_filled:
            fill_slots(states, moved, dynamics, weights, step, layer, source, target)
        in_threads(near_greedy_step, states, dynamics, weights, slack, stickiness, step, layer, source, target)
        meter.advance(len(states) * mdp.num_actions * (max_k + slacks.size))
    return means_at_start(mdp, layer.G[places.slots.values[0]]).reshape(slacks.shape)


def near_greedy_bytes(mdp: TabularMDP, max_k: int, num_slacks: int) -> int:
    """The memory of such a pass."""
    return _sizes(mdp, max_k, num_slacks).num_bytes(mdp)


def _sizes(mdp: TabularMDP, max_k: int, num_slacks: int) -> Sizes:
    return Sizes(max_k, num_slacks, 0, exact=False, storage=storages(mdp, 0)[0])
