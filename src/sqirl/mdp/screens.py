"""The screens of an MDP's states. They are stored with the MDP, or drawn by playing the live game and then cached.

The MDPs of the package contain the frames that an agent sees (small and grey for Atari). A frame compresses to a few dozen bytes.
To draw missing screens, the game is played along the tree of shortest paths. The state is saved where paths branch, so each
transition of the tree is played once.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.description import describe
from sqirl.envs.game import Game
from sqirl.envs.view import View
from sqirl.errors import InvalidMDP, SqirlError, WorkFailed
from sqirl.mdp.reach import breadth_first_tree
from sqirl.mdp.store import stored_mdp, user_folder
from sqirl.mdp.tabular import TabularMDP
from sqirl.mdp.trace import live_game
from sqirl.runtime.files import check_writable, write_atomically
from sqirl.runtime.progress import CountProgress

#: To be changed when screens give other frames than before, so that cached frames are drawn again.
FRAMES = b"2"


def frames_of(mdp: TabularMDP, view: View, *, progress: CountProgress | None = None) -> NDArray[np.uint8]:
    """(N, *frame_shape): the frame of each distinct screen of the MDP, from the MDP itself, from the cache, or drawn now.

    :param view: makes the frame of a screen
    :param progress: called with the number of drawn screens and of all screens
    """
    if mdp.screens is not None:
        are_frames = mdp.screens.shape[1:] == view.frame_shape
        return mdp.screens if are_frames else np.stack([view.frame_of(screen) for screen in mdp.screens])
    path = cached_frames_path(mdp)
    if path.is_file():
        return _read(path, mdp, view)
    frames = draw_screens(mdp, live_game(mdp), view.frame_of, progress=progress)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, frames=frames)
    write_atomically(path, buffer.getvalue())
    return frames


def with_frames(mdp: TabularMDP, view: View, *, progress: CountProgress | None = None) -> TabularMDP:
    """The same MDP with an agent's frames as its screens, as in the MDPs of the package."""
    return replace(mdp, screens=frames_of(mdp, view, progress=progress))


def with_screens(mdp: TabularMDP, *, progress: CountProgress | None = None) -> TabularMDP:
    """The same MDP with the game's full screens, as in BRIDGE's files. They are drawn if the MDP has only frames."""
    _mapping(mdp)
    game = live_game(mdp)
    example = game.screen()
    if mdp.screens is not None and example is not None and mdp.screens.shape[1:] == example.shape:
        return mdp
    return replace(mdp, screens=draw_screens(mdp, game, np.asarray, progress=progress))


def cached_frames_path(mdp: TabularMDP) -> Path:
    """The file of the cached frames. Its name has the name of the game and a hash of its transitions and screen mapping."""
    _mapping(mdp)
    digest = blake2b(FRAMES, digest_size=8)
    for array in (mdp.transitions, mdp.screen_mapping):
        digest.update(np.ascontiguousarray(array).tobytes())
    name = mdp.name.removeprefix("BRIDGE/").removesuffix("-v0").removesuffix("-Sticky").replace("/", "_") or "mdp"
    return user_folder() / "screens" / f"{name}-{digest.hexdigest()}.npz"


def draw_screens(
    mdp: TabularMDP,
    game: Game,
    frame_of: Callable[[NDArray[Any]], NDArray[np.uint8]],
    *,
    progress: CountProgress | None = None,
) -> NDArray[np.uint8]:
    """(N, …): the frame of each distinct screen. For each screen the game is played to one state that shows it.

    :param game: the live game of the MDP
    :param frame_of: makes the frame of a screen
    :param progress: called with the number of drawn screens and of all screens
    """
    mapping = _mapping(mdp)
    distinct, first_states = np.unique(mapping, return_index=True)
    frames: NDArray[np.uint8] | None = None
    for drawn, (state, screen) in enumerate(_walk(mdp, game, first_states), start=1):
        frame = frame_of(screen)
        if frames is None:
            frames = np.empty((len(distinct), *frame.shape), frame.dtype)
        frames[mapping[state]] = frame
        if progress is not None:
            progress(drawn, len(distinct))
    assert frames is not None
    return frames


