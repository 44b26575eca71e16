"""The paper's choices for a run where none is made: which k and m, rollout, decay of ε (appendix C)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqirl.envs.ids import FULL_ATARI_SUFFIX, is_full_atari
from sqirl.results.records import RunConfig


@dataclass(frozen=True)
class FullAtari:
    """What the paper found best for one full-length game: SQIRL's m, and GORP's k and m."""

    sqirl_m: int
    gorp_k: int
    gorp_m: int


FULL_ATARI_GAMES = {
    "BeamRider": FullAtari(10, 1, 1),
    "Breakout": FullAtari(10, 3, 1),
    "Pong": FullAtari(10, 1, 3),
    "Qbert": FullAtari(20, 1, 10),
    "Seaquest": FullAtari(10, 1, 1),
    "SpaceInvaders": FullAtari(10, 1, 3),
}


def with_presets(config: RunConfig) -> RunConfig:
    """The config with the paper's choices where none was made; both tuned values of PPO and DQN are options."""
    full = None
    if is_full_atari(config.env_id):
        game = config.env_id.removeprefix("ALE/").removesuffix(FULL_ATARI_SUFFIX)
        full = FULL_ATARI_GAMES.get(game, FullAtari(10, 1, 1))
    defaults: dict[str, Any] = {
        "sqirl": {"k": 1, "m": full.sqirl_m if full else 100},
        "gorp": {"k": full.gorp_k if full else 1, "m": full.gorp_m if full else 100},
        "ppo": {"rollout": 128},
        "dqn": {"epsilon_steps": 1_000_000 if full else 500_000},
    }[config.algorithm]
    return replace(config, **{name: value for name, value in defaults.items() if getattr(config, name) is None})
