"""Environment ids: the interface between the game, its file and its results.

BRIDGE/$ROM_$HORIZON_fs$FRAMESKIP[-Sticky]-v0                    Atari
BRIDGE/$GAME_$MODE_l$LEVEL_$HORIZON_fs$FRAMESKIP[-Sticky]-v0     Procgen, mode easy | hard | exploration
BRIDGE/MiniGrid-$NAME[-Sticky]-v0                                MiniGrid
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqirl.errors import UnknownEnv

#: Probability that a `-Sticky` env repeats the previous action instead of the chosen one.
STICKINESS = 0.25

#: MiniGrid ids carry no horizon; all of them play this many steps.
MINIGRID_HORIZON = 100

#: How the ids of whole Atari games end (`PongNoFrameskip-v4`); they are Gymnasium's, not BRIDGE's.
FULL_ATARI_SUFFIX = "NoFrameskip-v4"

_PROCGEN = re.compile(
    r"BRIDGE/(?P<game>[a-z]+)_(?P<mode>easy|hard|exploration)_l(?P<level>\d+)_(?P<horizon>\d+)_fs(?P<fs>\d+)"
    r"(?P<sticky>-Sticky)?-v0"
)
_ATARI = re.compile(r"BRIDGE/(?P<game>[a-z_]+)_(?P<horizon>\d+)_fs(?P<fs>\d+)(?P<sticky>-Sticky)?-v0")
_MINIGRID = re.compile(r"BRIDGE/MiniGrid-(?P<game>.+?)(?P<sticky>-Sticky)?-v0")


@dataclass(frozen=True)
class EnvId:
    """The parts of an environment id; `str()` puts them back together."""

    suite: str  # "atari", "procgen" or "minigrid"
    game: str
    horizon: int
    frameskip: int = 1
    sticky: bool = False
    mode: str | None = None  # Procgen's distribution mode
    level: int | None = None  # Procgen's level seed

    def __str__(self) -> str:
        return f"BRIDGE/{self.stem}{'-Sticky' if self.sticky else ''}-v0"

    @property
    def stem(self) -> str:
        """The id without prefix, stickiness and version: names the MDP's file."""
        if self.suite == "minigrid":
            return f"MiniGrid-{self.game}"
        tail = f"{self.horizon}_fs{self.frameskip}"
        if self.suite == "procgen":
            return f"{self.game}_{self.mode}_l{self.level}_{tail}"
        return f"{self.game}_{tail}"

    @property
    def stickiness(self) -> float:
        return STICKINESS if self.sticky else 0.0

    def deterministic(self) -> EnvId:
        """The same game without sticky actions: the one whose states are enumerated."""
        return replace(self, sticky=False)


def is_full_atari_id(text: str) -> bool:
    """Does the text name a whole Atari game, as opposed to one of the paper's 155 short ones?"""
    return text.endswith(FULL_ATARI_SUFFIX)


def is_bridge_id(text: str) -> bool:
    return text.startswith("BRIDGE/")


def parse_id(text: str) -> EnvId:
    """The parts of `text`; raises `UnknownEnv` if it does not follow the scheme of this module."""
    if match := _MINIGRID.fullmatch(text):
        return EnvId("minigrid", match["game"], MINIGRID_HORIZON, 1, bool(match["sticky"]))
    if match := _PROCGEN.fullmatch(text):
        suite, mode, level = "procgen", match["mode"], int(match["level"])
    elif match := _ATARI.fullmatch(text):
        suite, mode, level = "atari", None, None
    else:
        raise UnknownEnv(
            f"'{text}' is not an environment id; the scheme is BRIDGE/GAME_HORIZON_fsFRAMESKIP[-Sticky]-v0, "
            "BRIDGE/GAME_MODE_lLEVEL_HORIZON_fsFRAMESKIP[-Sticky]-v0 or BRIDGE/MiniGrid-NAME[-Sticky]-v0"
        )
    horizon, frameskip = int(match["horizon"]), int(match["fs"])
    if horizon < 1 or frameskip < 1:
        raise UnknownEnv(f"'{text}': horizon {horizon} and frameskip {frameskip} must both be at least 1")
    return EnvId(suite, match["game"], horizon, frameskip, bool(match["sticky"]), mode, level)
