"""The distinct observations of a table that shows grids.

A grid world has few screens, and the clock of the variant "paper" has two values. A population therefore evaluates its networks
on every observation that an episode can show, each once, and looks up the rows that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch as th

from sqirl.mdp.tabular import END

#: Tables with more distinct observations are not listed: evaluating all of them would take longer than those that are played.
MOST_INPUTS = 20_000


@dataclass(frozen=True, eq=False)
class Inputs:
    """Every observation that an episode can show, each once. Keys are (screen, timestep)."""

    keys: th.Tensor  # (U, 2) int32: one key of each observation
    place: th.Tensor  # (N + 1, C) int64: the number of an observation, by its screen and the value of its clock
    clock: th.Tensor  # (T + 1,) int64: which of the C values the clock has at each timestep

    def __len__(self) -> int:
        return len(self.keys)

    def places(self, keys: th.Tensor) -> th.Tensor:
        """(…) int64 the numbers of the observations with these keys (…, 2); 0 for keys that no episode has."""
        return self.place[keys[..., 0].long(), self.clock[keys[..., 1].long()]]


def distinct_inputs(
    transitions: th.Tensor, screen_of: th.Tensor, *, start_state: int, clock: tuple[int, ...]
) -> Inputs | None:
    """The observations of all episodes, or None if there are more than `MOST_INPUTS`.

    :param transitions: (S, A)
    :param screen_of: (S + 1,) the screen of each state, and of the end
    :param clock: what the clock shows at each timestep from 0 to the horizon
    """
    device = transitions.device
    transitions, screen_of = transitions.cpu(), screen_of.cpu().long()
    values, of_time = th.unique(th.tensor(clock), return_inverse=True)
    shown = th.zeros(int(screen_of.max()) + 1, len(values), dtype=th.bool)
    shown[screen_of[END]] = True  # an episode can end at any time
    states = th.tensor([start_state])
    for value in of_time.tolist():
        shown[screen_of[states], value] = True
        if int(shown.sum()) > MOST_INPUTS:
            return None
        after = th.unique(transitions[states])
        states = after[after != END].long()
    place = th.zeros(shown.shape, dtype=th.int64)
    place[shown] = th.arange(int(shown.sum()))
    first_time = th.stack([(of_time == value).nonzero()[0, 0] for value in range(len(values))])
    screens, at = shown.nonzero(as_tuple=True)
    keys = th.stack([screens, first_time[at]], dim=1).int()
    return Inputs(keys.to(device), place.to(device), of_time.to(device))
