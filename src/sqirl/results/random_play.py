"""The returns of random play in full-length Atari games, and whether a run is above them.

No analysis says what random play is worth in a full-length game, so it was measured: 100 episodes of each of the paper's
games with uniformly random actions, ten in each of ten envs (`sqirl.play.full_atari.AtariGames`, seed 0, ale-py 0.12.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqirl.envs.ids import FULL_ATARI_SUFFIX
from sqirl.envs.suites import FULL_ATARI

#: An evaluation is above random play if it exceeds its mean by more than so many standard errors.
CLEAR_ERRORS = 2.0
#: So many evaluations in a row must be above random play.
IN_A_ROW = 3


@dataclass(frozen=True)
class RandomPlay:
    """The mean and the standard deviation of the return of an episode."""

    mean: float
    deviation: float

    @property
    def clearly_above(self) -> float:
        """What the mean of an evaluation must exceed. Random play does so once in about 40 evaluations."""
        return self.mean + CLEAR_ERRORS * self.deviation / math.sqrt(FULL_ATARI.eval_episodes)


_MEASURED = {
    "BeamRider": RandomPlay(353.88, 148.56),
    "Breakout": RandomPlay(1.2, 1.223),
    "Pong": RandomPlay(-20.38, 0.814),
    "Qbert": RandomPlay(171.5, 154.32),
    "Seaquest": RandomPlay(87.4, 56.97),
    "SpaceInvaders": RandomPlay(133.25, 82.34),
}


def random_play_of(env_id: str) -> RandomPlay | None:
    """Random play in a full-length game, by its id; None if it was not measured."""
    return _MEASURED.get(env_id.removesuffix(FULL_ATARI_SUFFIX)) if env_id.endswith(FULL_ATARI_SUFFIX) else None


def is_above(means: Sequence[float], random: RandomPlay | None) -> bool | None:
    """Are the last IN_A_ROW evaluations all clearly above random play? None if there are fewer, or random play is not known."""
    if random is None or len(means) < IN_A_ROW:
        return None
    return all(mean > random.clearly_above for mean in means[-IN_A_ROW:])
