"""Greedy policies of P networks that are kept: by their actions where the observations can be listed, else by their weights.

Deep SQIRL keeps one policy for each timestep. Where the table lists its observations (`Inputs`), a policy is evaluated once, when
it is kept, and playing it reads its actions.
"""

from __future__ import annotations

from typing import Protocol

import torch as th

from sqirl.algorithms.population.batch import Learner
from sqirl.algorithms.population.inputs import Inputs
from sqirl.algorithms.population.lanes import greedy_actions
from sqirl.algorithms.population.networks import Networks


class GreedyActor(Protocol):
    """Acts by one kept policy at a time."""

    def load(self, policy: th.Tensor) -> None:
        """Act by this policy from now on."""

    def act(self, keys: th.Tensor) -> th.Tensor:
        """(P, L, K) keys → (P, L) int32 actions."""
        ...


class GreedyPolicies:
    """The current greedy policy of a population, as a tensor that can be kept, and what acts by such tensors."""

    def __init__(self, networks: Networks, learner: Learner, num_actions: int, inputs: Inputs | None) -> None:
        self.networks, self.learner, self.num_actions, self.inputs = networks, learner, num_actions, inputs

    def current(self) -> th.Tensor:
        """The policy of the weights as they are now: its actions (P, U) int32, or the weights themselves (P, n)."""
        if self.inputs is None:
            return self.learner.flat
        keys = self.inputs.keys.expand(len(self.learner.flat), -1, -1)
        return self.greedy(self.networks.outputs(keys))

    def greedy(self, outputs: th.Tensor) -> th.Tensor:
        return greedy_actions(outputs, self.learner.k, self.num_actions)

    def actor(self, rows: int) -> GreedyActor:
        """An actor that is asked for `rows` observations of each member at a time."""
        if self.inputs is None:
            return _ByWeights(self, rows)
        return _ByActions(self.inputs, members=len(self.learner.flat))


class _ByWeights:
    def __init__(self, policies: GreedyPolicies, rows: int) -> None:
        self.policies = policies
        self.networks = policies.networks.separate(rows, policies.learner.flat.clone())

    def load(self, policy: th.Tensor) -> None:
        self.networks.load(policy)

    def act(self, keys: th.Tensor) -> th.Tensor:
        return self.policies.greedy(self.networks.outputs(keys))


class _ByActions:
    def __init__(self, inputs: Inputs, members: int) -> None:
        self.inputs = inputs
        self.actions = th.zeros(members, len(inputs), dtype=th.int32, device=inputs.keys.device)

    def load(self, policy: th.Tensor) -> None:
        self.actions.copy_(policy)

    def act(self, keys: th.Tensor) -> th.Tensor:
        return self.actions.gather(1, self.inputs.places(keys))
