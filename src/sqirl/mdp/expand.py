"""The work of a build: what every action does in a block of states. Runs in this process, in a pool, or on a cluster."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from sqirl.envs.game import Game

#: A screen of at most this many bytes is kept as it is; of a larger one only a digest, to tell screens apart.
SMALL_SCREEN = 4096
KEY_BYTES = 16
#: States below this size are not worth compressing.
_SMALL_STATE = 256


@dataclass(frozen=True, eq=False)
class Block:
    """What came of n states: reward and key of each of the n·A transitions, and every state that they led to, once."""

    rewards: np.ndarray  # (n, A) float64
    keys: list[bytes | None]  # n·A, in order; None where the game is over
    states: dict[bytes, bytes]  # key -> packed state
    looks: dict[bytes, bytes]  # key -> its screen, or the digest of it (empty where the game has no screens)


def pack(state: Any) -> bytes:
    """A state as bytes, compressed if that pays; the first byte tells."""
    raw = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
    return b"z" + zlib.compress(raw, 1) if len(raw) > _SMALL_STATE else b"r" + raw


def unpack(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed[1:])


def key_of(game: Game) -> bytes:
    """The state key as 16 bytes, whatever the game's own keys look like."""
    key = game.state_key()
    return key if len(key) == KEY_BYTES else blake2b(key, digest_size=KEY_BYTES).digest()


def look_of(game: Game) -> bytes:
    """The screen's bytes if they are few, else a digest; empty if the game has no screens."""
    screen = game.screen()
    if screen is None:
        return b""
    raw = screen.tobytes()
    return raw if len(raw) <= SMALL_SCREEN else blake2b(raw, digest_size=KEY_BYTES).digest()


def expand(game: Game, packed_states: Sequence[bytes]) -> Block:
    """Take every action in every state of the block."""
    rewards = np.empty((len(packed_states), game.num_actions))
    keys: list[bytes | None] = []
    states: dict[bytes, bytes] = {}
    looks: dict[bytes, bytes] = {}
    for row, packed in enumerate(packed_states):
        state = unpack(packed)
        for action in range(game.num_actions):
            game.set_state(state)
            rewards[row, action], over = game.step(action)
            if over:
                keys.append(None)
                continue
            key = key_of(game)
            keys.append(key)
            if key not in states:
                states[key], looks[key] = pack(game.get_state()), look_of(game)
    return Block(rewards, keys, states, looks)
