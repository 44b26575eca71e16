"""Atari games of the Arcade Learning Environment as restorable games, and what an agent sees of them.

The emulator runs without sticky actions of its own, because these are not part of its saved state; `GameEnv` and the
sticky view of an MDP bring them. After a restore the emulator shows a stale screen until the next act, so a snapshot
holds the screen too.

The emulator cuts a frame short that takes too long, and goes on with it in the next. That it stands in mid-frame is part
of no snapshot either, and restoring one does not change it, but the snapshot's CPU tells: it was not stopped by the end of
a frame. Of our games only Qbert is ever in mid-frame, at its very start; `AtariGame` brings the emulator there, or away
from there, before it restores.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import Any

import gymnasium as gym
import numpy as np

from sqirl.envs.game import Game
from sqirl.envs.ids import is_full_atari_id
from sqirl.envs.view import View, frames_as_channels
from sqirl.errors import MissingExtra, UnknownEnv

RANDOM_SEED, SYSTEM_RANDOM_SEED = 0, 4753849
OBSERVATION_SIZE = 84
STACKED_STEPS = 4

#: Skiing pays only at the end of the run: after the horizon so many no-op steps are played and paid with the last step.
SKIING_EXTRA_STEPS = 200
_NOOP = 0

# In a snapshot: the name of the CPU, 6 registers and 7 flags of 4 bytes each, its status
_CPU, _CPU_STATUS, _CPU_STOPPED = b"M6502Low", 13 * 4, 1

#: How many actions the minimal action set of a game has, so that a game need not be loaded to know it.
MINIMAL_ACTIONS = {
    "alien": 18, "amidar": 10, "assault": 7, "asterix": 9, "asteroids": 14, "atlantis": 4, "bank_heist": 18,
    "battle_zone": 18, "beam_rider": 9, "bowling": 6, "breakout": 4, "centipede": 18, "chopper_command": 18,
    "crazy_climber": 9, "demon_attack": 6, "enduro": 9, "fishing_derby": 18, "freeway": 3, "frostbite": 18, "gopher": 8,
    "hero": 18, "ice_hockey": 18, "kangaroo": 18, "montezuma_revenge": 18, "ms_pacman": 9, "name_this_game": 6,
    "phoenix": 8, "pong": 6, "private_eye": 18, "qbert": 6, "road_runner": 18, "seaquest": 18, "skiing": 3,
    "space_invaders": 6, "tennis": 18, "time_pilot": 10, "tutankham": 8, "video_pinball": 9, "wizard_of_wor": 10,
}  # fmt: skip

_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


class AtariGame:
    """One ROM with a frameskip, the ROM's minimal action set, and an end at the first lost life."""

    saved_by = "the emulator's snapshots"

    def __init__(self, rom: str, frameskip: int, horizon: int | None = None) -> None:
        self.name = rom
        self.frameskip = frameskip
        self.horizon = horizon  # of use to Skiing only, which is paid at the end
        self._ale = _make_ale(rom)
        self._actions = self._ale.getMinimalActionSet()
        self.num_actions = len(self._actions)
        self._ale.reset_game()
        self._start = self._ale.cloneState()
        self._starts_in_mid_frame = in_mid_frame(self._start)
        self._start_screen = self._ale.getScreenRGB()
        self._screen: np.ndarray | None = self._start_screen  # None: ask the emulator, whose screen is up to date
        self._restored: tuple[bytes, Any] = b"", None  # the state last restored, in both forms

    def reset(self) -> None:
        self._restore(self._start)
        self._screen = self._start_screen

    def step(self, action: int) -> tuple[float, bool]:
        reward, over = self._play(self._actions[action])
        if self.name == "skiing" and not over and self._steps_taken() == self.horizon:
            reward += sum(self._play(_NOOP)[0] for _ in range(SKIING_EXTRA_STEPS))
        self._screen = None
        return float(reward), over

    def _play(self, ale_action: int) -> tuple[float, bool]:
        """One agent step: the action held for `frameskip` frames; over if the game or a life is lost by then.

        A step in which a life is lost is played to its end: what the remaining frames pay (Atlantis' bonus) counts.
        """
        ale = self._ale
        lives, reward = ale.lives(), 0
        for _ in range(self.frameskip):
            reward += ale.act(ale_action)
            if ale.game_over():
                return reward, True
        return reward, ale.lives() < lives

    def _steps_taken(self) -> int:
        return round(self._ale.getEpisodeFrameNumber() / self.frameskip)

    def get_state(self) -> tuple[bytes, bytes]:
        return self._ale.cloneState().serialize(), self.screen().tobytes()

    def bare_state(self) -> tuple[bytes, None]:
        return self._ale.cloneState().serialize(), None

    def set_state(self, state: tuple[bytes, bytes | None]) -> None:
        from ale_py import ALEState

        if state[0] is not self._restored[0]:  # a build restores one state for every action
            self._restored = state[0], ALEState(state[0])
        self._restore(self._restored[1])
        if state[1] is not None:
            self._screen = np.frombuffer(state[1], np.uint8).reshape(self._start_screen.shape)

    def _restore(self, state: Any) -> None:
        """Restore such that what follows depends on the state alone, and is what follows in unbroken play."""
        if self._starts_in_mid_frame:
            if in_mid_frame(state):
                self._ale.reset_game()
            elif in_mid_frame(self._ale.cloneState()):
                self._ale.restoreState(self._start)  # where no life is lost: the emulator does not act after the end
                self._ale.act(_NOOP)
        self._ale.restoreState(state)

    def state_key(self) -> bytes:
        return blake2b(self._ale.cloneState().serialize(), digest_size=16).digest()

    def screen(self) -> np.ndarray:
        """The screen as (210, 160, 3) uint8."""
        if self._screen is None:
            self._screen = self._ale.getScreenRGB()
        return self._screen

    def render(self) -> np.ndarray:
        return self.screen()

    def fresh(self) -> Game:
        return AtariGame(self.name, self.frameskip, self.horizon)

    def reseed(self, seed: int) -> None:
        """Nothing to do: without sticky actions the emulator draws no random number."""

    def provenance(self) -> Mapping[str, Any]:
        from hashlib import sha256
        from importlib.metadata import version
        from pathlib import Path

        from ale_py import roms

        rom = Path(str(roms.get_rom_path(self.name))).read_bytes()
        seeds = {"random_seed": RANDOM_SEED, "system_random_seed": SYSTEM_RANDOM_SEED}
        return {"ale-py": version("ale-py"), "rom_sha256": sha256(rom).hexdigest(), **seeds}


