"""States of Procgen with equal keys behave equally, in all games; what a key leaves out is not too little and not too much."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from sqirl.envs.procgen import GAMES, NUM_COMBINATIONS, ProcgenGame
from sqirl.envs.procgen_state import KEY_VERSION, key_of_state


def states_of(game: ProcgenGame, num: int, rng: np.random.Generator) -> list[bytes]:
    """Saved states along random play, where each action is held for a while."""
    states: list[bytes] = []
    game.reset()
    while len(states) < num:
        action = int(rng.integers(NUM_COMBINATIONS))
        for _ in range(int(rng.integers(1, 6))):
            if game.step(action)[1]:
                game.reset()
                break
        states.append(game.get_state()[0])
    return states


@pytest.mark.parametrize("name", GAMES)
def test_states_with_equal_keys_behave_equally(name: str) -> None:
    """The same screen, and after each action the same reward, end, key and screen."""
    rng, pairs = np.random.default_rng(0), 0
    for mode in ("easy", "hard"):
        game = ProcgenGame(name, mode, 1, 1)
        by_key = defaultdict(dict)
        for parent in states_of(game, 25, rng):
            for outcome in game.step_all([(parent, None)]):
                if outcome.key is not None:
                    by_key[outcome.key][outcome.state[0]] = outcome.screen
        for alike in by_key.values():
            states, screens = list(alike)[:3], list(alike.values())
            assert all(np.array_equal(screen, screens[0]) for screen in screens[1:])
            if len(states) > 1:
                pairs += len(states) - 1
                together = game.step_all([(state, None) for state in states])
                outcomes = [together[i : i + NUM_COMBINATIONS] for i in range(0, len(together), NUM_COMBINATIONS)]
                for other in outcomes[1:]:
                    assert [(o.reward, o.key) for o in other] == [(o.reward, o.key) for o in outcomes[0]]
                    assert all(
                        a.screen is None or np.array_equal(a.screen, b.screen)
                        for a, b in zip(outcomes[0], other, strict=True)
                    )
    assert pairs >= 20, "there were pairs to compare"


@pytest.mark.parametrize("name", GAMES)
def test_a_key_leaves_out_few_bytes(name: str) -> None:
    """A changed byte changes the key, but for those of eleven fields, or of one less."""
    game = ProcgenGame(name, "easy", 1, 1)
    state, left_out = states_of(game, 1, np.random.default_rng(1))[0], 0
    key = key_of_state(state)
    for place in (*range(60), *range(13_000, 19_500), *range(19_500, len(state), 97)):
        changed = state[:place] + bytes([state[place] ^ 1]) + state[place + 1 :]
        left_out += key_of_state(changed) == key
    assert left_out == 44 if name in ("climber", "coinrun", "dodgeball", "jumper", "ninja") else left_out == 48
    assert key_of_state(state + b"\0") != key != key_of_state(state[:-1])


def test_a_state_of_another_layout_is_hashed_as_a_whole() -> None:
    for state in (b"", b"\0" * 40, bytes(range(256)) * 60):
        assert all(key_of_state(state + end) != key_of_state(state) for end in (b"\0", b"\1"))
    assert ProcgenGame("maze", "easy", 0, 1).provenance()["state_key"] == KEY_VERSION
