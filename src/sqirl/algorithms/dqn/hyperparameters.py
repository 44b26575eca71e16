"""The paper's hyperparameters of DQN (appendix C), under the names of Stable-Baselines3's arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DQNHyperparameters:
    """All but the steps over which ε decays, which are an option, and the discount, which the suite sets."""

    learning_starts: int = 0
    buffer_size: int = 100_000
    target_update_interval: int = 8_000  # env steps
    exploration_final_eps: float = 0.01
    batch_size: int = 32
    train_freq: int = 1
    learning_rate: float = 1e-4
    max_grad_norm: float = 10.0  # the default of Stable-Baselines3


#: As printed in the paper. With eight environments.
PAPER = DQNHyperparameters()
#: As the authors' code has it: with one environment, and a gradient step after four steps.
AUTHORS_CODE = DQNHyperparameters(target_update_interval=1_000, train_freq=4)
#: Ours: eight environments, and the interval of the authors' code, with which DQN learns far faster.
OURS = DQNHyperparameters(target_update_interval=1_000)


def gradient_steps_of(num_envs: int) -> int:
    """One gradient step for four env steps: with eight envs, two after every step of all of them."""
    return max(1, num_envs // 4)
