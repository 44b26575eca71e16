"""How good the policies of a population are: means over episodes, and exact returns, both on the device.

Rewards are float64 and in the units of the game here, so that a mean can be compared with the optimal return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch as th

from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.lanes import DeviceLanes
from sqirl.algorithms.population.table import DeviceTable
from sqirl.mdp.tabular import END

#: Beyond so many situations of one member at one time its exact return is not computed: it would take seconds.
MAX_NODES = 20_000
#: The seed of an evaluation is that of the member in the lower 32 bits, and the number of the evaluation in the higher ones.
_EVALUATION_BITS = 32


@dataclass(frozen=True)
class Policies:
    """The policies of P members without exploration.

    :param prepare: called with the timestep before the actions at this timestep are asked for
    :param act: (P, rows, K) keys → (P, rows) actions; it launches kernels and does not wait for them
    """

    prepare: Callable[[int], None]
    act: Callable[[th.Tensor], th.Tensor]


class Evaluator:
    """Evaluates the policies of P members with `episodes` episodes each. `act` is asked for so many rows at a time."""

    def __init__(
        self, table: DeviceTable, rewards: th.Tensor, policies: Policies, seeds: th.Tensor, episodes: int
    ) -> None:
        """`rewards` (S·A,) float64 are those of the game."""
        self.table = replace(table, rewards=rewards, reward_factor=1.0)
        self.policies, self.seeds, self.episodes = policies, seeds, episodes
        self.lanes = DeviceLanes(self.table, seeds.clone(), episodes)
        self.active = th.ones_like(self.lanes.t, dtype=th.bool)
        self.total = th.zeros(self.lanes.t.shape, dtype=th.float64, device=seeds.device)
        policies.prepare(0)
        self._step = captured(self._play_step) if seeds.is_cuda else self._play_step

    def _play_step(self) -> None:
        rewards, ends, _ = self.lanes.step(self.policies.act(self.lanes.keys))
        self.total += th.where(self.active, rewards, 0.0)
        self.active &= ~ends

    def sampled(self, number: int) -> tuple[th.Tensor, th.Tensor]:
        """((P,) mean returns, (P,) their standard errors); `number` and the seeds of the members decide all randomness."""
        lanes = self.lanes
        lanes.seeds.copy_(self.seeds + (number << _EVALUATION_BITS))
        lanes.counts.zero_()
        lanes.reset(th.ones_like(self.active))
        self.active.fill_(True)
        self.total.zero_()
        for t in range(self.table.horizon):
            self.policies.prepare(t)
            self._step()
        spread = self.total.std(dim=1, correction=0) / self.episodes**0.5
        return self.total.mean(dim=1).cpu(), spread.cpu()

    def exact(self, members: list[int], *, max_nodes: int = MAX_NODES) -> dict[int, float]:
        """The exact returns of these members. Those that would need more than `max_nodes` nodes are left out."""
        nodes = _Nodes.start(self.table, th.tensor(members, device=self.seeds.device))
        totals = th.zeros(len(self.seeds), dtype=th.float64, device=self.seeds.device)
        too_many = th.zeros(len(self.seeds), dtype=th.bool, device=self.seeds.device)
        for t in range(self.table.horizon):
            if not len(nodes.states):
                break
            self.policies.prepare(t)
            outcomes = nodes.executions(self._actions(nodes), self.table.stickiness)
            edge = outcomes.states * self.table.num_actions + outcomes.executed
            totals.index_add_(0, outcomes.member, outcomes.chance * self.table.rewards[edge])
            nodes = outcomes.successors(self.table, self.table.transitions[edge].long(), t + 1)
            too_many |= nodes.counts(len(self.seeds)) > max_nodes
            nodes = nodes.only(~too_many[nodes.member])
        found, dropped = totals.tolist(), too_many.tolist()
        return {member: found[member] for member in members if not dropped[member]}

    def _actions(self, nodes: _Nodes) -> th.Tensor:
        """(n,) the actions in these nodes, which are sorted by member."""
        P, rows = len(self.seeds), self.episodes
        counts = nodes.counts(P)
        place = th.arange(len(nodes.member), device=counts.device) - (counts.cumsum(0) - counts)[nodes.member]
        actions = th.empty_like(nodes.member)
        for start in range(0, int(counts.max()), rows):
            mine = (place >= start) & (place < start + rows)
            at = nodes.member[mine], place[mine] - start
            keys = self.table.start_key.repeat(P, rows, 1)
            keys[at] = nodes.keys[mine]
            actions[mine] = self.policies.act(keys)[at].long()
        return actions


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Situations of episodes at one time, as in `sqirl.evaluation.exact`, of several members at once."""

    member: th.Tensor  # (n,) int64
    states: th.Tensor  # (n,) int64
    executed: th.Tensor  # (n,) int64: the action executed last; -1 at the start
    keys: th.Tensor  # (n, K) int32
    chance: th.Tensor  # (n,) float64

    @staticmethod
    def start(table: DeviceTable, members: th.Tensor) -> _Nodes:
        ones = th.ones_like(members)
        keys = table.start_key.expand(len(members), -1)
        return _Nodes(members, ones * table.start_state, -ones, keys, ones.double())

    def counts(self, members: int) -> th.Tensor:
        """(P,) the number of nodes of each member."""
        return th.bincount(self.member, minlength=members)

    def only(self, which: th.Tensor) -> _Nodes:
        """The nodes of a mask or an index (n,)."""
        return _Nodes(
            self.member[which], self.states[which], self.executed[which], self.keys[which], self.chance[which]
        )

    def executions(self, actions: th.Tensor, stickiness: float) -> _Nodes:
        """What is executed in these nodes, and its probability: the action chosen, or the one executed last again."""
        chosen = replace(self, executed=actions)
        if not stickiness:
            return chosen
        sticks = th.where(self.executed >= 0, stickiness, 0.0)
        chosen = replace(chosen, chance=self.chance * (1 - sticks))
        repeated = replace(self, chance=self.chance * sticks).only(self.executed >= 0)
        both = zip(chosen.columns(), repeated.columns(), strict=True)
        return _Nodes(*(th.cat(pair) for pair in both))

    def columns(self) -> tuple[th.Tensor, ...]:
        return self.member, self.states, self.executed, self.keys, self.chance

    def successors(self, table: DeviceTable, states: th.Tensor, t: int) -> _Nodes:
        """The nodes after a step to these states (n,) at time t, equal ones merged, sorted by member."""
        alive = states != END
        if t >= table.horizon:
            alive = th.zeros_like(alive)
        after = replace(self, states=states).only(alive)
        keys = th.cat([after.keys[:, 1:-1], table.screen_of[after.states][:, None], after.keys[:, -1:]], dim=1)
        if table.uses_clock:
            keys[:, -1] = t
        return replace(after, keys=keys).merged(table)

    def merged(self, table: DeviceTable) -> _Nodes:
        """Equal nodes as one, with the sum of their probabilities."""
        number = (self.member * len(table.screen_of) + self.states) * (table.num_actions + 1) + self.executed + 1
        for screen in self.keys[:, :-2].long().unbind(1):  # the newest screen follows from the state
            # The numbers of distinct prefixes are small again, so that the product below stays within 63 bits
            _, prefix = th.unique(number, return_inverse=True)
            number = prefix * len(table.screens) + screen
        distinct, place = th.unique(number, return_inverse=True)
        first = th.empty_like(distinct).scatter_(0, place, th.arange(len(place), device=place.device))
        chance = th.zeros(len(distinct), dtype=th.float64, device=place.device).index_add_(0, place, self.chance)
        return replace(self.only(first), chance=chance)
