"""A linear MDP: what a regression oracle that knows its features gains, and the paper's assumption on oracles, measured.

    python examples/linear_mdp.py

In a linear MDP, rewards and next-state probabilities are linear in features φ(s, a) of few dimensions. All Q-functions are then
linear too, so a regression on φ needs far fewer episodes than a table with an entry for every state and action.
"""

from __future__ import annotations

import numpy as np

import sqirl
from sqirl.algorithms.oracle_assumption import linear_residual, measure_oracle
from sqirl.algorithms.oracles import linear_state_action, neural_network, tabular_average

STATES, ACTIONS, DIMENSION, HORIZON = 60, 3, 4, 5
EPISODES = 60


def linear_mdp(seed: int = 0) -> tuple[sqirl.TabularMDP, np.ndarray]:
    """An MDP with P(s' | s, a) = Σ_j φ_j(s, a) μ_j(s') and r(s, a) = φ(s, a)·θ, and its features (S, A, d)."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(DIMENSION, 0.3), size=(STATES, ACTIONS))  # non-negative, with sum 1
    mu = rng.dirichlet(np.full(STATES, 0.2), size=DIMENSION)  # (d, S): a distribution over next states for each feature
    theta = np.array([0.0, 0.0, 0.0, 1.0])
    matrices = np.moveaxis(phi @ mu, 1, 0)  # (A, S, S)
    mdp = sqirl.TabularMDP.from_matrices(matrices, phi @ theta, start=mu[0], horizon=HORIZON, name="linear MDP")
    return mdp, phi


def main() -> None:
    mdp, phi = linear_mdp()
    analysis = sqirl.analyze(mdp)
    print(f"{STATES} states, {ACTIONS} actions, d = {DIMENSION}; distance from linear {linear_residual(mdp, phi):.0e}")
    print(f"optimal return {analysis.optimal_return:.3f}, random play {analysis.random_return:.3f}\n")

    oracles = {
        "tabular": tabular_average,
        "linear": linear_state_action(lambda states, actions: phi[states, actions]),
        "network": neural_network(epochs=10),
    }
    gain = analysis.optimal_return - analysis.random_return
    for name, oracle in oracles.items():
        if name != "network":
            returns = [sqirl.fit_sqirl(mdp, k=1, m=EPISODES, regress=oracle, seed=s).true_return(mdp) for s in range(5)]
            share = (np.mean(returns) - analysis.random_return) / gain
            print(f"SQIRL with the {name} oracle and {EPISODES} episodes an iteration: {100 * share:.0f} % of the way")
    for name, oracle in oracles.items():
        fewer = {"samples": (100,), "repeats": 2, "probes": 1, "population": 1000} if name == "network" else {}
        print(f"\n{name} oracle:\n{measure_oracle(mdp, oracle, k=2, **fewer)}")


if __name__ == "__main__":
    main()
