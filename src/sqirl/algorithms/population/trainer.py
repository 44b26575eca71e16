"""The protocol of the populations: what a run needs of P members that learn side by side."""

from __future__ import annotations

from typing import Protocol

import torch as th

from sqirl.algorithms.population.evaluation import Policies
from sqirl.algorithms.population.networks import Networks
from sqirl.algorithms.population.table import DeviceTable

#: Evaluations are due at multiples of this many steps: `Trainer.play` of DQN returns there.
EVALUATION_GRID = 1000
#: Tensors whose first axis is the member; a list holds one tensor for each timestep.
MemberState = dict[str, "th.Tensor | list[th.Tensor]"]


class Trainer(Protocol):
    """P runs of one algorithm on one table, in lockstep. `play` and `learn` in turn, until `is_finished`."""

    table: DeviceTable
    seeds: th.Tensor
    precision: str

    def play(self) -> None:
        """Play on with the current policies until they change next, or until an evaluation may be due."""

    def learn(self) -> None:
        """Change the policies by what was played."""

    def steps(self) -> list[int]:
        """Env steps of each member so far."""
        ...

    @property
    def is_finished(self) -> bool:
        """Is there nothing more to learn?"""
        ...

    def policies(self, rows: int) -> Policies:
        """The current policies without exploration, for `rows` observations of each member at a time."""
        ...

    def state(self) -> tuple[MemberState, dict[str, int]]:
        """What a checkpoint keeps: tensors of the members, and numbers that all members share."""
        ...

    def restore(self, members: MemberState, shared: dict[str, int]) -> None:
        """Bring a trainer that has learned nothing to a state."""


def precision_of(networks: Networks) -> str:
    """'bfloat16' or 'float32': the type of activations and of the weights as they are read."""
    return str(networks.dtype).removeprefix("torch.")


def selected(state: MemberState, members: list[int]) -> MemberState:
    """The state of some of the members."""
    return {
        name: [each[members] for each in part] if isinstance(part, list) else part[members]
        for name, part in state.items()
    }


def stored(state: MemberState) -> MemberState:
    """A copy of the state in the memory of the CPU.

    On a CPU, a part of a tensor would be written with the whole memory that it is a part of.
    """

    def copied(tensor: th.Tensor) -> th.Tensor:
        return tensor.cpu() if tensor.is_cuda else tensor.clone()

    return {
        name: [copied(each) for each in part] if isinstance(part, list) else copied(part)
        for name, part in state.items()
    }


def named_tensors(prefix: str, tensors: list[th.Tensor]) -> MemberState:
    """Tensors under the names prefix0, prefix1 and so on."""
    return {f"{prefix}{place}": tensor for place, tensor in enumerate(tensors)}


def tensors_of(state: MemberState, prefix: str) -> list[th.Tensor]:
    """The tensors that `named_tensors` put into a state."""
    found = [state[f"{prefix}{place}"] for place in range(sum(name.startswith(prefix) for name in state))]
    return [tensor for tensor in found if isinstance(tensor, th.Tensor)]


def copy_tensors(state: MemberState, prefix: str, tensors: list[th.Tensor]) -> None:
    """Copy the tensors that `named_tensors` put into a state back in place."""
    for tensor, kept in zip(tensors, tensors_of(state, prefix), strict=True):
        tensor.copy_(kept)
