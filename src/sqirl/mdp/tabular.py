"""`TabularMDP`: a finite-horizon MDP as arrays.

States are 0..S-1, actions 0..A-1. Dynamics come in one of two forms:

* deterministic: `transitions[s, a]` is the next state, and -1 ends the episode;
* stochastic: `outcomes` holds, for row s·A + a of a CSR matrix, the next states with their probabilities and rewards.

Sticky actions are a view on either: with probability ρ the action executed last is executed again, whatever was chosen
(never at the first step, which has no previous action). The (state, previous action) product is never formed; see
`sqirl.analysis.kernels` for why it need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sqirl.errors import InvalidMDP
from sqirl.mdp.validate import validate

if TYPE_CHECKING:
    from sqirl.envs.game import Game

#: `transitions` entry that ends the episode.
END = -1


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Stochastic dynamics in CSR form; row s·A + a owns the entries indptr[row]:indptr[row + 1]."""

    indptr: np.ndarray  # (S·A + 1,) int64
    next_states: np.ndarray  # (nnz,) int32, END where the episode ends
    probabilities: np.ndarray  # (nnz,) float64, each row sums to 1
    rewards: np.ndarray  # (nnz,) float64

    def expected_rewards(self, num_actions: int) -> np.ndarray:
        """(S, A) expected reward of each row."""
        weighted = np.append(self.probabilities * self.rewards, 0.0)
        # Every row has an entry (validated), so reduceat's empty-slice rule never applies
        return np.add.reduceat(weighted, self.indptr[:-1]).reshape(-1, num_actions)


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A tabular MDP, checked when it is made.

    `depth` says how many steps were enumerated: None if the state set is closed under all actions, otherwise the MDP is
    exact for episodes of up to `depth` steps and `transitions` ends them there. `horizon` is the episode length that was
    asked for; with `depth < horizon` the MDP is partial and no analysis takes it for whole.
    """

    rewards: np.ndarray  # (S, A) float64, expected where outcomes are random
    transitions: np.ndarray | None = None  # (S, A) int32
    outcomes: Outcomes | None = None
    start_states: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    start_probabilities: np.ndarray = field(default_factory=lambda: np.ones(1))
    horizon: int | None = None
    depth: int | None = None
    stickiness: float = 0.0
    name: str = ""
    screens: np.ndarray | None = None  # (N, ...) each distinct picture once; may be left out and drawn again
    screen_mapping: np.ndarray | None = None  # (S,) int32 which screen a state shows
    provenance: Mapping[str, Any] = field(default_factory=dict)
    make_game: Callable[[], Game] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        facts = [f"{self.num_states:,} states", f"{self.num_actions} actions"]
        facts += [f"horizon {self.horizon}"] if self.horizon is not None else []
        facts += [f"sticky {self.stickiness:g}"] if self.stickiness else []
        facts += [f"enumerated to step {self.depth}"] if self.depth is not None else []
        return f"<TabularMDP {self.name or 'without a name'}: {', '.join(facts)}>"

    def __post_init__(self) -> None:
        validate(self)
        for name in ("rewards", "transitions", "start_states", "start_probabilities", "screens", "screen_mapping"):
            if (array := getattr(self, name)) is not None:
                # A view of our own that cannot be written to; views and cuts of this MDP share it
                frozen = array.view()
                frozen.flags.writeable = False
                object.__setattr__(self, name, frozen)

    # Makers ----------------------------------------------------------------------------------------------------------

    @classmethod
    def deterministic(cls, transitions: Any, rewards: Any, **fields: Any) -> TabularMDP:
        """From next-state and reward tables of shape (S, A); state 0 is the start."""
        return cls(rewards=_float_table(rewards), transitions=_index_table(transitions), **fields)

    @classmethod
    def from_dynamics(cls, P: Mapping[int, Any], *, start: Any = None, **fields: Any) -> TabularMDP:
        """From toy_text's `P[s][a] = [(probability, next state, reward, done), …]`; `start` is a distribution over states."""
        from sqirl.mdp.convert import outcomes_from_dynamics

        outcomes, num_actions = outcomes_from_dynamics(P)
        return cls._of_outcomes(outcomes, num_actions, start, fields)

    @classmethod
    def stochastic(
        cls,
        indptr: Any,
        next_states: Any,
        probabilities: Any,
        rewards: Any,
        *,
        num_actions: int,
        start: Any = None,
        **fields: Any,
    ) -> TabularMDP:
        """From CSR arrays: row s·num_actions + a owns the outcomes indptr[row]:indptr[row + 1]; next state -1 is the end."""
        outcomes = Outcomes(
            _index_table(indptr).astype(np.int64),
            _index_table(next_states),
            _float_table(probabilities),
            _float_table(rewards),
        )
        return cls._of_outcomes(outcomes, num_actions, start, fields)

    @classmethod
    def from_matrices(cls, matrices: Any, rewards: Any, *, start: Any = None, **fields: Any) -> TabularMDP:
        """From A transition matrices of shape (S, S), dense or SciPy sparse, and rewards (S, A).

        Probability missing from a row is the probability that the episode ends there.
        """
        from sqirl.mdp.convert import outcomes_from_matrices

        outcomes, num_actions = outcomes_from_matrices(matrices, rewards)
        return cls._of_outcomes(outcomes, num_actions, start, fields)

    @classmethod
    def _of_outcomes(cls, outcomes: Outcomes, num_actions: int, start: Any, fields: dict[str, Any]) -> TabularMDP:
        if start is not None:
            start = np.asarray(start, float)
            if start.ndim != 1 or start.size * num_actions != outcomes.indptr.size - 1:
                raise InvalidMDP(f"start has shape {start.shape}; one probability for each state is needed")
            states = np.flatnonzero(start)
            fields |= {"start_states": states.astype(np.int32), "start_probabilities": start[states]}
        return cls(rewards=outcomes.expected_rewards(num_actions), outcomes=outcomes, **fields)

    @classmethod
    def load(cls, path: str | Path) -> TabularMDP:
        """Read an .npz in BRIDGE's layout, ours or the authors'."""
        from sqirl.mdp.npz import load

        return load(path)

    def save(self, path: str | Path) -> None:
        """Write an .npz in BRIDGE's layout, atomically and reproducibly."""
        from sqirl.mdp.npz import save

        save(self, path)

    # Facts -----------------------------------------------------------------------------------------------------------

    @property
    def num_states(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def num_actions(self) -> int:
        return int(self.rewards.shape[1])

    @property
    def max_outcomes(self) -> int:
        """The most outcomes that one action has."""
        return 1 if self.outcomes is None else int(np.diff(self.outcomes.indptr).max())

    @property
    def is_partial(self) -> bool:
        """Was the enumeration stopped before the horizon that was asked for?"""
        return self.depth is not None and self.horizon is not None and self.depth < self.horizon

    # Views and variants ----------------------------------------------------------------------------------------------

    def sticky(self, probability: float = 0.25) -> TabularMDP:
        """The same MDP with sticky actions (a view: no array is copied)."""
        return replace(self, stickiness=float(probability))

    def cut(self, horizon: int) -> TabularMDP:
        """The MDP of the first `horizon` steps, without the states that only later steps reach."""
        from sqirl.mdp.reach import cut

        return cut(self, horizon)

    def merge(self, *, by: str = "screen") -> TabularMDP:
        """The quotient by states that no action sequence can tell apart, by reward and screen or by reward alone."""
        from sqirl.mdp.merge import merge

        return merge(self, by=by)

    # Tracing back ----------------------------------------------------------------------------------------------------

    def path_to(self, state: int, *, steps: int | None = None) -> list[int]:
        """Executed actions that lead from the start to `state`: the fewest, or exactly `steps` of them."""
        from sqirl.mdp.reach import path_to

        return path_to(self, state, steps=steps)

    def env_at(self, state: int) -> Game:
        """A live game in that state, brought there by playing `path_to(state)`."""
        from sqirl.mdp.trace import env_at

        return env_at(self, state)

    def render(self, state: int) -> np.ndarray:
        """An RGB picture of that state from the live game."""
        from sqirl.mdp.trace import render

        return render(self, state)


def _index_table(table: Any) -> np.ndarray:
    array = np.asarray(table)
    if array.dtype.kind not in "iu":
        raise InvalidMDP(
            f"states must be integers, not {array.dtype}; each transition is the next state, or -1 at an end"
        )
    if array.size and (array.max() > np.iinfo(np.int32).max or array.min() < np.iinfo(np.int32).min):
        raise InvalidMDP(f"transitions reach {array.max()}, beyond the {np.iinfo(np.int32).max} states an MDP can have")
    return np.ascontiguousarray(array, dtype=np.int32)


def _float_table(table: Any) -> np.ndarray:
    try:
        array = np.asarray(table)
    except ValueError as error:
        raise InvalidMDP(f"rewards must be a table of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InvalidMDP(f"rewards must be a table of numbers, not of {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)
