"""The paper's hyperparameters of PPO (appendix C), under the names of Stable-Baselines3's arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PPOHyperparameters:
    """All but the length of a rollout, which is an option, and the discount, which the suite sets."""

    batch_size: int = 256
    n_epochs: int = 4
    learning_rate: float = 2.5e-4
    gae_lambda: float = 0.95
    ent_coef: float = 0.01
    clip_range: float = 0.1
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5  # the default of Stable-Baselines3


PAPER = PPOHyperparameters()
