"""The policy of GORP for Stable-Baselines3: a sequence of actions that does not depend on observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.type_aliases import Schedule

from sqirl.algorithms.timed_policy import TimedPolicy
from sqirl.evaluation.exact import Nodes
from sqirl.evaluation.returns import TablePolicy


class SequencePolicy(TimedPolicy):
    """A fixed sequence of actions, and uniformly random ones after it."""

    def __init__(self, observation_space: Any, action_space: Any, lr_schedule: Schedule | None = None) -> None:
        super().__init__(observation_space, action_space)
        self.num_actions = int(action_space.n)
        self.register_buffer("actions", th.empty(0, dtype=th.int64))
        self.rng = np.random.default_rng(0)

    def act(self, t: NDArray[np.integer], observations: th.Tensor) -> NDArray[np.integer]:
        known = self.actions.cpu().numpy()
        random = self.rng.integers(self.num_actions, size=len(t))
        return np.where(t < len(known), np.append(known, 0)[np.minimum(t, len(known))], random)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        self.actions = state_dict[f"{prefix}actions"].clone()  # its length is that of the saved one
        super()._load_from_state_dict(state_dict, prefix, *args)


def table_policy_of(policy: SequencePolicy) -> TablePolicy:
    """The policy on a table; in the exact return the random actions after the sequence are an expectation too."""

    def act(t: NDArray[np.integer], keys: NDArray[np.int32]) -> NDArray[np.integer]:
        return policy.act(t, th.empty(len(t)))

    def choose(t: int, nodes: Nodes) -> NDArray[np.integer] | NDArray[np.floating]:
        n, A = len(nodes.states), policy.num_actions
        if t >= len(policy.actions):
            return np.full((n, A), 1 / A)
        return act(np.full(n, t), nodes.keys)

    return TablePolicy(act, choose, observes=False)
