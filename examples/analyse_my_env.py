"""Analyse an environment of your own: will deep RL solve it, and what makes it hard?

    python examples/analyse_my_env.py

The environment below is an ordinary Gymnasium env with `Discrete` actions and deterministic steps. `get_state` and `set_state`
are optional: without them sqirl copies the whole env. The same from the command line:

    sqirl check examples/analyse_my_env.py:TwoDoors
    sqirl analyze examples/analyse_my_env.py:TwoDoors --horizon 12
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

import sqirl
from sqirl.envs.check import check_env

HORIZON = 12


class TwoDoors(gym.Env[Any, Any]):
    """A corridor with a near door on the left, which pays 0.5, and a far door on the right, which pays 1."""

    action_space = gym.spaces.Discrete(2)  # 0: one cell to the left, 1: one cell to the right

    def __init__(self, length: int = 9, start: int = 2) -> None:
        self.length, self.start = length, start
        self.observation_space = gym.spaces.Discrete(length)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = self.start
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.cell += 1 if action == 1 else -1
        reward = {0: 0.5, self.length - 1: 1.0}.get(self.cell, 0.0)
        return self.cell, reward, reward > 0, False, {}

    def get_state(self) -> int:
        return self.cell

    def set_state(self, state: int) -> None:
        self.cell = state


def main() -> None:
    env = TwoDoors()
    report = check_env(env, horizon=HORIZON)  # can it be saved, restored and enumerated?
    print(report)

    mdp = sqirl.build_mdp(env, horizon=HORIZON)  # every state that can be reached, as arrays
    print(f"\n{mdp.num_states} states, {mdp.num_actions} actions\n")

    analysis = sqirl.analyze(mdp)
    print(analysis)

    print()
    if analysis.min_k is None:
        print(f"No k up to {analysis.searched_k} is enough: random exploration does not solve this environment.")
    elif analysis.min_k == 1:
        print("Acting greedily on the random policy's Q-function is optimal: random exploration is enough.")
    else:
        print(
            f"It takes {analysis.min_k - 1} steps of Q-iteration on the random policy's Q-function: use k = {analysis.min_k}."
        )
    print(f"Effective horizon {analysis.effective_horizon:.1f} of {analysis.horizon} steps.")

    sticky = sqirl.analyze(mdp.sticky(0.25))  # the same with sticky actions; nothing is built again
    print(f"With sticky actions: min k {sticky.min_k}, effective horizon {sticky.effective_horizon:.1f}.")


if __name__ == "__main__":
    main()
