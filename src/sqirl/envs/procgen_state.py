"""The key of a saved Procgen state: a digest of all of it but what the next step overwrites before it reads it.

A saved state holds the last action, what it was decoded to, and the last reward. In all games `Game::step` and
`BasicAbstractGame::game_step` overwrite these before anything reads them, so states that differ in nothing else behave
equally. With whole states as keys a build has up to four times as many states. Two of these fields are read elsewhere in
some games:

- the horizontal direction of the last action, where the agent's picture depends on it;
- the last direction that was not "stay", in dodgeball, which throws that way.

They are kept there. (All reads of the fields were looked up in the machine code of procgen-mirror 0.10.7; its debug information
has their places.) The layout of a state, in numbers of 4 bytes and texts after their lengths:

    version, name, options | two random generators | about the step | entities | about the agent | a random generator | …
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b

#: Part of the provenance of an MDP: which fields the keys of its states leave out. 1 was none.
KEY_VERSION = 2
KEY_BYTES = 16

_NUMBER = struct.Struct("<i")
#: Bytes from the end of the name to the first generator's text.
_OPTIONS = 76
#: Bytes between the texts of the first two generators: a flag and the length of the second.
_BETWEEN = 8
#: The length of a generator's text: 624 numbers and a place.
_SHORTEST, _LONGEST = 5000, 7000

#: From the end of the second generator: reward, end, level complete and action; steps since the last reward, and that reward.
_ABOUT_THE_STEP = ((0, 16), (36, 44))
#: From there: the number of entities, the first of them, and the size of each.
_COUNT, _ENTITIES, _ENTITY = 64, 68, 124
#: From the end of the entities.
_LAST_DIRECTION, _ACTION, _X, _Y_AND_ROTATION = (20, 24), (24, 32), (44, 48), (48, 56)
_LAST_GENERATOR = 84

_DRAWN_BY_X = {b"climber", b"coinrun", b"jumper", b"ninja"}
_THROWS = {b"dodgeball"}


def key_of_state(state: bytes) -> bytes:
    """The key of a saved state, `KEY_BYTES` long. A state with another layout is hashed as a whole."""
    digest, view, place = blake2b(digest_size=KEY_BYTES), memoryview(state), 0
    for start, end in _overwritten(state):
        digest.update(view[place:start])
        place = end
    digest.update(view[place:])
    return digest.digest()


def _overwritten(state: bytes) -> Iterator[tuple[int, int]]:
    """Where the fields are that the next step overwrites before it reads them: (start, end), in ascending order."""
    name = state[8 : 8 + _number_at(state, 4)]
    first = 8 + len(name) + _OPTIONS
    second = first + _number_at(state, first - 4) + _BETWEEN
    step = second + _number_at(state, second - 4)
    if not (_is_generator(state, first) and _is_generator(state, second)):
        return
    agent = step + _ENTITIES + _ENTITY * _number_at(state, step + _COUNT)
    if not _is_generator(state, agent + _LAST_GENERATOR):
        return
    for start, end in _ABOUT_THE_STEP:
        yield step + start, step + end
    fields = (
        *(() if name in _THROWS else (_LAST_DIRECTION,)),
        _ACTION,
        *(() if name in _DRAWN_BY_X else (_X,)),
        _Y_AND_ROTATION,
    )
    for start, end in fields:
        yield agent + start, agent + end


def _is_generator(state: bytes, place: int) -> bool:
    """Is there the text of a random generator, after its length?"""
    return _SHORTEST <= _number_at(state, place - 4) <= _LONGEST and state[place : place + 1].isdigit()


def _number_at(state: bytes, place: int) -> int:
    """The number at a place; -1 beyond the ends."""
    return int(_NUMBER.unpack_from(state, place)[0]) if 0 <= place <= len(state) - _NUMBER.size else -1
