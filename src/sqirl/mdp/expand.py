"""The work of a build: what every action does in a block of states. Runs in this process, in a pool, or on a cluster."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from sqirl.envs.game import BatchGame, Game, Outcome

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


def look_of(screen: np.ndarray | None) -> bytes:
    """The screen's bytes if they are few, else a digest; empty if there is none."""
    if screen is None:
        return b""
    raw = screen.tobytes()
    return raw if len(raw) <= SMALL_SCREEN else blake2b(raw, digest_size=KEY_BYTES).digest()


def expand(game: Game, packed_states: Sequence[bytes]) -> Block:
    """Take every action in every state of the block."""
    batch = [unpack(packed) for packed in packed_states]
    rewards: list[float] = []
    keys: list[bytes | None] = []
    states: dict[bytes, bytes] = {}
    looks: dict[bytes, bytes] = {}
    for outcome in game.step_all(batch) if isinstance(game, BatchGame) else step_each(game, batch):
        rewards.append(outcome.reward)
        keys.append(outcome.key)
        if outcome.key is not None and outcome.key not in states:
            state = game.bare_state() if outcome.state is None else outcome.state
            screen = game.screen() if outcome.screen is None else outcome.screen
            states[outcome.key], looks[outcome.key] = pack(state), look_of(screen)
    return Block(np.array(rewards).reshape(len(batch), game.num_actions), keys, states, looks)


def step_each(game: Game, batch: Sequence[Any]) -> Iterator[Outcome]:
    """One state and action after the other; the game is left where each led, for whoever wants its state and screen."""
    for state in batch:
        for action in range(game.num_actions):
            game.set_state(state)
            reward, over = game.step(action)
            yield Outcome(reward, None if over else key_of(game), None, None)
