"""Expands a block of states: takes every action in every state. Runs in this process, in a worker process, or on a cluster."""

from __future__ import annotations

import pickle
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqirl.envs.game import BatchGame, Game, Outcome
from sqirl.errors import NotEnumerable
from sqirl.mdp.journal import KEY_BYTES

#: A screen of at most this many bytes is stored. Of a larger screen only a digest is stored, to compare screens.
SMALL_SCREEN = 4096
#: States with at most this many bytes are not compressed.
_SMALL_STATE = 256


@dataclass(frozen=True, eq=False)
class Block:
    """The result of expanding n states: reward and key of each of the n·A transitions, and each distinct next state."""

    rewards: NDArray[np.float64]  # (n, A)
    keys: list[bytes | None]  # n·A keys of next states, those of the first state first; None where the game is over
    states: dict[bytes, bytes]  # key -> packed state
    looks: dict[bytes, bytes]  # key -> look: the screen's bytes or their digest, see `look_of`
    seconds: float = 0.0  # of processor time


def pack(state: Any) -> bytes:
    """A state as bytes, for this process and its workers only. The first byte says whether the rest is compressed."""
    try:
        raw = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # whatever the state's own code raises
        raise NotEnumerable(
            f"a state of the env cannot be copied ({type(error).__name__}: {error}); let get_state() return what pickle can save"
        ) from error
    return b"z" + zlib.compress(raw, 1) if len(raw) > _SMALL_STATE else b"r" + raw


def unpack(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed[1:])


def key_of(game: Game) -> bytes:
    """The state key as 16 bytes. A key of another length is hashed."""
    key = game.state_key()
    return key if len(key) == KEY_BYTES else blake2b(key, digest_size=KEY_BYTES).digest()


def look_of(screen: NDArray[Any] | None) -> bytes:
    """The look of a screen: its bytes if it is small, else a digest of them. Empty if the game has no screens."""
    if screen is None:
        return b""
    raw = screen.tobytes()
    return raw if len(raw) <= SMALL_SCREEN else blake2b(raw, digest_size=KEY_BYTES).digest()


def expand(game: Game, packed_states: Sequence[bytes]) -> Block:
    """Take every action in every state of a block."""
    began = time.process_time()
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
    table = np.array(rewards).reshape(len(batch), game.num_actions)
    return Block(table, keys, states, looks, time.process_time() - began)


def expand_last(game: Game, packed_states: Sequence[bytes]) -> Block:
    """Take every action in every state of a block of the last level, for the rewards alone: where they lead does not matter."""
    began = time.process_time()
    batch = [unpack(packed) for packed in packed_states]
    if isinstance(game, BatchGame):
        rewards = game.rewards_of_all(batch)
    else:
        rewards = np.array([reward for reward, _ in take_each(game, batch)]).reshape(len(batch), game.num_actions)
    return Block(rewards, [None] * rewards.size, {}, {}, time.process_time() - began)


def step_each(game: Game, batch: Sequence[Any]) -> Iterator[Outcome]:
    """The outcome of every action in every state, one after the other. After each the game is in the state that it led to."""
    for reward, over in take_each(game, batch):
        yield Outcome(reward, None if over else key_of(game), None, None)


def take_each(game: Game, batch: Sequence[Any]) -> Iterator[tuple[float, bool]]:
    """Take every action in every state, one after the other: its reward, and whether the game is over."""
    for state in batch:
        for action in range(game.num_actions):
            game.set_state(state)
            yield game.step(action)
