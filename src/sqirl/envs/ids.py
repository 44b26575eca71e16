"""Environment ids. An id names the game, the file of its MDP and its results.

BRIDGE/$ROM_$HORIZON_fs$FRAMESKIP[-Sticky]-v0                    Atari
BRIDGE/$GAME_$MODE_l$LEVEL_$HORIZON_fs$FRAMESKIP[-Sticky]-v0     Procgen, mode easy | hard | exploration
BRIDGE/MiniGrid-$NAME[-Sticky]-v0                                MiniGrid
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqirl.errors import UnknownEnv

#: Probability that a `-Sticky` env repeats the previous action instead of taking the chosen one.
STICKINESS = 0.25

#: MiniGrid ids have no horizon in them. All MiniGrid games have this one.
MINIGRID_HORIZON = 100

#: The end of the ids of full-length Atari games (`PongNoFrameskip-v4`). These are ids of Gymnasium, not of BRIDGE.
FULL_ATARI_SUFFIX = "NoFrameskip-v4"

#: The largest numbers in an id: of steps, of frames that an action lasts, and of Procgen's levels, which are 32-bit numbers.
MAX_HORIZON, MAX_FRAMESKIP, MAX_LEVEL = 10**6, 10**4, 2**31 - 2

_PROCGEN = re.compile(
    r"BRIDGE/(?P<game>[a-z]{1,40})_(?P<mode>easy|hard|exploration)_l(?P<level>\d+)_(?P<horizon>\d+)_fs(?P<fs>\d+)"
    r"(?P<sticky>-Sticky)?-v0",
    re.ASCII,
)
_ATARI = re.compile(r"BRIDGE/(?P<game>[a-z_]{1,40})_(?P<horizon>\d+)_fs(?P<fs>\d+)(?P<sticky>-Sticky)?-v0", re.ASCII)
_MINIGRID = re.compile(r"BRIDGE/MiniGrid-(?P<game>[A-Za-z0-9-]{1,80}?)(?P<sticky>-Sticky)?-v0")


@dataclass(frozen=True)
class EnvId:
    """The parts of an environment id. `str()` returns the id."""

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
        """The id without prefix, stickiness and version: the name of the MDP's file without its ending."""
        if self.suite == "minigrid":
            return f"MiniGrid-{self.game}"
        tail = f"{self.horizon}_fs{self.frameskip}"
        if self.suite == "procgen":
            return f"{self.game}_{self.mode}_l{self.level}_{tail}"
        return f"{self.game}_{tail}"

    @property
    def stickiness(self) -> float:
        return STICKINESS if self.sticky else 0.0

    @property
    def depends_on_horizon(self) -> bool:
        """Do the rewards depend on the horizon? Only in Skiing, which pays at the end of the run."""
        return self.game == "skiing"

    def deterministic(self) -> EnvId:
        """The same game without sticky actions. A build enumerates its states."""
        return replace(self, sticky=False)


def is_full_atari_id(text: str) -> bool:
    """Is the text the id of a full-length Atari game (not of one of the paper's 155 short games)?"""
    return text.endswith(FULL_ATARI_SUFFIX)


def is_bridge_id(text: str) -> bool:
    """Has the text the prefix of a BRIDGE id? It may still be a wrong id."""
    return text.startswith("BRIDGE/")


def parse_id(text: str) -> EnvId:
    """The parts of an id. Raises `UnknownEnv` if `text` does not follow the scheme of this module."""
    if match := _MINIGRID.fullmatch(text):
        return EnvId("minigrid", match["game"], MINIGRID_HORIZON, 1, bool(match["sticky"]))
    if match := _PROCGEN.fullmatch(text):
        suite, mode, level = "procgen", match["mode"], _number(text, match, "level", 0, MAX_LEVEL)
    elif match := _ATARI.fullmatch(text):
        suite, mode, level = "atari", None, None
    else:
        raise UnknownEnv(
            f"'{text}' is not an environment id; the scheme is BRIDGE/GAME_HORIZON_fsFRAMESKIP[-Sticky]-v0, "
            "BRIDGE/GAME_MODE_lLEVEL_HORIZON_fsFRAMESKIP[-Sticky]-v0 or BRIDGE/MiniGrid-NAME[-Sticky]-v0"
        )
    horizon, frameskip = _number(text, match, "horizon", 1, MAX_HORIZON), _number(text, match, "fs", 1, MAX_FRAMESKIP)
    return EnvId(suite, match["game"], horizon, frameskip, bool(match["sticky"]), mode, level)


def _number(text: str, match: re.Match[str], part: str, least: int, most: int) -> int:
    """A number in an id. One with too many digits is not even read."""
    digits = match[part]
    if len(digits) > len(str(most)) or not least <= int(digits) <= most:
        name = "frameskip" if part == "fs" else part
        raise UnknownEnv(f"'{text}': {name} {digits} is outside {least}..{most:,}")
    return int(digits)
