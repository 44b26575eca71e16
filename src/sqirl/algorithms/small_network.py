"""The small network behind `oracles.neural_network`."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn

BATCH = 128


def fit_network(
    X: NDArray[np.float32],
    actions: NDArray[np.integer],
    targets: NDArray[np.float64],
    *,
    num_actions: int,
    hidden: tuple[int, ...],
    epochs: int,
    learning_rate: float,
    seed: int,
) -> Callable[[NDArray[np.float32]], NDArray[np.float64]]:
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
        for batch in th.split(th.randperm(len(inputs), generator=rng), BATCH):
            loss = (network(inputs[batch]).gather(1, chosen[batch])[:, 0] - wanted[batch]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @th.no_grad()
    def predict(X: NDArray[np.float32]) -> NDArray[np.float64]:
        values: NDArray[np.float32] = network(th.as_tensor((X - mean) / deviation)).numpy()
        return values.astype(float) * scale + centre

    return predict
