"""The small network behind `oracles.neural_network`."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch as th
from torch import nn

BATCH = 128


def fit_network(
    X: np.ndarray,
    actions: np.ndarray,
    targets: np.ndarray,
    *,
    num_actions: int,
    hidden: tuple[int, ...],
    epochs: int,
    learning_rate: float,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """(n, d) → (n, A) values: least squares on inputs and targets brought to mean 0 and deviation 1."""
    rng = th.Generator().manual_seed(seed)
    mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-6
    centre, scale = float(targets.mean()), float(targets.std()) or 1.0
    sizes = [X.shape[1], *hidden, num_actions]
    with th.random.fork_rng(devices=[]):
        th.manual_seed(seed)
        layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    network = nn.Sequential(*layers)
    optimizer = th.optim.Adam(network.parameters(), lr=learning_rate)
    inputs = th.as_tensor((X - mean) / deviation)
    wanted = th.as_tensor((targets - centre) / scale, dtype=th.float32)
    chosen = th.as_tensor(actions, dtype=th.int64)[:, None]
    for _ in range(epochs):
        for batch in th.randperm(len(inputs), generator=rng).split(BATCH):
            loss = (network(inputs[batch]).gather(1, chosen[batch])[:, 0] - wanted[batch]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @th.no_grad()
    def predict(X: np.ndarray) -> np.ndarray:
        values: np.ndarray = network(th.as_tensor((X - mean) / deviation)).numpy()
        return values.astype(float) * scale + centre

    return predict
