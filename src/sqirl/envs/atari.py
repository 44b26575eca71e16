"""Atari games of the Arcade Learning Environment as games that can be saved and restored, and the view of an agent.

ALE's own sticky actions are switched off, because they are not part of its saved state. `GameEnv` and `TabularMDP.sticky` add
sticky actions. After a restore the emulator shows an old screen until the next action, so a saved state holds the screen too.

The emulator interrupts a frame that takes too long and continues it in the next call. A saved state does not record that the
emulator is in the middle of a frame, and restoring a state does not change it. But the CPU status in the saved state shows it:
the CPU was not stopped by the end of a frame. Of our games only Qbert is ever in the middle of a frame, at its start.
Before a restore, `AtariGame` brings the emulator into the middle of a frame or out of it, as the state needs.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.game import Game
from sqirl.envs.ids import EnvId, is_full_atari_id
from sqirl.envs.view import View, frames_as_channels
from sqirl.errors import MissingExtra, UnknownEnv

RANDOM_SEED, SYSTEM_RANDOM_SEED = 0, 4753849
OBSERVATION_SIZE = 84
STACKED_STEPS = 4

#: Skiing gives its reward only at the end of the run. After the horizon this many no-op steps are played, and their reward is
#: added to that of the last step.
SKIING_EXTRA_STEPS = 200
_NOOP = 0

# In a saved state: the name of the CPU, then 6 registers and 7 flags of 4 bytes each, then its status
_CPU, _CPU_STATUS, _CPU_STOPPED = b"M6502Low", 13 * 4, 1

#: The size of each game's minimal action set. With this table the emulator need not be loaded.
MINIMAL_ACTIONS = {
    "alien": 18, "amidar": 10, "assault": 7, "asterix": 9, "asteroids": 14, "atlantis": 4, "bank_heist": 18,
    "battle_zone": 18, "beam_rider": 9, "bowling": 6, "breakout": 4, "centipede": 18, "chopper_command": 18,
    "crazy_climber": 9, "demon_attack": 6, "enduro": 9, "fishing_derby": 18, "freeway": 3, "frostbite": 18, "gopher": 8,
    "hero": 18, "ice_hockey": 18, "kangaroo": 18, "montezuma_revenge": 18, "ms_pacman": 9, "name_this_game": 6,
    "phoenix": 8, "pong": 6, "private_eye": 18, "qbert": 6, "road_runner": 18, "seaquest": 18, "skiing": 3,
    "space_invaders": 6, "tennis": 18, "time_pilot": 10, "tutankham": 8, "video_pinball": 9, "wizard_of_wor": 10,
}  # fmt: skip

_LUMINANCE = np.array([299, 587, 114], np.float32)  # thousandths of red, green and blue


class AtariGame:
    """One ROM with a frameskip and the ROM's minimal action set. The game is over at the first lost life.

    :param rom: the name of the ROM in ale-py, such as "pong"
    :param frameskip: frames for which an action is held
    :param horizon: the step after which Skiing gives its final reward; other games do not use it
    """

    saved_by = "the emulator's snapshots"

    def __init__(self, rom: str, frameskip: int, horizon: int | None = None) -> None:
        self.name = rom
        self.frameskip = frameskip
        self.horizon = horizon
        self._ale = _make_ale(rom)
        self._actions = self._ale.getMinimalActionSet()
        self.num_actions = len(self._actions)
        self._ale.reset_game()
        self._start = self._ale.cloneState()
        self._starts_in_mid_frame = in_mid_frame(self._start)
        self._start_screen = self._ale.getScreenRGB()
        self._screen: NDArray[np.uint8] | None = self._start_screen  # None: the emulator's screen is up to date
        self._restored: tuple[bytes, Any] = b"", None  # the last restored state as bytes and as an ALEState

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
        """One agent step: the action is held for `frameskip` frames. Returns the reward, and whether the game or a life is lost.

        A step in which a life is lost is played to its last frame, and the rewards of these frames count (Atlantis pays a bonus).
        """
        ale = self._ale
        lives, reward = int(ale.lives()), 0.0
        for _ in range(self.frameskip):
            reward += ale.act(ale_action)
            if ale.game_over():
                return reward, True
        return reward, int(ale.lives()) < lives

    def _steps_taken(self) -> int:
        return round(int(self._ale.getEpisodeFrameNumber()) / self.frameskip)

    def get_state(self) -> tuple[bytes, bytes]:
        return self._ale.cloneState().serialize(), self.screen().tobytes()

    def bare_state(self) -> tuple[bytes, None]:
        return self._ale.cloneState().serialize(), None

    def set_state(self, state: tuple[bytes, bytes | None]) -> None:
        from ale_py import ALEState

        if state[0] is not self._restored[0]:  # a build restores the same state for every action
            self._restored = state[0], ALEState(state[0])
        self._restore(self._restored[1])
        if state[1] is not None:
            self._screen = np.frombuffer(state[1], np.uint8).reshape(self._start_screen.shape)

    def _restore(self, state: Any) -> None:
        """Restore a state such that the next steps are the same as in a game that was never restored."""
        if self._starts_in_mid_frame:
            if in_mid_frame(state):
                self._ale.reset_game()
            elif in_mid_frame(self._ale.cloneState()):
                self._ale.restoreState(self._start)  # the emulator ignores actions after a game over
                self._ale.act(_NOOP)
        self._ale.restoreState(state)

    def state_key(self) -> bytes:
        return blake2b(self._ale.cloneState().serialize(), digest_size=16).digest()

    def screen(self) -> NDArray[np.uint8]:
        """The screen as (210, 160, 3) uint8."""
        screen: NDArray[np.uint8] = self._ale.getScreenRGB() if self._screen is None else self._screen
        self._screen = screen
        return screen

    def render(self) -> NDArray[np.uint8]:
        return self.screen()

    def fresh(self) -> Game:
        return AtariGame(self.name, self.frameskip, self.horizon)

    def reseed(self, seed: int) -> None:
        """Does nothing: without sticky actions the emulator draws no random numbers."""

    def provenance(self) -> Mapping[str, Any]:
        from hashlib import sha256
        from importlib.metadata import version
        from pathlib import Path

        from ale_py import roms

        rom = Path(str(roms.get_rom_path(self.name))).read_bytes()
        seeds = {"random_seed": RANDOM_SEED, "system_random_seed": SYSTEM_RANDOM_SEED}
        return {"ale-py": version("ale-py"), "rom_sha256": sha256(rom).hexdigest(), **seeds}


def make_game(env_id: EnvId) -> AtariGame:
    """The live game of an id."""
    return AtariGame(env_id.game, env_id.frameskip, env_id.horizon)


def view_of(screen_shape: tuple[int, ...]) -> View:
    """The view of all games: their screens have one shape."""
    return VIEW


def num_actions_of(env_id: EnvId) -> int:
    """The number of actions in the game of an id."""
    return num_actions_of_rom(env_id.game)


def num_actions_of_rom(rom: str) -> int:
    """The size of the minimal action set of a game. A game that is not in `MINIMAL_ACTIONS` is loaded."""
    return MINIMAL_ACTIONS.get(rom) or len(_make_ale(rom).getMinimalActionSet())


def rom_of_full_length(name: str) -> str:
    """The ROM of a full-length game from its Gymnasium id. The error for an unknown id names a similar one."""
    _import_ale()
    if name in gym.registry and "game" in gym.spec(name).kwargs:
        return str(gym.spec(name).kwargs["game"])
    names = [known for known in gym.registry if is_full_atari_id(known)]
    near = difflib.get_close_matches(name, names, n=1) or ["PongNoFrameskip-v4"]
    raise UnknownEnv(f"no Atari game '{name}'; names are like {near[0]}")


def grey_84(screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(210, 160, 3) RGB → (84, 84) grey. Each pixel is the mean of the area that it covers.

    The sums are of whole numbers below 2^24, which float32 holds exactly. So the result is the same on every processor. The
    products are small ones, for which BLAS starts no threads.
    """
    grey = np.rint(screen @ _LUMINANCE / np.float32(1000))  # (210, 160) float32
    rows, columns = (_area_weights(size) for size in screen.shape[:2])
    short = rows @ grey.reshape(-1, rows.shape[1], grey.shape[1])  # (blocks, rows of a block, 160)
    small = short.reshape(OBSERVATION_SIZE, -1, columns.shape[1]) @ columns.T  # (84, blocks, columns of a block)
    area = rows[0].sum() * columns[0].sum()
    return np.asarray(np.rint(small.reshape(OBSERVATION_SIZE, OBSERVATION_SIZE) / area), np.uint8)


