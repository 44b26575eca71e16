"""`TabularMDP`: a finite-horizon MDP as arrays.

States are 0..S-1, actions 0..A-1. The dynamics have one of two forms:

* deterministic: `transitions[s, a]` is the next state, and -1 ends the episode;
* stochastic: row s·A + a of the CSR matrix `outcomes` holds the next states with their probabilities and rewards.

Both forms can have sticky actions: with probability `stickiness` the previously executed action is executed again instead of the
chosen one. The first step has no previous action and is never sticky. The pairs of a state and a previous action are not stored,
because the Bellman backup of `sqirl.analysis` does not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sqirl.errors import InvalidMDP
from sqirl.mdp.validate import validate

if TYPE_CHECKING:
    from sqirl.envs.game import Game

#: The next state that stands for the end of the episode.
END = -1


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Stochastic dynamics in CSR form. The outcomes of row s·A + a are the entries indptr[row]:indptr[row + 1].

    :param indptr: where the entries of each row begin
    :param next_states: END where the episode ends
    :param probabilities: those of each row sum to 1
    :param rewards: the reward of each outcome
    """

    indptr: NDArray[np.int64]  # (S·A + 1,)
    next_states: NDArray[np.int32]  # (nnz,)
    probabilities: NDArray[np.float64]  # (nnz,)
    rewards: NDArray[np.float64]  # (nnz,)
    draws: NDArray[np.int64] | None = None  # (S·A,) if probabilities are frequencies: of how many draws in each row

    def expected_rewards(self, num_actions: int) -> NDArray[np.float64]:
        """(S, A) expected reward of each row."""
        weighted = np.append(self.probabilities * self.rewards, 0.0)
        # `validate` checks that every row has an entry: reduceat would give a wrong sum for an empty row
        expected: NDArray[np.float64] = np.add.reduceat(weighted, self.indptr[:-1]).reshape(-1, num_actions)
        return expected