def _walk(mdp: TabularMDP, game: Game, wanted: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
    """(state, its screen) for every wanted state, found by a depth-first search along the shortest paths."""
    children, is_wanted = _paths(mdp, wanted), np.zeros(mdp.num_states, bool)
    is_wanted[wanted] = True
    game.reset()
    start = int(mdp.start_states[0])
    if is_wanted[start]:
        yield start, _screen(game)
    stack = [(start, game.bare_state())]
    while stack:
        state, saved = stack.pop()
        for child, action in children.get(state, ()):
            game.set_state(saved)
            game.step(action)
            if is_wanted[child]:
                yield child, _screen(game)
            if child in children:
                stack.append((child, game.bare_state()))


def _paths(mdp: TabularMDP, wanted: NDArray[np.int64]) -> dict[int, list[tuple[int, int]]]:
    """The tree of shortest paths to the wanted states: state -> (next state, action) of each branch."""
    rows = breadth_first_tree(mdp).rows
    children: dict[int, list[tuple[int, int]]] = defaultdict(list)
    seen = np.zeros(mdp.num_states, bool)
    for end in wanted.tolist():
        state = end
        while not seen[state] and rows[state] >= 0:
            seen[state] = True
            parent, action = divmod(int(rows[state]), mdp.num_actions)
            children[parent].append((state, action))
            state = parent
    return dict(children)


def _screen(game: Game) -> NDArray[Any]:
    screen = game.screen()
    if screen is None:
        raise WorkFailed(f"{game.name} has no screens to draw")
    return screen


def _mapping(mdp: TabularMDP) -> NDArray[np.integer]:
    if mdp.transitions is None or mdp.screen_mapping is None:
        raise InvalidMDP(
            f"{mdp.name or 'the MDP'} is stochastic or has no screen_mapping, so its screens cannot be drawn; "
            "build it from its game"
        )
    return mdp.screen_mapping


def _read(path: Path, mdp: TabularMDP, view: View) -> NDArray[np.uint8]:
    try:
        with np.load(path) as archive:
            frames: NDArray[np.uint8] = archive["frames"]
    except Exception as error:
        raise WorkFailed(f"'{path}' cannot be read ({error}); remove it, and the screens are drawn again") from error
    expected = (int(_mapping(mdp).max()) + 1, *view.frame_shape)
    if frames.shape != expected:
        raise WorkFailed(f"'{path}' holds {frames.shape}, not {expected}; remove it, and the screens are drawn again")
    return frames


@dataclass(frozen=True, eq=False)
class DrawnScreens:
    """The frames of a stored MDP, and the file that holds them."""

    env_id: str
    mdp: TabularMDP
    frames: NDArray[np.uint8]  # (N, *frame_shape)
    where: str
    out: Path | None  # the file with full-colour screens, if it was written

    def to_dict(self) -> dict[str, Any]:
        return {
            "env_id": self.env_id, "num_states": self.mdp.num_states, "screens": len(self.frames),
            "frame_shape": list(self.frames.shape[1:]), "bytes": self.frames.nbytes, "file": self.where,
            "out": str(self.out) if self.out else None,
        }  # fmt: skip

    def __str__(self) -> str:
        shape = "×".join(map(str, self.frames.shape[1:]))
        lines = [
            f"{self.env_id}: {len(self.frames):,} screens ({shape}) of {self.mdp.num_states:,} states -> {self.where}"
        ]
        if self.out is not None:
            lines.append(f"{self.env_id}: with full-colour screens -> {self.out}")
        return "\n".join(lines)


def draw_stored(env: str, *, out: Path | None = None, progress: CountProgress | None = None) -> DrawnScreens:
    """Draw the frames of all states of a stored MDP and cache them.

    :param env: the id of the environment
    :param out: also write an MDP file with full-colour screens here
    :param progress: called with the number of drawn screens and of all screens
    """
    description = describe(env)
    if out is not None:
        check_writable(out)
    mdp = stored_mdp(description)
    if mdp is None:
        name = description.deterministic().name
        raise SqirlError(f"the MDP of {env} is not stored; build it first: sqirl build {name}")
    frames = frames_of(mdp, description.view(), progress=progress)
    if out is not None:
        with_screens(mdp, progress=progress).save(out)
    where = "shipped with the MDP" if mdp.screens is not None else str(cached_frames_path(mdp))
    return DrawnScreens(env, mdp, frames, where, out)
