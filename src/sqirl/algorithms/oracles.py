"""Regression oracles for SQIRL: from (observation, action, target) samples to Q̂(observation) for every action.

An oracle is a function `regress(observations, actions, targets, *, num_actions, bounds)` that returns a `QFunction`. `bounds` is
the range of the returns seen so far; outputs stay in it, as the paper's oracles map to [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqirl.errors import SqirlError
from sqirl.mdp.arrays import rows_as_scalars

Observations = NDArray[Any]  # (n, …)
Actions = NDArray[np.integer]  # (n,)
Targets = NDArray[np.float64]  # (n,)
Values = NDArray[np.floating]  # (n, A)
QFunction = Callable[[Observations], Values]
Range = tuple[float, float]


class Regress(Protocol):
    def __call__(
        self, observations: Observations, actions: Actions, targets: Targets, *, num_actions: int, bounds: Range
    ) -> QFunction: ...


class Regressor(Protocol):
    """What scikit-learn calls a regressor."""

    def fit(self, X: NDArray[np.float32], y: Targets) -> Any: ...
    def predict(self, X: NDArray[np.float32]) -> NDArray[np.floating]: ...


def checked(q: QFunction, num_actions: int) -> QFunction:
    """q with a check that its outputs are finite and have shape (n, A)."""

    def values(observations: Observations) -> Values:
        found = np.asarray(q(observations))
        if found.shape != (len(observations), num_actions):
            raise SqirlError(f"the oracle gave values of shape {found.shape}, not {(len(observations), num_actions)}")
        if not np.isfinite(found).all():
            raise SqirlError("the oracle gave values that are not finite")
        return found

    return values


def tabular_average(
    observations: Observations, actions: Actions, targets: Targets, *, num_actions: int, bounds: Range
) -> QFunction:
    """The mean target of each (observation, action); the lower bound where there is none."""
    rows = rows_as_scalars(observations)
    known, places = np.unique(rows, return_inverse=True)
    cells = places.ravel() * num_actions + actions
    counts = np.bincount(cells, minlength=len(known) * num_actions)
    sums = np.bincount(cells, targets, minlength=len(known) * num_actions)
    means = np.full(len(counts) + num_actions, float(bounds[0]))  # the last row: observations never seen
    seen = counts > 0
    means[: len(counts)][seen] = sums[seen] / counts[seen]
    table = np.clip(means, *bounds).reshape(-1, num_actions)

    def q(observations: Observations) -> Values:
        wanted = rows_as_scalars(observations)
        place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
        found: Values = table[np.where(known[place] == wanted, place, len(known))]
        return found

    return q


def linear_least_squares(features: Callable[[Observations], NDArray[np.floating]], *, ridge: float = 1e-8) -> Regress:
    """Least squares on the user's features, (n, …) observations → (n, d), with weights of its own for each action."""

    def regress(
        observations: Observations, actions: Actions, targets: Targets, *, num_actions: int, bounds: Range
    ) -> QFunction:
        phi = np.asarray(features(observations), float)
        weights = np.zeros((phi.shape[1], num_actions))
        for action in range(num_actions):
            mine = phi[actions == action]
            gram = mine.T @ mine + ridge * np.eye(phi.shape[1])  # the ridge makes the solution unique
            weights[:, action] = np.linalg.solve(gram, mine.T @ targets[actions == action])
        return lambda observations: np.clip(np.asarray(features(observations), float) @ weights, *bounds)

    return regress


def linear_state_action(
    features: Callable[[Observations, Actions], NDArray[np.floating]], *, ridge: float = 1e-8
) -> Regress:
    """Least squares on features φ(s, a) of a state and an action, (n, …) and (n,) → (n, d), with one weight for each feature.

    This is the class of linear MDPs (Appendix A of the paper): Q(s, a) = w·φ(s, a).
    """

    def regress(
        observations: Observations, actions: Actions, targets: Targets, *, num_actions: int, bounds: Range
    ) -> QFunction:
        phi = np.asarray(features(observations, actions), float)
        gram = phi.T @ phi + ridge * np.eye(phi.shape[1])  # the ridge makes the solution unique
        weights = np.linalg.solve(gram, phi.T @ targets)

        def q(observations: Observations) -> Values:
            columns = [features(observations, np.full(len(observations), action)) for action in range(num_actions)]
            clipped: Values = np.clip(np.stack([phi @ weights for phi in columns], axis=1), *bounds)
            return clipped

        return q

    return regress


def regressor(make: Callable[[], Regressor]) -> Regress:
    """Any scikit-learn-style regressor, one for each action: `regressor(lambda: RandomForestRegressor(50))`."""

    def regress(
        observations: Observations, actions: Actions, targets: Targets, *, num_actions: int, bounds: Range
    ) -> QFunction:
        X = _as_features(observations)
        models: list[Regressor | None] = []
        for action in range(num_actions):
            chosen = actions == action
            model = make() if chosen.any() else None
            if model is not None:
                model.fit(X[chosen], targets[chosen])
            models.append(model)

        def q(observations: Observations) -> Values:
            X = _as_features(observations)
            columns = [np.full(len(X), bounds[0]) if model is None else model.predict(X) for model in models]
            clipped: Values = np.clip(np.stack(columns, axis=1), *bounds)
            return clipped

        return q

    return regress


def neural_network(
    *, hidden: tuple[int, ...] = (64, 64), epochs: int = 30, learning_rate: float = 3e-3, seed: int = 0
) -> Regress:
    """A small network with one output for each action, trained anew for each regression (torch is imported here)."""

    def regress(
        observations: Observations, actions: Actions, targets: Targets, *, num_actions: int, bounds: Range
    ) -> QFunction:
        from sqirl.algorithms.small_network import fit_network

        predict = fit_network(
            _as_features(observations),
            actions,
            targets,
            num_actions=num_actions,
            hidden=hidden,
            epochs=epochs,
            learning_rate=learning_rate,
            seed=seed,
        )
        return lambda observations: np.clip(predict(_as_features(observations)), *bounds)

    return regress


def _as_features(observations: Observations) -> NDArray[np.float32]:
    """(n, d) float: observations laid flat."""
    return np.asarray(observations, np.float32).reshape(len(observations), -1)