#: The screens of the last four steps as (84, 84, 4) grey, the newest last. Frames before the start are zero.
VIEW = View(
    frame_shape=(OBSERVATION_SIZE, OBSERVATION_SIZE),
    observation_shape=(OBSERVATION_SIZE, OBSERVATION_SIZE, STACKED_STEPS),
    frame_of=grey_84,
    assemble=frames_as_channels,
    stacked=STACKED_STEPS,
)


@cache
def _area_weights(size: int) -> NDArray[np.float32]:
    """How much of each source pixel is in each target pixel, in whole parts of a pixel, for the first block of both.

    The pixels repeat in blocks: of 210 and 84 pixels, five source pixels are as long as two target pixels.
    """
    blocks = math.gcd(size, OBSERVATION_SIZE)
    parts, width = OBSERVATION_SIZE // blocks, size // blocks  # of a source pixel, and of a target pixel
    starts, pixels = width * np.arange(parts)[:, None], parts * np.arange(width)
    overlap = np.minimum(starts + width, pixels + parts) - np.maximum(starts, pixels)
    return np.asarray(np.clip(overlap, 0, None), np.float32)


def in_mid_frame(state: Any) -> bool:
    """Was the emulator in the middle of a frame when the state was saved? Then its CPU had not been told to stop."""
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
    """(ale_py, its module of ROMs). The import registers the ids of full-length games with Gymnasium."""
    try:
        import ale_py
        from ale_py import roms
    except ImportError as error:
        raise MissingExtra("The Arcade Learning Environment", "atari") from error
    gym.register_envs(ale_py)
    return ale_py, roms
