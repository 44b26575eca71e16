"""The paper's Assumption 3.5 on the regression oracle, measured for one MDP and one oracle.

The assumption bounds two errors of a regression from n samples of a distribution D, with probability 1 - δ:

    regression            E_D[(Q̂ - Q)²] ≤ O(log n / n · F(δ))                  of Q = Q^1_t
    fitted Q-iteration    ‖Q̂ - Q‖ ≤ α ‖V̂ - V‖ + O(√(log n / n · G(α, δ)))      of Q = Q^(i+1)_t and V = max Q^i_(t+1)

for every V̂ = max_a Q̂(·, a) with Q̂ in the class F of the oracle. Here D is what random play visits at time t. F and G are
measured as the 1 - δ quantile of error · n / log n over repetitions. Where they do not grow with n, the assumption holds
with them. Where they grow in proportion to n, an error remains however large n is. α is the largest ‖Q̂ - Q‖ / ‖V̂ - V‖ without
sampling noise.

Theorem A.4 concludes the assumption from two properties of F, which are measured as well: it is k-realizable if it contains all
Q^1_t..Q^k_t (Definition A.2), and closed under QVI if QVI(Q̂) is in F for every Q̂ in F (Definition A.3). A function is in F if
the oracle, given its exact values, returns it. For an oracle that does not minimise its error (a network), a remaining
error is only an upper bound on the distance to F.

All errors are divided by the range of returns, as the paper's returns are in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sqirl.algorithms.oracles import QFunction, Regress, checked
from sqirl.analysis.q_tables import QTables, q_tables
from sqirl.errors import SqirlError
from sqirl.mdp.tabular import END, TabularMDP
from sqirl.play.players import state_observations

#: A function counts as a member of the class if the oracle meets it up to this share of the range of returns.
EXACT = 1e-6
#: Samples that stand for the whole distribution where an oracle is given exact values.
POPULATION = 20_000
#: At most so many times of an episode are looked at, evenly spread.
TIMES = 5


@dataclass(frozen=True)
class WorstFit:
    """The largest error that remains if the oracle is given exact values: of any value, and of the mean square under D."""

    largest: float
    rms: float
    what: str  # the function with the largest error

    @property
    def is_exact(self) -> bool:
        return self.largest <= EXACT


@dataclass(frozen=True)
class SampledError:
    """The errors of n samples: 1 - δ quantiles, the largest over times and functions."""

    samples: int
    regression: float  # E_D[(Q̂ - Q^1_t)²]
    F: float  # regression · n / log n
    iteration: float  # ‖Q̂ - Q^(i+1)_t‖ - α ‖V̂ - V‖, at least 0
    G: float  # iteration² · n / log n


@dataclass(frozen=True)
class OracleReport:
    """What was measured of Assumption 3.5 for one MDP and one oracle."""

    k: int
    delta: float
    alpha: float  # at least 1, as the assumption has it
    measured_alpha: float
    probes: int  # members of F that `alpha` and `closed` were measured on
    realizable: WorstFit
    closed: WorstFit
    errors: tuple[SampledError, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.k}-realizable (F contains Q^1..Q^{self.k}): {_verdict(self.realizable, 'yes')}",
            f"closed under QVI: {_verdict(self.closed, f'no counterexample among {self.probes} members of F')}",
            f"α = {self.alpha:.2f}: an error in V becomes {self.measured_alpha:.2f} times as large in Q, at most, among these",
            f"        n   regression error          F   iteration error          G   (quantiles at {1 - self.delta:g})",
        ]
        lines += [
            f"{e.samples:9,}   {e.regression:16.3g}   {e.F:8.3g}   {e.iteration:15.3g}   {e.G:8.3g}"
            for e in self.errors
        ]
        return "\n".join(lines)


def measure_oracle(
    mdp: TabularMDP,
    regress: Regress,
    *,
    k: int = 2,
    samples: Sequence[int] = (100, 1000, 10_000),
    repeats: int = 10,
    probes: int = 6,
    population: int = POPULATION,
    delta: float = 0.1,
    horizon: int | None = None,
    seed: int = 0,
) -> OracleReport:
    """Assumption 3.5 of the paper for an MDP that is small enough to be written out.

    :param mdp: with Q^1..Q^k that are small enough to be stored (`sqirl.analysis.q_tables.LARGEST`)
    :param regress: the oracle; it sees what `fit_sqirl` shows it on this MDP
    :param k: the Q-functions Q^1..Q^k
    :param samples: the sizes n
    :param repeats: datasets of each size
    :param probes: members of the oracle's class for each time, half of them fitted to few samples, half to random values
    :param population: samples that stand for all of D where the oracle is given exact values
    :param delta: δ, the share of datasets that may be worse
    :param horizon: steps of an episode; the MDP's own if None
    :param seed: of all randomness
    """
    if min(samples, default=0) < 2 or repeats < 1 or probes < 1 or not 0 < delta < 1:
        raise SqirlError(
            f"samples {tuple(samples)}, repeats {repeats}, probes {probes}, delta {delta:g}: at least 2, 1, 1 and in (0, 1)"
        )
    tables = q_tables(mdp, k, horizon=horizon)
    look = _Look(mdp, tables, regress, population, np.random.default_rng(seed))
    last = int(np.flatnonzero(tables.visits.sum(axis=1) > 0)[-1])  # episodes may all be over before the horizon
    times = np.unique(np.linspace(0, last, TIMES).astype(int)).tolist()
    members = [probe for t in times[:-1] for probe in look.probes(t, probes)]
    measured = max((look.blowup(probe) for probe in members), default=0.0)
    alpha = max(1.0, measured)
    return OracleReport(
        k, delta, alpha, measured, len(members), look.realizable(times), look.closed(members),
        tuple(look.errors(n, times, members, alpha, repeats, delta) for n in samples),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Probe:
    """A member Q̂ of F at time t + 1, and what it stands for there: Q^i, from which Q^(i+1)_t is made."""

    t: int
    values: NDArray[np.float64]  # (S,) V̂ = max_a Q̂
    i: int


@dataclass(frozen=True, eq=False)
class _Look:
    """One MDP and one oracle."""

    mdp: TabularMDP
    tables: QTables
    regress: Regress
    population: int
    rng: np.random.Generator

    def realizable(self, times: Sequence[int]) -> WorstFit:
        functions = [
            (f"Q^{i + 1} at step {t}", t, self.tables.Q[i, t]) for i in range(len(self.tables.Q)) for t in times
        ]
        return self._worst_fit(functions)

    def closed(self, members: Sequence[_Probe]) -> WorstFit:
        backed = [(f"QVI of member {n}", p.t, self.tables.backed_up(p.values)) for n, p in enumerate(members, start=1)]
        return self._worst_fit(backed)

    def probes(self, t: int, count: int) -> Iterator[_Probe]:
        """Members of F at time t + 1: the oracle fitted to few samples of Q^i, and to random values."""
        low, high = self.tables.return_range
        for number in range(count):
            i = number // 2 % len(self.tables.Q[:-1]) if len(self.tables.Q) > 1 else 0
            states, actions = self._draw(t + 1, 8 * 4 ** (number % 4))
            exact = self.tables.Q[i, t + 1][states, actions]
            noise = self.rng.uniform(low, high, len(states))
            q = self._fit(states, actions, noise if number % 2 else exact + 0.3 * (noise - exact))
            yield _Probe(t, self._values(q), i)

    def blowup(self, probe: _Probe) -> float:
        """‖Q̂ - Q‖ / ‖V̂ - V‖ where the oracle is given E[r + V̂(s')] at (s, a) drawn from D; 0 if V̂ = V."""
        error = self._value_error(probe)
        if error <= EXACT:
            return 0.0
        q = self._fit_exactly(probe.t, self.tables.backed_up(probe.values))
        return self._rms(probe.t, self._table(q) - self._target(probe)) / error

    def errors(
        self, n: int, times: Sequence[int], members: Sequence[_Probe], alpha: float, repeats: int, delta: float
    ) -> SampledError:
        rate = n / math.log(n)
        regression = max(_quantile(partial(self._regression_error, n, t), repeats, delta) for t in times)
        iterations = [_quantile(partial(self._iteration_error, n, probe, alpha), repeats, delta) for probe in members]
        iteration = max(iterations, default=0.0)
        return SampledError(n, regression, regression * rate, iteration, iteration**2 * rate)

    def _regression_error(self, n: int, t: int) -> float:
        """E_D[(Q̂ - Q^1_t)²] after n returns of random play."""
        states, actions = self._draw(t, n)
        q = self._fit(states, actions, self._random_returns(t, states, actions))
        return self._rms(t, self._table(q) - self.tables.Q[0, t]) ** 2

    def _iteration_error(self, n: int, probe: _Probe, alpha: float) -> float:
        states, actions = self._draw(probe.t, n)
        rewards, successors = self._step(states, actions)
        q = self._fit(states, actions, rewards + np.append(probe.values, 0.0)[successors])
        error = self._rms(probe.t, self._table(q) - self._target(probe))
        return max(0.0, error - alpha * self._value_error(probe))

    def _target(self, probe: _Probe) -> NDArray[np.float64]:
        """Q^(i+1)_t, made from V = max Q^i_(t+1)."""
        return self.tables.backed_up(self.tables.Q[probe.i, probe.t + 1].max(axis=1))

    def _value_error(self, probe: _Probe) -> float:
        """‖V̂ - V‖ over the states that follow what random play does at time t."""
        difference = probe.values - self.tables.Q[probe.i, probe.t + 1].max(axis=1)
        weights = self.tables.visits[probe.t + 1] / self.tables.visits[probe.t].sum()
        return math.sqrt(float(weights @ difference**2)) / self.tables.scale

    def _rms(self, t: int, difference: NDArray[np.float64]) -> float:
        """√E_D of the squared differences (S, A) at time t, as a share of the range of returns."""
        weights = self.tables.visits[t] / self.tables.visits[t].sum()
        return math.sqrt(float(weights @ (difference**2).mean(axis=1))) / self.tables.scale

    def _worst_fit(self, functions: Sequence[tuple[str, int, NDArray[np.float64]]]) -> WorstFit:
        worst = WorstFit(0.0, 0.0, "")
        for what, t, exact in functions:
            difference = self._table(self._fit_exactly(t, exact)) - exact
            largest = float(np.abs(difference[self.tables.visits[t] > 0]).max()) / self.tables.scale
            if largest > worst.largest:
                worst = WorstFit(largest, self._rms(t, difference), what)
        return worst

    def _fit_exactly(self, t: int, exact: NDArray[np.float64]) -> QFunction:
        """The oracle given exact values (S, A), each (s, a) as often as D has it, and at least once."""
        states = np.flatnonzero(self.tables.visits[t] > 0)
        A = exact.shape[1]
        shares = self.tables.visits[t][states] / self.tables.visits[t].sum() / A
        counts = np.maximum(1, np.rint(self.population * shares)).astype(int)
        chosen = np.repeat(np.repeat(states, A), np.repeat(counts, A))
        actions = np.repeat(np.tile(np.arange(A), len(states)), np.repeat(counts, A))
        return self._fit(chosen, actions, exact[chosen, actions])

    def _fit(self, states: NDArray[np.int64], actions: NDArray[np.int64], targets: NDArray[np.float64]) -> QFunction:
        A, bounds = self.mdp.num_actions, self.tables.return_range
        q = self.regress(self._observations(states), actions, targets, num_actions=A, bounds=_wide(bounds, targets))
        return checked(q, A)

    def _table(self, q: QFunction) -> NDArray[np.float64]:
        """(S, A) the values of q."""
        return np.asarray(q(self._observations(np.arange(self.tables.mdp.num_states))), float)

    def _values(self, q: QFunction) -> NDArray[np.float64]:
        values: NDArray[np.float64] = self._table(q).max(axis=1)
        return values

    def _observations(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """What an oracle sees of states; those of a sticky MDP are pairs with the previous action, where A means none."""
        if not self.mdp.stickiness:
            return state_observations(self.mdp, states, states)
        state, previous = np.divmod(states, self.mdp.num_actions + 1)
        return state_observations(self.mdp, state, np.where(previous == self.mdp.num_actions, -1, previous))

    def _draw(self, t: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """n states of random play at time t, and random actions."""
        shares = self.tables.visits[t] / self.tables.visits[t].sum()
        return self.rng.choice(len(shares), n, p=shares), self.rng.integers(self.mdp.num_actions, size=n)

    def _step(
        self, states: NDArray[np.int64], actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Rewards and next states (END = -1), drawn."""
        outcomes = self.tables.outcomes
        rows = states * self.mdp.num_actions + actions
        ahead = np.concatenate([[0.0], np.cumsum(outcomes.probabilities)])
        places = np.searchsorted(ahead, ahead[outcomes.indptr[rows]] + self.rng.random(len(rows)), side="right") - 1
        places = np.clip(places, outcomes.indptr[rows], outcomes.indptr[rows + 1] - 1)
        return outcomes.rewards[places], outcomes.next_states[places].astype(np.int64)

    def _random_returns(self, t: int, states: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The reward from time t on of each (state, action), with random play after it."""
        totals, going = np.zeros(len(states)), np.arange(len(states))
        for _ in range(t, self.tables.horizon):
            rewards, successors = self._step(states, actions)
            totals[going] += rewards
            goes_on = successors != END
            going, states = going[goes_on], successors[goes_on]
            actions = self.rng.integers(self.mdp.num_actions, size=len(states))
        return totals


def linear_residual(mdp: TabularMDP, features: NDArray[np.floating]) -> float:
    """How far an MDP is from linear in features (S, A, d): 0 if rewards and next-state probabilities are linear in φ(s, a).

    The largest error of a least-squares fit to r(s, a) / (range of returns) and to every P(s' | s, a). Where it is 0, the class
    of Q(s, a) = w·φ(s, a) is k-realizable for every k and closed under QVI, whatever the probes of `measure_oracle` find.
    """
    tables = q_tables(mdp, 1)
    phi = np.asarray(features, float).reshape(-1, np.shape(features)[-1])
    if len(phi) != tables.matrix.shape[0]:
        raise SqirlError(f"features of {len(phi)} (state, action) pairs, but the MDP has {tables.matrix.shape[0]}")
    wanted = np.column_stack([tables.mdp.rewards.ravel() / tables.scale, tables.matrix.toarray()])
    weights = np.linalg.lstsq(phi, wanted, rcond=None)[0]
    return float(np.abs(phi @ weights - wanted).max())


def _verdict(fit: WorstFit, yes: str) -> str:
    if fit.is_exact:
        return f"{yes} (errors up to {fit.largest:.1e})"
    errors = f"{fit.largest:.3g} (root mean square {fit.rms:.3g})"
    return f"not met, or not found by the oracle: {fit.what} is missed by up to {errors}"


def _quantile(error: Callable[[], float], repeats: int, delta: float) -> float:
    """The 1 - δ quantile over repetitions: at most the share δ of them is larger."""
    return float(np.quantile([error() for _ in range(repeats)], 1 - delta, method="higher"))


def _wide(bounds: tuple[float, float], targets: NDArray[np.float64]) -> tuple[float, float]:
    """The range that outputs stay in: that of returns and of the targets."""
    return min(bounds[0], float(targets.min())), max(bounds[1], float(targets.max()))
