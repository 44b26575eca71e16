"""MiniGrid levels as games that can be saved and restored, and the view of an agent.

MiniGrid compares objects by identity (`carrying == self.obj`). So a saved state does not copy the objects of the level. It
records where each object is and whether each door is open or locked. A state has a few dozen bytes, and it is restored in a few
microseconds. `MiniGridEnv.hash()` cannot be the state key, because it ignores what the agent carries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sqirl.envs.catalogue import near_matches
from sqirl.envs.game import Game
from sqirl.envs.ids import EnvId
from sqirl.envs.view import View, with_time_plane, with_truncated_time_plane
from sqirl.errors import MissingExtra, UnknownEnv

#: The seed of every level.
SEED = 0

#: Empty rooms have nothing to pick up or toggle, so they use the first three actions. Other levels use all but `done`.
NAVIGATION_ACTIONS, ALL_ACTIONS = 3, 6

# The place of an object is the index of its cell, or one of these
_ABSENT, _CARRIED = 0xFFFF, 0xFFFE
_PICTURE_TILE = 16

# MiniGrid's codes of an empty cell and of the (red) agent without its direction
_EMPTY_CODE, _AGENT_CODE = (1, 0, 0), (10, 0)


class MiniGridGame:
    """One level of a MiniGrid env as a deterministic game: reward 1 at the goal, no step limit.

    :param name: the name in MiniGrid's id, such as "DoorKey-5x5"
    """

    saved_by = "the game's snapshots"

    def __init__(self, name: str) -> None:
        self.name = name
        self.num_actions = _num_actions(name)
        self._env = _make_minigrid(name)
        # MiniGrid's partial observation takes ten times as long as the step, and it is not used: screen() shows the whole grid
        self._env.gen_obs = lambda: {}
        self._env.reset(seed=SEED)
        self._record_objects()
        self._start = self.get_state()

    def _record_objects(self) -> None:
        """Split the level into the cells that never change and the objects that do: doors, keys, balls and boxes."""
        cells = self._env.grid.grid
        movable = [obj for cell in cells for obj in _with_contents(cell) if obj.can_pickup()]
        self._objects = movable
        self._doors = [cell for cell in cells if cell is not None and cell.type == "door"]
        ids = {id(obj) for obj in movable}
        self._backdrop = [None if id(cell) in ids else cell for cell in cells]
        self._env.grid.grid = self._backdrop
        self._backdrop_codes: NDArray[np.uint8] = self._env.grid.encode()  # (width, height, 3)
        self._env.grid.grid = cells

    def reset(self) -> None:
        self.set_state(self._start)

    def step(self, action: int) -> tuple[float, bool]:
        env = self._env
        env.step_count = 0  # switches off MiniGrid's time limit and its time-dependent reward
        _, reward, over, _, _ = env.step(action)
        return (1.0 if reward > 0 else 0.0), bool(over)

    def get_state(self) -> bytes:
        """The state as bytes: the agent's x, y and direction, each door's state, and each object's place (16 bits)."""
        env = self._env
        cells = env.grid.grid
        place = {id(obj): _ABSENT for obj in self._objects}
        for index, cell in enumerate(cells):
            if cell is not self._backdrop[index]:
                place[id(cell)] = index
        if env.carrying is not None:
            place[id(env.carrying)] = _CARRIED
        small = [int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir)]
        small += [2 * door.is_locked + door.is_open for door in self._doors]
        return bytes(small) + np.array([place[id(obj)] for obj in self._objects], dtype="<u2").tobytes()

    def set_state(self, state: bytes) -> None:
        env, num_small = self._env, 3 + len(self._doors)
        env.agent_pos, env.agent_dir = (state[0], state[1]), state[2]
        for door, code in zip(self._doors, state[3:num_small], strict=True):
            door.is_locked, door.is_open = bool(code & 2), bool(code & 1)
        cells, env.carrying = self._backdrop.copy(), None
        for obj, where in zip(self._objects, np.frombuffer(state, "<u2", offset=num_small).tolist(), strict=True):
            if where == _CARRIED:
                env.carrying = obj
            elif where != _ABSENT:
                cells[where] = obj
        env.grid.grid = cells

    def bare_state(self) -> bytes:
        return self.get_state()

    def state_key(self) -> bytes:
        return self.get_state()

    def screen(self) -> NDArray[np.uint8]:
        """The whole grid as (width, height, 3) uint8: object, colour and state of every cell, with the agent."""
        env = self._env
        grid = self._backdrop_codes.copy()
        for index, cell in enumerate(env.grid.grid):
            if cell is not self._backdrop[index] or (cell is not None and cell.type == "door"):
                grid[index % env.width, index // env.width] = cell.encode() if cell is not None else _EMPTY_CODE
        grid[env.agent_pos[0], env.agent_pos[1]] = (*_AGENT_CODE, env.agent_dir)
        return grid

    def render(self) -> NDArray[np.uint8]:
        env = self._env
        picture: NDArray[np.uint8] = env.grid.render(_PICTURE_TILE, env.agent_pos, env.agent_dir)
        return picture

    def fresh(self) -> Game:
        return MiniGridGame(self.name)

    def reseed(self, seed: int) -> None:
        self._env.np_random = np.random.default_rng(seed)

    def provenance(self) -> Mapping[str, Any]:
        from importlib.metadata import version

        return {"minigrid": version("minigrid"), "seed": SEED}


def make_game(env_id: EnvId) -> MiniGridGame:
    """The live game of an id."""
    return MiniGridGame(env_id.game)


def num_actions_of(env_id: EnvId) -> int:
    """The number of actions in the game of an id."""
    return _num_actions(env_id.game)


def _num_actions(name: str) -> int:
    return NAVIGATION_ACTIONS if name.startswith("Empty") else ALL_ACTIONS


def view_of(shape: tuple[int, ...]) -> View:
    """Grids of `shape` (width, height, 3) and a fourth plane with the remaining time, from 255 down to 0."""
    return View(shape, (*shape[:2], 4), frame_of=np.asarray, assemble=with_time_plane, uses_clock=True)


def paper_view_of(shape: tuple[int, ...]) -> View:
    """The view of the variant PAPER: as `view_of`, but the fourth plane is 1 at the start and 0 at all later steps."""
    return replace(view_of(shape), assemble=with_truncated_time_plane)


def _with_contents(cell: Any) -> Iterator[Any]:
    """The object of a cell, the object in it if it is a box, and so on."""
    while cell is not None:
        yield cell
        cell = cell.contains


def _make_minigrid(name: str) -> Any:
    try:
        import minigrid  # noqa: F401 (registers its envs)
    except ImportError as error:
        raise MissingExtra("MiniGrid", "minigrid") from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*out of date")  # the paper uses this version
            return gym.make(f"MiniGrid-{name}-v0", disable_env_checker=True).unwrapped
    except gym.error.Error as error:
        raise UnknownEnv(f"MiniGrid has no env named '{name}'{near_matches(f'MiniGrid-{name}')}") from error
