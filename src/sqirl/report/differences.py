"""Where the paper's text, its authors' code and we differ: the one place that lists it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """One detail as the paper's text or tables have it, as the authors' code has it, and as we have it."""

    detail: str
    text: str
    code: str
    ours: str


#: `ours` is the variant "ours". The variant "paper" does what the code does.
DIFFERENCES = (
    Difference(
        "DQN: steps between two copies to the target network",
        "8,000",
        "1,000, with one env",
        '1,000, with eight envs (a third variant, "table": 8,000, with eight envs)',
    ),
    Difference("SQIRL: clipping of gradients", "none", "at norm 10", "none"),
    Difference(
        "SQIRL: samples of an iteration",
        "n·m·T",
        "n times the steps that were collected, which are fewer where episodes end early",
        "n·m·T",
    ),
    Difference(
        "MiniGrid: what the agent sees",
        "not said",
        "the codes of the cells / 255, and a clock that a cast to uint8 turns into 1, 0, 0, …",
        "one-hot cells, and a clock that works",
    ),
    Difference(
        "MiniGrid: network",
        "convolutional",
        "three convolutions, 512 features, two dense layers of 64 with ReLU",
        "two convolutions, 256 features, linear on them",
    ),
    Difference(
        "MiniGrid: the end of an episode at the horizon",
        "the horizon is finite",
        "a truncation, at which PPO and DQN bootstrap",
        "the episode ends, and nothing bootstraps",
    ),
    Difference(
        "Full-length Atari: what follows the IMPALA blocks",
        "not said",
        "no ReLU, then two dense layers of 256 with ReLU",
        "a ReLU, 256 features with ReLU, linear on them",
    ),
)