def num_actions_of_rom(rom: str) -> int:
    """The size of the minimal action set of a game; a game that is not in our table is loaded and asked."""
    return MINIMAL_ACTIONS.get(rom) or len(_make_ale(rom).getMinimalActionSet())


def rom_of_full_game(name: str) -> str:
    """The ROM of a whole game by its Gymnasium id; an unknown id is an error that names a near one."""
    _import_ale()
    if name in gym.registry and "game" in gym.spec(name).kwargs:
        return str(gym.spec(name).kwargs["game"])
    names = [known for known in gym.registry if is_full_atari_id(known)]
    near = difflib.get_close_matches(name, names, n=1) or ["PongNoFrameskip-v4"]
    raise UnknownEnv(f"no Atari game '{name}'; names are like {near[0]}")


def grey_84(screen: np.ndarray) -> np.ndarray:
    """(210, 160, 3) RGB -> (84, 84) grey uint8, each pixel the mean of the area it covers."""
    grey = np.rint(screen @ _LUMINANCE)
    return np.rint(_area_weights(screen.shape[0]) @ grey @ _area_weights(screen.shape[1]).T).astype(np.uint8)


#: The last four steps' screens as (84, 84, 4) grey, the newest last; zeros before the start.
VIEW = View(
    frame_shape=(OBSERVATION_SIZE, OBSERVATION_SIZE),
    observation_shape=(OBSERVATION_SIZE, OBSERVATION_SIZE, STACKED_STEPS),
    frame_of=grey_84,
    assemble=frames_as_channels,
    stacked=STACKED_STEPS,
)


@cache
def _area_weights(size: int) -> np.ndarray:
    """(84, size): row i holds the shares of the source pixels that target pixel i covers."""
    edges = np.arange(OBSERVATION_SIZE + 1) * size / OBSERVATION_SIZE
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.clip(overlap, 0, None)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def in_mid_frame(state: Any) -> bool:
    """Whether the emulator was in the middle of a frame when it was saved: its CPU had not been told to stop."""
    data = state.serialize()
    status = data.index(_CPU) + len(_CPU) + _CPU_STATUS
    return not int.from_bytes(data[status : status + 4], "little") & _CPU_STOPPED


def _make_ale(rom: str) -> Any:
    ale_py, roms = _import_ale()
    path = roms.get_rom_path(rom)
    if path is None:
        raise UnknownEnv(f"ale-py has no ROM named '{rom}'; it has {', '.join(sorted(roms.get_all_rom_ids()))}")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", RANDOM_SEED)
    ale.setInt("system_random_seed", SYSTEM_RANDOM_SEED)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(path)
    return ale


def _import_ale() -> tuple[Any, Any]:
    """(ale_py, its ROMs); importing it registers the ids of whole games with Gymnasium."""
    try:
        import ale_py
        from ale_py import roms
    except ImportError as error:
        raise MissingExtra("The Arcade Learning Environment", "atari") from error
    gym.register_envs(ale_py)
    return ale_py, roms
