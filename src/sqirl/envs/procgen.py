"""Procgen levels as games that can be saved and restored, through the C interface of Procgen's native library.

The Python package `procgen` is never imported, because it needs the old `gym` and an old numpy. The native library needs neither.
The library plays many games at once, so a block of states is expanded in a few calls.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.catalogue import num_actions_of_procgen
from sqirl.envs.game import Game, Outcome
from sqirl.envs.ids import MAX_LEVEL, EnvId
from sqirl.envs.procgen_state import KEY_VERSION, key_of_state
from sqirl.envs.view import View, newest_frame
from sqirl.errors import MissingExtra, UnknownEnv

RANDOM_SEED = 0
NUM_COMBINATIONS = 15  # of keys: the library's actions; a game uses the first few
SCREEN_SHAPE = (64, 64, 3)
GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper", "leaper",
    "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip

#: Games that are stepped at once when a block of states is expanded.
BATCH = 64

_MODES = {"easy": 0, "hard": 1, "exploration": 1}
#: Exploration mode is hard mode with one fixed level of each game.
_EXPLORATION_LEVELS = {
    "coinrun": 1949448038, "caveflyer": 1259048185, "leaper": 1318677581, "jumper": 1434825276, "maze": 158988835,
    "heist": 876640971, "climber": 1561126160, "ninja": 1123500215,
}  # fmt: skip
_LARGEST_STATE = 1 << 20  # bytes


def make_game(env_id: EnvId) -> ProcgenGame:
    """The live game of an id."""
    assert env_id.mode is not None and env_id.level is not None
    return ProcgenGame(env_id.game, env_id.mode, env_id.level, env_id.frameskip, num_actions_of(env_id))


def view_of(screen_shape: tuple[int, ...]) -> View:
    """The view of all games: their screens have one shape."""
    return VIEW


def num_actions_of(env_id: EnvId) -> int:
    """The number of actions in the game of an id: what the catalogue says of the game, at other levels too."""
    return num_actions_of_procgen(env_id)


class ProcgenGame:
    """One level of one game.

    :param game: one of `GAMES`
    :param mode: "easy", "hard" or "exploration"
    :param level: the seed of the level; 0 in exploration mode
    :param frameskip: frames for which an action is held
    :param num_actions: the game uses the first `num_actions` of the library's actions
    """

    saved_by = "the library's snapshots"

    def __init__(self, game: str, mode: str, level: int, frameskip: int, num_actions: int = NUM_COMBINATIONS) -> None:
        if game not in GAMES:
            raise UnknownEnv(f"Procgen has no game '{game}'; it has {', '.join(GAMES)}")
        if mode == "exploration" and (game not in _EXPLORATION_LEVELS or level != 0):
            raise UnknownEnv(f"Procgen's exploration mode has one level (l0), of {', '.join(_EXPLORATION_LEVELS)}")
        if level > MAX_LEVEL:  # the library would take the low 32 bits for the seed, which are another level
            raise UnknownEnv(f"level {level} of {game} is above {MAX_LEVEL}, the largest that Procgen has")
        self.name = game
        self.mode, self.level, self.frameskip, self.num_actions = mode, level, frameskip, num_actions
        self._one = self._batch_of(1)
        self._many: _Batch | None = None
        self._start = self._one.get_state(0), self._one.screens[0].tobytes()
        self.reset()

    def _batch_of(self, num: int) -> _Batch:
        seed = _EXPLORATION_LEVELS[self.name] if self.mode == "exploration" else self.level
        return _Batch(num, self.name, _MODES[self.mode], seed)

    def reset(self) -> None:
        self.set_state(self._start)

    def step(self, action: int) -> tuple[float, bool]:
        rewards, overs = self._one.play(np.array([action]), self.frameskip)
        self._screen: NDArray[np.uint8] = self._one.screens[0].copy()
        return float(rewards[0]), bool(overs[0])

    def get_state(self) -> tuple[bytes, bytes]:
        return self._one.get_state(0), self._screen.tobytes()

    def bare_state(self) -> tuple[bytes, None]:
        return self._one.get_state(0), None

    def set_state(self, state: tuple[bytes, bytes | None]) -> None:
        self._one.set_state(0, state[0])
        if state[1] is not None:
            self._screen = np.frombuffer(state[1], np.uint8).reshape(SCREEN_SHAPE)

    def state_key(self) -> bytes:
        return key_of_state(self._one.get_state(0))

    def step_all(self, states: Sequence[tuple[bytes, bytes | None]]) -> list[Outcome]:
        """The outcome of every action in every state: number i·A + a is that of action a in state i."""
        outcomes = []
        for batch, rewards, overs in self._play_all(states):
            for slot, (reward, over) in enumerate(zip(rewards.tolist(), overs.tolist(), strict=True)):
                if over:
                    outcomes.append(Outcome(reward, None, None, None))
                    continue
                state = batch.get_state(slot)
                outcomes.append(Outcome(reward, key_of_state(state), (state, None), batch.screens[slot].copy()))
        return outcomes

    def rewards_of_all(self, states: Sequence[tuple[bytes, bytes | None]]) -> NDArray[np.float64]:
        """(n, A) the reward of every action in every state."""
        rewards = [rewards for _, rewards, _ in self._play_all(states)]
        return np.concatenate(rewards).reshape(len(states), self.num_actions)

    def _play_all(
        self, states: Sequence[tuple[bytes, bytes | None]]
    ) -> Iterator[tuple[_Batch, NDArray[np.float64], NDArray[np.bool_]]]:
        """Take every action in every state: the games after up to `BATCH` actions, their rewards, and whether they are over."""
        if self._many is None:
            self._many = self._batch_of(BATCH)
        pairs = [(state[0], action) for state in states for action in range(self.num_actions)]
        for first in range(0, len(pairs), BATCH):
            some = pairs[first : first + BATCH]
            for slot, (state, _) in enumerate(some):
                self._many.set_state(slot, state)
            actions = np.zeros(BATCH, np.int32)
            actions[: len(some)] = [action for _, action in some]
            rewards, overs = self._many.play(actions, self.frameskip)
            yield self._many, rewards[: len(some)], overs[: len(some)]

    def screen(self) -> NDArray[np.uint8]:
        """(64, 64, 3) RGB, as the agent sees it."""
        return self._screen

    def render(self) -> NDArray[np.uint8]:
        return self._screen

    def fresh(self) -> Game:
        return ProcgenGame(self.name, self.mode, self.level, self.frameskip, self.num_actions)

    def reseed(self, seed: int) -> None:
        """Does nothing: the game's random generator is part of its state."""

    def provenance(self) -> Mapping[str, Any]:
        from importlib.metadata import version

        build = {"procgen-mirror": version("procgen-mirror"), "libenv_sha256": library_hash()}
        return {**build, "rand_seed": RANDOM_SEED, "state_key": KEY_VERSION}


