"""Q^1..Q^k and Q* of a small MDP at every time and state, as arrays, and how often random play visits each state.

The analysis itself never stores so much (`backward.py`). This is for looking at the Q-functions themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.analysis.backward import return_range
from sqirl.errors import InvalidMDP
from sqirl.mdp.convert import expand_sticky, to_stochastic, transition_matrix
from sqirl.mdp.reach import check_horizon, reachable_sets
from sqirl.mdp.tabular import Outcomes, TabularMDP

#: More values than these are refused.
LARGEST = 20_000_000
#: Values that differ by less than this share of the range of returns are taken as equal, since they are floats.
SAME = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QTables:
    """The Q-functions of an MDP without stickiness: that of a sticky MDP is over pairs of a state and the previous action.

    `q(k, t)`, `optimal_q(t)` and `greedy(q)` are over the states of the given MDP.
    """

    mdp: TabularMDP  # over pairs where the given MDP is sticky (`expand_sticky`)
    horizon: int
    discount: float
    slots: int  # pairs of one state: 1, or A + 1 where the given MDP is sticky
    matrix: Any  # (S·A, S) SciPy sparse: the probabilities of the next states; what is missing to 1 ends the episode
    Q: Floats  # (k, T, S, A) Q^1..Q^k; at the last step all are the rewards
    optimal: Floats  # (T, S, A) Q*
    visits: Floats  # (T, S) the probability that random play is in s at time t
    return_range: tuple[float, float]  # least and greatest total reward of an episode

    @property
    def outcomes(self) -> Outcomes:
        assert self.mdp.outcomes is not None
        return self.mdp.outcomes

    @property
    def scale(self) -> float:
        """The range of returns, by which errors are divided; 1 if all returns are equal."""
        low, high = self.return_range
        return high - low or 1.0

    def backed_up(self, values: Floats) -> Floats:
        """(S, A) r(s, a) + γ E[V(s')]: one step of Q-value iteration from the values V (S,) of the next step."""
        ahead: Floats = (self.matrix @ values).reshape(self.mdp.rewards.shape)
        return self.mdp.rewards + self.discount * ahead

    def q(self, k: int, t: int) -> Floats:
        """(S, A) Q^k at time t. Of a sticky MDP (S, A + 1, A): the second index is the previous action, A means none."""
        self._check(k, t)
        return self._by_state(self.Q[k - 1, t])

    def optimal_q(self, t: int) -> Floats:
        """Q* at time t, in the shape of `q`."""
        self._check(1, t)
        return self._by_state(self.optimal[t])

    def greedy(self, q: Floats) -> NDArray[np.bool_]:
        """(…, A) the best actions by values (…, A); values that differ by rounding alone are equal."""
        best: NDArray[np.bool_] = q >= q.max(axis=-1, keepdims=True) - SAME * self.scale
        return best

    def _check(self, k: int, t: int) -> None:
        if not 1 <= k <= len(self.Q):
            raise InvalidMDP(f"k = {k} is outside 1..{len(self.Q)}, which were computed")
        if not 0 <= t < self.horizon:
            raise InvalidMDP(f"t = {t} is outside 0..{self.horizon - 1}, the times of an episode")

    def _by_state(self, values: Floats) -> Floats:
        S, A = values.shape
        return values if self.slots == 1 else values.reshape(S // self.slots, self.slots, A)


def q_tables(mdp: TabularMDP, k: int, *, horizon: int | None = None, discount: float = 1.0) -> QTables:
    """Q^1..Q^k and Q* at all times, by Q^1 = Q of random play and Q^(i+1) = QVI(Q^i).

    :param mdp: one whose values fit into memory: at most `LARGEST` of them
    :param k: the largest k
    :param horizon: steps of an episode; that of the MDP if None
    :param discount: γ
    """
    T = check_horizon(mdp, horizon)
    if not 1 <= k <= T:
        raise InvalidMDP(f"k = {k} is outside 1..{T}, the steps of an episode")
    slots = mdp.num_actions + 1 if mdp.stickiness else 1
    count = (k + 1) * T * mdp.num_states * slots * mdp.num_actions
    if count > LARGEST:
        raise InvalidMDP(f"Q^1..Q^{k} have {count:,} values, more than {LARGEST:,}; give a smaller MDP, horizon or k")
    explicit = expand_sticky(mdp) if mdp.stickiness else to_stochastic(mdp)
    S, A = explicit.num_states, explicit.num_actions
    matrix = transition_matrix(explicit)
    bounds = return_range(explicit, T, discount=discount, sets=reachable_sets(explicit, T))
    Q, optimal = np.empty((k, T, S, A)), np.empty((T, S, A))
    tables = QTables(explicit, T, discount, slots, matrix, Q, optimal, _visits(explicit, matrix, T), bounds)
    Q[:, T - 1] = optimal[T - 1] = explicit.rewards
    for t in reversed(range(T - 1)):
        Q[0, t] = tables.backed_up(Q[0, t + 1].mean(axis=1))
        for i in range(1, k):
            Q[i, t] = tables.backed_up(Q[i - 1, t + 1].max(axis=1))
        optimal[t] = tables.backed_up(optimal[t + 1].max(axis=1))
    return tables


@lru_cache(maxsize=1)
def remembered_q_tables(mdp: TabularMDP, k: int, horizon: int, discount: float) -> QTables:
    """The same. The tables that were computed last are remembered, so that one time after the other can be looked at."""
    return q_tables(mdp, k, horizon=horizon, discount=discount)


def _visits(mdp: TabularMDP, matrix: Any, horizon: int) -> Floats:
    visits = np.zeros((horizon, mdp.num_states))
    np.add.at(visits[0], mdp.start_states, mdp.start_probabilities)
    for t in range(1, horizon):
        visits[t] = matrix.T @ np.repeat(visits[t - 1] / mdp.num_actions, mdp.num_actions)
    return visits
