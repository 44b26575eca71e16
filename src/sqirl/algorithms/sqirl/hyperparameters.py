"""The paper's hyperparameters of deep SQIRL (appendix C), under the names of the arguments of `SQIRL`."""

from __future__ import annotations

from dataclasses import dataclass

#: Losses below this count as this when a loss is divided by its average: a perfect fit must not blow up.
LEAST_LOSS = 1e-10


@dataclass(frozen=True)
class SQIRLHyperparameters:
    """All but k and m, which are options, and the discount, which the suite sets."""

    learning_rate: float = 1e-4
    buffer_size: int = 1_000_000
    batch_size: int = 128
    n_epochs: int = 10
    loss_smoothing: float = 0.99
    max_grad_norm: float | None = None  # gradients are scaled down to this norm
    counts_steps_played: bool = False  # an epoch has as many samples as steps were played; else m·T


PAPER = SQIRLHyperparameters()
#: What the authors' code does where it differs from the paper's text.
AUTHORS_CODE = SQIRLHyperparameters(max_grad_norm=10.0, counts_steps_played=True)
