"""Episodes of one table on the device: L lanes for each of P members."""

from __future__ import annotations

import torch as th

from sqirl.algorithms.population import draws
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.table import DeviceTable
from sqirl.mdp.tabular import END


class DeviceLanes:
    """L episodes side by side for each of P members; a lane whose episode ends starts a new one in the same step.

    `step` changes all tensors in place, so that it can be captured in a CUDA graph. Random numbers depend on the seed and the
    count of steps of a member: its episodes do not depend on the other members.
    """

    def __init__(self, table: DeviceTable, seeds: th.Tensor, num: int) -> None:
        self.table, self.seeds, self.num = table, seeds, num
        shape, device = (len(seeds), num), seeds.device
        self.states = th.zeros(shape, dtype=th.int32, device=device)
        self.executed = th.zeros(shape, dtype=th.int32, device=device)  # the action executed last; -1 at the start
        self.t = th.zeros(shape, dtype=th.int32, device=device)
        self.keys = th.zeros(*shape, table.key_length, dtype=th.int32, device=device)
        # Where the last step ended its episode only because of the horizon, and the table truncates
        self.cut = th.zeros(shape, dtype=th.bool, device=device)
        self.counts = th.zeros(len(seeds), dtype=th.int64, device=device)  # steps of each member
        self.reset(th.ones(shape, dtype=th.bool, device=device))

    def tensors(self) -> list[th.Tensor]:
        """What `step` changes."""
        return [self.states, self.executed, self.t, self.keys, self.cut, self.counts]

    def reset(self, which: th.Tensor) -> None:
        """Start a new episode where the mask (P, L) is true."""
        self.states.masked_fill_(which, self.table.start_state)
        self.executed.masked_fill_(which, -1)
        self.t.masked_fill_(which, 0)
        self.keys.copy_(th.where(which[..., None], self.table.start_key, self.keys))

    def random_actions(self) -> th.Tensor:
        """(P, L) int32 uniformly random actions for this step."""
        return draws.integers(self.seeds, draws.ACTIONS, self.counts, self.num, self.table.num_actions).int()

    def step(self, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """((P, L) rewards, (P, L) bool ends, (P, L, K) keys after the step and before any reset)."""
        if has_triton(self.t.device):
            from sqirl.algorithms.population.lane_kernels import step_lanes

            return step_lanes(self, actions)
        table = self.table
        played = actions.int()
        if table.stickiness:
            chance = draws.uniforms(self.seeds, draws.STICKY, self.counts, self.num)
            played = th.where((chance < table.stickiness) & (self.executed >= 0), self.executed, played)
        edge = self.states.long() * table.num_actions + played
        rewards, states = table.rewards[edge], table.transitions[edge]
        self.t += 1
        over = states == END
        ends = over | (self.t >= table.horizon)
        if table.truncates:
            self.cut.copy_(ends & ~over)
        after = self._next_keys(states)
        self.states.copy_(states)
        self.executed.copy_(played)
        self.keys.copy_(after)
        self.reset(ends)
        self.counts += 1
        return rewards, ends, after

    def _next_keys(self, states: th.Tensor) -> th.Tensor:
        """(P, L, K) the keys after a step to these states, as `Table.next_keys` makes them."""
        last = len(self.table.screen_of) - 1
        newest = self.table.screen_of[th.where(states == END, last, states.long())]
        time = self.t[..., None] if self.table.uses_clock else self.keys[..., -1:]
        return th.cat([self.keys[..., 1:-1], newest[..., None], time], dim=-1)


def returns_to_go(rewards: th.Tensor, ends: th.Tensor, gamma: float) -> th.Tensor:
    """(T, …) discounted reward from each step to the end of its episode, from rewards and ends (T, …)."""
    returns, following = th.empty_like(rewards), th.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        following = rewards[step] + gamma * following.masked_fill(ends[step], 0.0)
        returns[step] = following
    return returns


def greedy_actions(q: th.Tensor, k: th.Tensor, num_actions: int) -> th.Tensor:
    """(P, L) the actions of largest Q^{k[p]} for each member p, from outputs (P, L, k_max·A)."""
    values = q.reshape(*q.shape[:2], -1, num_actions)
    index = (k.long() - 1)[:, None, None, None].expand(-1, values.shape[1], 1, num_actions)
    actions: th.Tensor = values.gather(2, index)[:, :, 0].argmax(dim=-1).int()
    return actions