class MDPFields(TypedDict, total=False):
    """The fields of a `TabularMDP` that its makers (`deterministic`, `stochastic`, …) take as keywords. See `TabularMDP`."""

    start_states: NDArray[Any]
    start_probabilities: NDArray[Any]
    start_seeds: NDArray[Any] | None
    horizon: int | None
    depth: int | None
    stickiness: float
    name: str
    screens: NDArray[Any] | None
    screen_mapping: NDArray[Any] | None
    provenance: Mapping[str, Any]
    make_game: Callable[[], Game] | None


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A finite-horizon MDP with S states and A actions. It is checked when it is made, and its arrays are read-only.

    :param rewards: the reward of each state and action; the expected one if outcomes are random
    :param transitions: the next states of deterministic dynamics, or END
    :param outcomes: stochastic dynamics; give either `transitions` or `outcomes`
    :param start_states: the states that an episode can start in; state 0 by default
    :param start_probabilities: the probability of each start state
    :param start_seeds: the seed with which a reset of the live game leads to each start; None if its start is fixed
    :param horizon: steps of an episode
    :param depth: the number of steps to which the MDP was enumerated; None if all reachable states are in it. With a depth, the
        MDP is exact for episodes of at most `depth` steps. If it is smaller than the horizon, the MDP is partial.
    :param stickiness: probability of repeating the previous action
    :param name: the id of the environment
    :param screens: the distinct screens; they may be left out and drawn again
    :param screen_mapping: the number of each state's screen
    :param provenance: versions, seeds and hashes that the MDP depends on
    :param make_game: makes the live game; by default the game is made from `name`
    """

    rewards: NDArray[np.float64]  # (S, A)
    transitions: NDArray[np.int32] | None = None  # (S, A)
    outcomes: Outcomes | None = None
    start_states: NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))  # (n,)
    start_probabilities: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))  # (n,)
    start_seeds: NDArray[np.int64] | None = None  # (n,)
    horizon: int | None = None
    depth: int | None = None
    stickiness: float = 0.0
    name: str = ""
    screens: NDArray[Any] | None = None  # (N, …)
    screen_mapping: NDArray[np.integer] | None = None  # (S,)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    make_game: Callable[[], Game] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        facts = [f"{self.num_states:,} states", f"{self.num_actions} actions"]
        facts += [f"horizon {self.horizon}"] if self.horizon is not None else []
        facts += [f"sticky {self.stickiness:g}"] if self.stickiness else []
        facts += [f"enumerated to step {self.depth}"] if self.depth is not None else []
        return f"<TabularMDP {self.name or 'without a name'}: {', '.join(facts)}>"

    def __post_init__(self) -> None:
        object.__setattr__(self, "start_states", _index_table(self.start_states))
        object.__setattr__(self, "start_probabilities", _float_table(self.start_probabilities))
        validate(self)
        for name in (
            "rewards",
            "transitions",
            "start_states",
            "start_probabilities",
            "start_seeds",
            "screens",
            "screen_mapping",
        ):
            if (array := getattr(self, name)) is not None:
                # A read-only view: several MDPs may share the array
                frozen = array.view()
                frozen.flags.writeable = False
                object.__setattr__(self, name, frozen)

    # Makers ----------------------------------------------------------------------------------------------------------

    @classmethod
    def deterministic(cls, transitions: ArrayLike, rewards: ArrayLike, **fields: Unpack[MDPFields]) -> TabularMDP:
        """From tables of next states and rewards.

        :param transitions: (S, A) next states; -1 ends the episode
        :param rewards: (S, A)
        :param fields: other fields of the MDP, such as `horizon` and `name`
        """
        return cls(rewards=_float_table(rewards), transitions=_index_table(transitions), **fields)

    @classmethod
    def from_dynamics(
        cls, P: Mapping[int, Any], *, start: ArrayLike | None = None, **fields: Unpack[MDPFields]
    ) -> TabularMDP:
        """From dynamics in the form of Gymnasium's toy_text.

        :param P: `P[s][a] = [(probability, next state, reward, done), …]`
        :param start: (S,) probability of starting in each state; state 0 if None
        :param fields: other fields of the MDP, such as `horizon` and `name`
        """
        from sqirl.mdp.convert import outcomes_from_dynamics

        outcomes, num_actions = outcomes_from_dynamics(P)
        return cls._of_outcomes(outcomes, num_actions, start, fields)

    @classmethod
    def stochastic(
        cls,
        indptr: ArrayLike,
        next_states: ArrayLike,
        probabilities: ArrayLike,
        rewards: ArrayLike,
        *,
        num_actions: int,
        start: ArrayLike | None = None,
        draws: ArrayLike | None = None,
        **fields: Unpack[MDPFields],
    ) -> TabularMDP:
        """From CSR arrays. The outcomes of row s·A + a are the entries indptr[row]:indptr[row + 1].

        :param indptr: (S·A + 1,) where the entries of each row begin
        :param next_states: (nnz,) next state of each outcome; -1 ends the episode
        :param probabilities: (nnz,) those of each row sum to 1
        :param rewards: (nnz,) reward of each outcome
        :param num_actions: the number A of actions
        :param start: (S,) probability of starting in each state; state 0 if None
        :param draws: (S·A,) the number of draws that the probabilities of each row are frequencies of; None if they are exact
        :param fields: other fields of the MDP, such as `horizon` and `name`
        """
        outcomes = Outcomes(
            _index_table(indptr).astype(np.int64),
            _index_table(next_states),
            _float_table(probabilities),
            _float_table(rewards),
            None if draws is None else _index_table(draws).astype(np.int64),
        )
        return cls._of_outcomes(outcomes, num_actions, start, fields)

    @classmethod
    def from_matrices(
        cls, matrices: Any, rewards: ArrayLike, *, start: ArrayLike | None = None, **fields: Unpack[MDPFields]
    ) -> TabularMDP:
        """From transition matrices. If a row sums to less than 1, the rest is the probability that the episode ends.

        :param matrices: A matrices (S, S), dense or SciPy sparse
        :param rewards: (S, A)
        :param start: (S,) probability of starting in each state; state 0 if None
        :param fields: other fields of the MDP, such as `horizon` and `name`
        """
        from sqirl.mdp.convert import outcomes_from_matrices

        outcomes, num_actions = outcomes_from_matrices(matrices, rewards)
        return cls._of_outcomes(outcomes, num_actions, start, fields)

    @classmethod
    def _of_outcomes(
        cls, outcomes: Outcomes, num_actions: int, start: ArrayLike | None, fields: MDPFields
    ) -> TabularMDP:
        if start is not None:
            distribution = _float_table(start)
            if distribution.ndim != 1 or distribution.size * num_actions != outcomes.indptr.size - 1:
                raise InvalidMDP(f"start has shape {distribution.shape}; one probability for each state is needed")
            states = np.flatnonzero(distribution)
            fields["start_states"], fields["start_probabilities"] = states.astype(np.int32), distribution[states]
        return cls(rewards=outcomes.expected_rewards(num_actions), outcomes=outcomes, **fields)

    @classmethod
    def load(cls, path: str | Path) -> TabularMDP:
        """Read an .npz file in BRIDGE's layout, written by `save` or by the paper's authors.

        :param path: the file
        """
        from sqirl.mdp.npz import load

        return load(path)

    def save(self, path: str | Path) -> None:
        """Write an .npz file in BRIDGE's layout. Equal MDPs give equal bytes.

        :param path: the file; it is written completely or not at all
        """
        from sqirl.mdp.npz import save

        save(self, path)

    # Properties ------------------------------------------------------------------------------------------------------

    @property
    def num_states(self) -> int:
        return int(self.rewards.shape[0])

    @property
    def num_actions(self) -> int:
        return int(self.rewards.shape[1])

    @property
    def max_outcomes(self) -> int:
        """The largest number of outcomes of a state and an action."""
        return 1 if self.outcomes is None else int(np.diff(self.outcomes.indptr).max())

    @property
    def is_partial(self) -> bool:
        """Was the enumeration stopped before the horizon?"""
        return self.depth is not None and self.horizon is not None and self.depth < self.horizon

    # Variants --------------------------------------------------------------------------------------------------------

    def sticky(self, probability: float = 0.25) -> TabularMDP:
        """The same MDP with sticky actions. No array is copied.

        :param probability: probability of repeating the previous action
        """
        return replace(self, stickiness=float(probability))

    def cut(self, horizon: int) -> TabularMDP:
        """The MDP of the first `horizon` steps, without the states that only later steps reach.

        :param horizon: steps of an episode
        """
        from sqirl.mdp.reach import cut

        return cut(self, horizon)

    def merge(self, *, by: str = "screen") -> TabularMDP:
        """The MDP in which states are merged that no sequence of actions can distinguish.

        :param by: "screen" compares rewards and screens, "reward" compares rewards only
        """
        from sqirl.mdp.merge import merge

        return merge(self, by=by)

    # The live game ---------------------------------------------------------------------------------------------------

    def path_to(self, state: int, *, steps: int | None = None) -> list[int]:
        """Executed actions that lead from the start to `state`.

        :param state: the number of the state
        :param steps: how many actions; the smallest possible number if None
        """
        from sqirl.mdp.reach import path_to

        return path_to(self, state, steps=steps)

    def env_at(self, state: int) -> Game:
        """A live game in a state, after playing `path_to(state)`.

        :param state: the number of the state
        """
        from sqirl.mdp.trace import env_at

        return env_at(self, state)

    def render(self, state: int) -> NDArray[Any]:
        """An RGB picture (height, width, 3) of a state from the live game.

        :param state: the number of the state
        """
        from sqirl.mdp.trace import render

        return render(self, state)


def _index_table(table: ArrayLike) -> NDArray[np.int32]:
    array = np.asarray(table)
    if array.dtype.kind not in "iu":
        raise InvalidMDP(f"states and counts must be integers, not {array.dtype}; -1 is the end of an episode")
    if array.size and (array.max() > np.iinfo(np.int32).max or array.min() < np.iinfo(np.int32).min):
        wrong = array.max() if array.max() > np.iinfo(np.int32).max else array.min()
        raise InvalidMDP(f"{wrong} is beyond the largest possible state, {np.iinfo(np.int32).max}")
    return np.ascontiguousarray(array, dtype=np.int32)


def _float_table(table: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(table)
    except ValueError as error:
        raise InvalidMDP(f"rewards and probabilities must be tables of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InvalidMDP(f"rewards and probabilities must be tables of numbers, not of {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)