#: The newest screen, (64, 64, 3) RGB.
VIEW = View(SCREEN_SHAPE, SCREEN_SHAPE, frame_of=np.copy, assemble=newest_frame)


# The C interface ------------------------------------------------------------------------------------------------------

_NAME_LENGTH = 128
_UINT8, _INT32 = 1, 2  # codes of types in the C interface


class _Option(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * _NAME_LENGTH), ("dtype", ctypes.c_int), ("count", ctypes.c_int), ("data", ctypes.c_void_p),
    ]  # fmt: skip


class _Options(ctypes.Structure):
    _fields_ = [("items", ctypes.POINTER(_Option)), ("count", ctypes.c_int)]


class _Buffers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ob", "rew", "first", "info", "ac")]


class _Batch:
    """`num` games of one level, stepped together by the library. Each can be set to any state."""

    def __init__(self, num: int, game: str, mode: int, level: int) -> None:
        self._lib = _library()
        switches = ("center_agent", "use_backgrounds")
        off = ("use_generated_assets", "use_monochrome_assets", "restrict_themes", "paint_vel_info", "use_sequential_levels",
               "render_human")  # fmt: skip
        flags = {**dict.fromkeys(switches, True), **dict.fromkeys(off, False)}
        numbers = {
            "distribution_mode": mode,
            "num_levels": 1,
            "start_level": level,
            "num_actions": NUM_COMBINATIONS,
            "debug_mode": 0,
            "rand_seed": RANDOM_SEED,
            "num_threads": 0,
        }
        texts = {"env_name": game, "resource_root": f"{_package() / 'data' / 'assets'}/"}
        self._kept: list[Any] = []  # the library has pointers to these, so they must not be freed
        items = [self._option(name, _UINT8, 1, ctypes.c_uint8(flag)) for name, flag in flags.items()]
        items += [self._option(name, _INT32, 1, ctypes.c_int32(number)) for name, number in numbers.items()]
        items += [
            self._option(name, _UINT8, len(t), ctypes.create_string_buffer(t.encode())) for name, t in texts.items()
        ]
        array = (_Option * len(items))(*items)
        self._handle = self._lib.libenv_make(num, _Options(array, len(items)))
        self.screens = np.zeros((num, *SCREEN_SHAPE), np.uint8)
        self._rewards, self._first = np.zeros(num, np.float32), np.zeros(num, np.uint8)
        self._actions, self._info = np.zeros(num, np.int32), np.zeros((3, num), np.int32)
        pointers = [self._pointers(self.screens), self._rewards.ctypes.data, self._first.ctypes.data,
                    self._pointers(self._info.reshape(-1)), self._pointers(self._actions)]  # fmt: skip
        self._buffers = _Buffers(*pointers)
        self._lib.libenv_set_buffers(self._handle, ctypes.byref(self._buffers))
        self._lib.libenv_observe(self._handle)
        self._scratch = ctypes.create_string_buffer(_LARGEST_STATE)

    def _option(self, name: str, dtype: int, count: int, value: Any) -> _Option:
        self._kept.append(value)
        return _Option(name.encode(), dtype, count, ctypes.cast(ctypes.pointer(value), ctypes.c_void_p))

    def _pointers(self, array: NDArray[Any]) -> Any:
        """A pointer to an array of pointers to the rows of `array`."""
        table = (ctypes.c_void_p * len(array))(*(row.ctypes.data for row in array.reshape(len(array), -1)))
        self._kept += [array, table]
        return ctypes.cast(table, ctypes.c_void_p)

    def get_state(self, slot: int) -> bytes:
        length = self._lib.get_state(self._handle, slot, self._scratch, _LARGEST_STATE)
        return ctypes.string_at(self._scratch, length)

    def set_state(self, slot: int, state: bytes) -> None:
        self._lib.set_state(self._handle, slot, state, len(state))

    def play(self, actions: NDArray[np.integer], frames: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Hold the actions (num,) for `frames` frames. Returns each game's reward until its end, and whether it is over."""
        self._actions[:] = actions
        total, over = np.zeros(len(self._actions), np.float64), np.zeros(len(self._actions), bool)
        for _ in range(frames):
            self._lib.libenv_act(self._handle)
            self._lib.libenv_observe(self._handle)
            total += np.where(over, 0.0, self._rewards)
            over |= self._first.astype(bool)
            if over.all():
                break
        return total, over

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.libenv_close(self._handle)


def _package() -> Path:
    """The folder of the `procgen` package. The package is not imported."""
    spec = importlib.util.find_spec("procgen")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("Procgen", "procgen", "pip install --no-deps procgen-mirror")
    return Path(next(iter(spec.submodule_search_locations)))


def library_path() -> Path:
    return _package() / "data" / "prebuilt" / "libenv.so"


def renderer() -> str:
    """The name of the Qt library that draws the games, from the files in the wheel."""
    bundled = sorted(_package().parent.glob("procgen_mirror.libs/libQt5Gui*"))
    return (
        bundled[0].name.partition(".so.")[0].partition("-")[0] + bundled[0].name.partition(".so")[2]
        if bundled
        else "the system's Qt"
    )


@cache
def library_hash() -> str:
    """SHA-256 of the native library. Different builds of it draw some games a little differently."""
    return sha256(library_path().read_bytes()).hexdigest()


@cache
def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library_path()))
    pointer = ctypes.c_void_p
    lib.libenv_make.argtypes, lib.libenv_make.restype = [ctypes.c_int, _Options], pointer
    lib.libenv_set_buffers.argtypes = [pointer, pointer]
    for function in (lib.libenv_observe, lib.libenv_act, lib.libenv_close):
        function.argtypes = [pointer]
    lib.get_state.argtypes, lib.get_state.restype = [pointer, ctypes.c_int, ctypes.c_char_p, ctypes.c_int], ctypes.c_int
    lib.set_state.argtypes = [pointer, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
    return lib
