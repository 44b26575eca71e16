"""The replay buffers of P members on the device: the last transitions, with keys in the place of observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch as th

from sqirl.algorithms.population import draws
from sqirl.algorithms.population.batch import DeviceBatch
from sqirl.algorithms.population.devices import has_triton
from sqirl.errors import SqirlError


@dataclass(frozen=True, eq=False)
class DeviceTransitions:
    """n transitions of each of P members; those that are not valid are ignored."""

    keys: th.Tensor  # (P, n, K) int32
    next_keys: th.Tensor  # (P, n, K) int32; they mean nothing where the episode does not go on
    actions: th.Tensor  # (P, n)
    rewards: th.Tensor  # (P, n)
    returns: th.Tensor  # (P, n) discounted reward-to-go
    goes_on: th.Tensor  # (P, n) bool
    valid: th.Tensor  # (P, n) bool


class DeviceReplay:
    """A ring of `capacity` transitions for each of P members."""

    def __init__(self, members: int, capacity: int, *, key_length: int, device: th.device | str) -> None:
        if capacity < 1:
            raise SqirlError(f"capacity {capacity} is below 1")
        self.capacity = capacity
        shape = (members, capacity + 1)  # transitions that are not kept are written to the last row
        self.keys = th.zeros(*shape, key_length, dtype=th.int32, device=device)
        self.next_keys = th.zeros_like(self.keys)
        self.actions = th.zeros(shape, dtype=th.int32, device=device)
        self.rewards = th.zeros(shape, device=device)
        self.returns = th.zeros(shape, device=device)
        self.goes_on = th.zeros(shape, dtype=th.uint8, device=device)
        self.sizes = th.zeros(members, dtype=th.int64, device=device)
        self.places = th.zeros(members, dtype=th.int64, device=device)  # the row of the next transition

    @property
    def nbytes(self) -> int:
        parts = (self.keys, self.next_keys, self.actions, self.rewards, self.returns, self.goes_on)
        return sum(part.numel() * part.element_size() for part in parts)

    def extend(self, new: DeviceTransitions) -> None:
        """Append the valid transitions in their order. If they are more than the ring holds, the last ones are kept."""
        rank = new.valid.long().cumsum(1)  # 1 for the first valid one
        counts = rank[:, -1:]
        kept = new.valid & (rank > counts - self.capacity)
        place = th.where(kept, (self.places[:, None] + rank - 1) % self.capacity, self.capacity)
        member = th.arange(len(place), device=place.device)[:, None].expand_as(place)
        for name in ("keys", "next_keys", "actions", "rewards", "returns", "goes_on"):
            mine = getattr(self, name)
            mine[member, place] = getattr(new, name).to(mine.dtype)
        self.places.copy_((self.places + counts[:, 0]) % self.capacity)
        self.sizes.copy_((self.sizes + counts[:, 0]).clamp(max=self.capacity))

    def append(
        self, keys: th.Tensor, after: th.Tensor, actions: th.Tensor, rewards: th.Tensor, goes_on: th.Tensor
    ) -> None:
        """Append one transition of every lane (P, L): keys before and after it; rewards-to-go are not known."""
        if has_triton(self.keys.device):
            from sqirl.algorithms.population.draw_kernels import append_to_replay

            return append_to_replay(self, keys, after, actions, rewards, goes_on)
        returns, valid = th.zeros_like(rewards), th.ones_like(goes_on)
        self.extend(DeviceTransitions(keys, after, actions, rewards, returns, goes_on, valid))

    def used(self) -> list[th.Tensor]:
        """What a checkpoint keeps: the rows that hold transitions, and where each member writes next."""
        rows = int(self.sizes.max())
        columns = (self.keys, self.next_keys, self.actions, self.rewards, self.returns, self.goes_on)
        return [*(column[:, :rows] for column in columns), self.sizes, self.places]

    def refill(self, used: Sequence[th.Tensor]) -> None:
        """Take what `used` returned."""
        *columns, sizes, places = used
        mine = (self.keys, self.next_keys, self.actions, self.rewards, self.returns, self.goes_on)
        for column, kept in zip(mine, columns, strict=True):
            column[:, : kept.shape[1]] = kept.to(column.device)
        self.sizes.copy_(sizes)
        self.places.copy_(places)

    def sample(self, batch: DeviceBatch, seeds: th.Tensor, steps: th.Tensor) -> None:
        """Fill the batch with transitions drawn uniformly, with replacement, by the seed and step (P,) of each member.

        The samples of a member that has no transitions mean nothing.
        """
        if has_triton(self.keys.device):
            from sqirl.algorithms.population.draw_kernels import sample_replay

            return sample_replay(self, batch, seeds, steps)
        ages = draws.integers(seeds, draws.SAMPLES, steps, batch.size, self.sizes[:, None])
        self.take(batch, (self.places[:, None] - self.sizes[:, None] + ages) % self.capacity)

    def take(self, batch: DeviceBatch, rows: th.Tensor) -> None:
        """Fill the batch with the rows (P, B) of the ring."""
        member = th.arange(len(rows), device=rows.device)[:, None].expand_as(rows)
        batch.keys[:, : batch.size] = self.keys[member, rows]
        if batch.keys.shape[1] > batch.size:
            batch.keys[:, batch.size :] = self.next_keys[member, rows]
        batch.actions.copy_(self.actions[member, rows])
        batch.rewards.copy_(self.rewards[member, rows])
        batch.returns.copy_(self.returns[member, rows])
        batch.goes_on.copy_(self.goes_on[member, rows])
