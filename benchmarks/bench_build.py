"""`make bench`: where a build spends its time, what a second worker brings, and Procgen many at a time against one at a time.

Everything that is compared is measured in this one run, on this one machine.
"""

from __future__ import annotations

import itertools
import time

from sqirl.envs.atari import AtariGame
from sqirl.envs.game import Game
from sqirl.envs.procgen import ProcgenGame
from sqirl.mdp.expand import expand, pack, step_each
from sqirl.mdp.frontier import FrontierExpander

ATARI = "BRIDGE/breakout_40_fs30-v0"


class TimedAtari(AtariGame):
    """Counts the seconds spent inside the emulator's own stepping."""

    seconds = 0.0

    def _play(self, ale_action: int) -> tuple[float, bool]:
        began = time.process_time()
        result = super()._play(ale_action)
        TimedAtari.seconds += time.process_time() - began
        return result


def frontier(game: Game, size: int) -> list[bytes]:
    """The first `size` states that breadth-first search meets beyond the start."""
    game.reset()
    found, queue = {game.state_key(): pack(game.get_state())}, [pack(game.get_state())]
    for packed in itertools.chain(queue):
        block = expand(game, [packed])
        new = {key: state for key, state in block.states.items() if key not in found}
        found |= new
        queue += new.values()
        if len(found) >= size:
            break
    return list(found.values())[:size]


def emulator_share(states: list[bytes]) -> float:
    game = TimedAtari("breakout", 30)
    TimedAtari.seconds, began = 0.0, time.process_time()
    expand(game, states)
    return TimedAtari.seconds / (time.process_time() - began)


def transitions_per_second(states: list[bytes], jobs: int, num_actions: int) -> float:
    workers = FrontierExpander(AtariGame("breakout", 30), ATARI, jobs=jobs)
    workers._seconds_per_state = 0.02  # known, so that the pool takes all of the work
    for _ in workers._expand_in_workers(iter(states[: 4 * jobs]), 4 * jobs):  # let the processes start
        pass
    began = time.perf_counter()
    for _ in workers._expand_in_workers(iter(states), len(states)):
        pass
    speed = len(states) * num_actions / (time.perf_counter() - began)
    workers.close()
    return speed


def procgen() -> tuple[float, float]:
    """Transitions per second of maze, many at a time and one at a time."""
    game = ProcgenGame("maze", "easy", 0, 1, 9)
    states = frontier(game, 200)
    began = time.perf_counter()
    expand(game, states)
    together = len(states) * game.num_actions / (time.perf_counter() - began)
    from sqirl.mdp.expand import unpack

    began = time.perf_counter()
    for _ in step_each(game, [unpack(state) for state in states]):
        game.get_state()
    apart = len(states) * game.num_actions / (time.perf_counter() - began)
    return together, apart


def main() -> None:
    game = AtariGame("breakout", 30)
    states = frontier(game, 600)
    print(f"Atari (breakout): {100 * emulator_share(states[:200]):.1f} % of a build's CPU time is the emulator's")
    one, two = (transitions_per_second(states, jobs, game.num_actions) for jobs in (1, 2))
    print(f"Atari: {one:.0f} transitions/s with one worker, {two:.0f} with two: {two / one:.2f}x")
    together, apart = procgen()
    print(
        f"Procgen (maze): {together:.0f} transitions/s many at a time, {apart:.0f} one at a time: {together / apart:.2f}x"
    )


if __name__ == "__main__":
    main()
