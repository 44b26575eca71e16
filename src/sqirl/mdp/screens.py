"""The screens of an MDP's states: stored with it, or drawn again by playing the live game to each of them, and then kept.

Shipped MDPs hold the frames that an agent sees (grey and small for Atari), which compress to a few dozen bytes each. Screens
that an MDP lacks are one replay away: all of them take one walk over the tree of shortest paths, with a snapshot at every
fork, one step of the game for each state on the way to a new screen.
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


def frames_of(mdp: TabularMDP, view: View, *, progress: CountProgress | None = None) -> np.ndarray:
    """(N, *frame_shape) uint8: the frame of each of the MDP's distinct screens, from its file, the cache, or drawn now."""
    if mdp.screens is not None:
        kept_as_frames = mdp.screens.shape[1:] == view.frame_shape
        return mdp.screens if kept_as_frames else np.stack([view.frame_of(screen) for screen in mdp.screens])
    path = cached_frames_path(mdp)
    if path.is_file():
        return _read(path, mdp, view)
    frames = draw_screens(mdp, live_game(mdp), view.frame_of, progress=progress)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, frames=frames)
    write_atomically(path, buffer.getvalue())
    return frames


def with_frames(mdp: TabularMDP, view: View, *, progress: CountProgress | None = None) -> TabularMDP:
    """The same MDP with the frames that an agent sees in the place of screens, as the shipped ones have them."""
    return replace(mdp, screens=frames_of(mdp, view, progress=progress))


def with_screens(mdp: TabularMDP, *, progress: CountProgress | None = None) -> TabularMDP:
    """The same MDP with its screens as people see them, as BRIDGE's files have them; drawn anew if it has frames only."""
    _mapping(mdp)
    game = live_game(mdp)
    example = game.screen()
    if mdp.screens is not None and example is not None and mdp.screens.shape[1:] == example.shape:
        return mdp
    return replace(mdp, screens=draw_screens(mdp, game, np.asarray, progress=progress))


def cached_frames_path(mdp: TabularMDP) -> Path:
    """Where the frames are kept: named after the game and what distinguishes its states."""
    _mapping(mdp)
    digest = blake2b(digest_size=8)
    for array in (mdp.transitions, mdp.screen_mapping):
        digest.update(np.ascontiguousarray(array).tobytes())
    name = mdp.name.removeprefix("BRIDGE/").removesuffix("-v0").removesuffix("-Sticky").replace("/", "_") or "mdp"
    return user_folder() / "screens" / f"{name}-{digest.hexdigest()}.npz"


def draw_screens(
    mdp: TabularMDP,
    game: Game,
    frame_of: Callable[[np.ndarray], np.ndarray],
    *,
    progress: CountProgress | None = None,
) -> np.ndarray:
    """(N, …) what `frame_of` makes of each distinct screen, drawn by playing to a state that shows it."""
    mapping = _mapping(mdp)
    distinct, shown_by = np.unique(mapping, return_index=True)
    frames: np.ndarray | None = None
    for drawn, (state, screen) in enumerate(_walk(mdp, game, shown_by), start=1):
        frame = frame_of(screen)
        if frames is None:
            frames = np.empty((len(distinct), *frame.shape), frame.dtype)
        frames[mapping[state]] = frame
        if progress is not None:
            progress(drawn, len(distinct))
    assert frames is not None
    return frames


def _walk(mdp: TabularMDP, game: Game, wanted: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(state, its screen) for every wanted state, in the order of a depth-first walk over their shortest paths."""
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


def _paths(mdp: TabularMDP, wanted: np.ndarray) -> dict[int, list[tuple[int, int]]]:
    """state -> (next state, action) along the shortest paths to the wanted states."""
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


def _screen(game: Game) -> np.ndarray:
    screen = game.screen()
    if screen is None:
        raise WorkFailed(f"{game.name} has no screens to draw")
    return screen


def _mapping(mdp: TabularMDP) -> np.ndarray:
    if mdp.transitions is None or mdp.screen_mapping is None:
        raise InvalidMDP(
            f"{mdp.name or 'the MDP'} does not say which of its states look alike (no screen_mapping), so its screens cannot "
            "be drawn; build it from its game"
        )
    return mdp.screen_mapping


def _read(path: Path, mdp: TabularMDP, view: View) -> np.ndarray:
    try:
        with np.load(path) as archive:
            frames: np.ndarray = archive["frames"]
    except Exception as error:
        raise WorkFailed(f"'{path}' cannot be read ({error}); remove it, and it is drawn again") from error
    expected = (int(_mapping(mdp).max()) + 1, *view.frame_shape)
    if frames.shape != expected:
        raise WorkFailed(f"'{path}' holds {frames.shape}, not {expected}; remove it, and it is drawn again")
    return frames


@dataclass(frozen=True, eq=False)
class DrawnScreens:
    """The frames of a stored MDP, and where they are kept."""

    env_id: str
    mdp: TabularMDP
    frames: np.ndarray  # (N, *frame_shape) uint8
    where: str
    out: Path | None  # the file with full-colour screens, if one was asked for

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
    """Draw what an agent sees in every state of a stored MDP, and keep it; with `out`, full-colour screens go there too."""
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
