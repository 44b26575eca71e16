"""Deep SQIRL for a population over one table: P runs of different seeds, k and m.

The algorithm is that of `sqirl.algorithms.sqirl.algorithm`. All members make the same iteration at the same time. A member with a
smaller m than others has lanes that are not used, and its weights do not change while others make their further gradient steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch as th

from sqirl.algorithms.population.batch import AdamSettings, Heads, Learner, LossSettings
from sqirl.algorithms.population.evaluation import Policies
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.greedy import GreedyPolicies
from sqirl.algorithms.population.lanes import DeviceLanes, returns_to_go
from sqirl.algorithms.population.layout import initial_weights
from sqirl.algorithms.population.networks import Networks, layout_of
from sqirl.algorithms.population.replay import DeviceReplay, DeviceTransitions
from sqirl.algorithms.population.table import DeviceTable
from sqirl.algorithms.population.trainer import MemberState, copy_tensors, named_tensors, precision_of, tensors_of
from sqirl.algorithms.sqirl.hyperparameters import PAPER, SQIRLHyperparameters

#: Observations of all members that are evaluated at once while episodes are played: it limits the memory for activations.
MOST_ROWS = 65_536


@dataclass(frozen=True)
class Member:
    """One run."""

    seed: int
    k: int
    m: int


@dataclass(frozen=True)
class SQIRLSettings:
    """The settings that all members share."""

    gamma: float = 1.0
    hyperparameters: SQIRLHyperparameters = PAPER

    @property
    def adam(self) -> AdamSettings:
        return AdamSettings(max_norm=self.hyperparameters.max_grad_norm)


class SQIRLPopulation:
    """P runs of deep SQIRL over one table: a `Trainer`. One iteration is `play` and `learn`."""

    def __init__(
        self, table: DeviceTable, members: list[Member], settings: SQIRLSettings, *, dtype: th.dtype = th.bfloat16,
        kernels: bool | None = None,
    ) -> None:  # fmt: skip
        """Networks in `dtype`; see `make_networks` for `kernels`."""
        self.table, self.members, self.settings = table, members, settings
        device = table.device
        self.seeds = th.tensor([member.seed for member in members], device=device)
        self.episodes = th.tensor([member.m for member in members], device=device)
        self.lanes = DeviceLanes(table, self.seeds, max(member.m for member in members))
        self.replay = DeviceReplay(
            len(members), settings.hyperparameters.buffer_size, key_length=table.key_length, device=device
        )
        self.step = self._make_step(dtype, kernels)
        self.learner = self.step.learner
        self.networks: Networks = self.step.networks if self.step.kernels else self.step.plain
        self.networks.load(self.learner.flat)
        self.precision = precision_of(self.networks)
        self.greedy = GreedyPolicies(self.networks, self.learner, table.num_actions, table.inputs)
        self.frozen: list[th.Tensor] = []  # π_0, π_1, …, as `GreedyPolicies.current` gives them
        self.collected = th.zeros(len(members), dtype=th.int64, device=device)  # steps of this iteration
        self._steps = [0] * len(members)
        self._episodes = _EpisodePlayer(self)
        if device.type == "cuda":
            self.step.capture()

    def _make_step(self, dtype: th.dtype, kernels: bool | None) -> SQIRLStep:
        paper, table, members = self.settings.hyperparameters, self.table, self.members
        heads = Heads(max(member.k for member in members), table.num_actions)
        loss = LossSettings(self.settings.gamma, paper.loss_smoothing)
        settings = StepSettings(heads, paper.batch_size, table.picture, loss, self.settings.adam)
        layout = layout_of(table, heads.num_outputs)
        flat = initial_weights(layout, [member.seed for member in members], device=table.device)
        learner = Learner.start(flat, heads, rate=paper.learning_rate, k=[member.k for member in members])
        return SQIRLStep(
            settings, learner, self.replay, table.screens, self.seeds, dtype=dtype, kernels=kernels, inputs=table.inputs
        )

    @property
    def iteration(self) -> int:
        return len(self.frozen)

    @property
    def is_finished(self) -> bool:
        """Every timestep has its policy."""
        return self.iteration >= self.table.horizon

    def steps(self) -> list[int]:
        return list(self._steps)

    def play(self) -> None:
        """Play m episodes of each member; steps at this iteration's timestep and later go into the replay."""
        first = self.iteration
        self._episodes.play([*self.frozen])
        columns = self._episodes.columns
        later = [column[first:] for column in (columns.keys, columns.after, columns.actions, columns.rewards)]
        ends, valid = columns.ends[first:], columns.active[first:]
        returns = returns_to_go(later[3], ends, self.settings.gamma)
        self.replay.extend(DeviceTransitions(*(_by_lane(x) for x in (*later, returns, ~ends, valid))))
        self._steps = [a + b for a, b in zip(self._steps, self.collected.tolist(), strict=True)]

    def learn(self) -> None:
        """The epochs of each member over samples from its replay; then the weights act at this iteration's timestep."""
        steps, done = self._gradient_steps(), 0
        filled = self.replay.sizes.cpu() > 0
        for until in sorted(set(steps)):
            running = [int(count >= until) for count in steps]
            self.learner.running.copy_(th.tensor(running, dtype=th.int32) * filled)
            for _ in range(until - done):
                self.step()
            done = until
        self.frozen.append(self.greedy.current().clone())

    def _gradient_steps(self) -> list[int]:
        """Of each member in this iteration: enough for its epochs over m·T samples, or over the steps that it played."""
        s = self.settings.hyperparameters
        planned = [member.m * self.table.horizon for member in self.members]
        samples = self.collected.tolist() if s.counts_steps_played else planned
        return [math.ceil(s.n_epochs * count / s.batch_size) for count in samples]

    def policies(self, rows: int) -> Policies:
        """The policy is the frozen one, and the current network at timesteps that have none."""
        actor = self.greedy.actor(rows)

        def prepare(t: int) -> None:
            if t < self.iteration:
                actor.load(self.frozen[t])
            elif t == self.iteration:  # the later timesteps have the same
                actor.load(self.greedy.current())

        return Policies(prepare, actor.act)

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[MemberState, dict[str, int]]:
        lanes = [self.lanes.counts, self.collected, th.tensor(self._steps, device=self.seeds.device)]
        members = {
            **named_tensors("learner", self.learner.tensors()), **named_tensors("lanes", lanes),
            **named_tensors("replay", self.replay.used()), "frozen": list(self.frozen),
        }  # fmt: skip
        return members, {"iteration": self.iteration}

    def restore(self, members: MemberState, shared: dict[str, int]) -> None:
        copy_tensors(members, "learner", self.learner.tensors())
        steps = th.zeros_like(self.lanes.counts)
        copy_tensors(members, "lanes", [self.lanes.counts, self.collected, steps])
        self._steps = steps.tolist()
        self.replay.refill(tensors_of(members, "replay"))
        kept, form = members["frozen"], self.greedy.current().shape
        if any(policy.shape != form for policy in kept):
            raise ValueError("its policies are kept in another form, by another version of sqirl")
        self.frozen = [policy.to(self.seeds.device) for policy in kept]
        self.step.weights_changed()


@dataclass(frozen=True, eq=False)
class _Columns:
    """The steps of the episodes of an iteration, by timestep."""

    keys: th.Tensor  # (T, P, L, K) int32
    after: th.Tensor  # (T, P, L, K) int32: the keys of the next observations
    actions: th.Tensor  # (T, P, L) int32
    rewards: th.Tensor  # (T, P, L) float32
    ends: th.Tensor  # (T, P, L) bool
    active: th.Tensor  # (T, P, L) bool: is the step part of an episode that counts?

    @staticmethod
    def empty(horizon: int, lanes: DeviceLanes) -> _Columns:
        keys = th.zeros(horizon, *lanes.keys.shape, dtype=th.int32, device=lanes.keys.device)
        flags = th.zeros(keys.shape[:3], dtype=th.bool, device=keys.device)
        return _Columns(keys, keys.clone(), keys[..., 0].clone(), flags.float(), flags, flags.clone())


class _EpisodePlayer:
    """Plays the episodes of an iteration: one CUDA graph for a timestep with frozen policies, one for random actions."""

    def __init__(self, population: SQIRLPopulation) -> None:
        self.population, lanes = population, population.lanes
        self.lanes, self.columns = lanes, _Columns.empty(population.table.horizon, lanes)
        members = len(population.members)
        self.rows = min(lanes.num, max(1, MOST_ROWS // members))
        self.actor = population.greedy.actor(self.rows)
        used = th.arange(lanes.num, device=lanes.t.device) < population.episodes[:, None]
        self.used, self.active = used, used.clone()
        self.t = th.zeros(1, dtype=th.int64, device=lanes.t.device)
        self._frozen_step, self._random_step = self._step_frozen, self._step_random
        if lanes.t.is_cuda:
            kept = [*lanes.tensors(), self.active, self.t, population.collected]
            self._frozen_step = captured(self._step_frozen, kept=kept)
            self._random_step = captured(self._step_random, kept=kept)

    def play(self, frozen: list[th.Tensor]) -> None:
        """One episode in each lane: by the frozen policies, then by uniformly random actions."""
        self.lanes.reset(th.ones_like(self.active))
        self.active.copy_(self.used)
        self.t.zero_()
        self.population.collected.zero_()
        for t in range(self.population.table.horizon):
            if t < len(frozen):
                self.actor.load(frozen[t])
                self._frozen_step()
            else:
                self._random_step()

    def _step_frozen(self) -> None:
        parts = [self._actions(keys) for keys in th.split(self.lanes.keys, self.rows, dim=1)]
        self._record(th.cat(parts, dim=1) if len(parts) > 1 else parts[0])

    def _actions(self, keys: th.Tensor) -> th.Tensor:
        """(P, L') the greedy actions for at most `rows` observations of each member."""
        count = keys.shape[1]
        if count < self.rows:  # the last part: buffers have a fixed size
            keys = th.cat([keys, keys[:, :1].expand(-1, self.rows - count, -1)], dim=1)
        return self.actor.act(keys.contiguous())[:, :count].clone()

    def _step_random(self) -> None:
        self._record(self.lanes.random_actions())

    def _record(self, actions: th.Tensor) -> None:
        keys, c = self.lanes.keys.clone(), self.columns
        rewards, ends, after = self.lanes.step(actions)
        kept = ((c.keys, keys), (c.after, after), (c.actions, actions), (c.rewards, rewards), (c.ends, ends),
                (c.active, self.active))  # fmt: skip
        for column, value in kept:
            column.index_copy_(0, self.t, value[None].to(column.dtype))
        self.population.collected += self.active.sum(dim=1)
        self.active &= ~ends
        self.t += 1


def _by_lane(x: th.Tensor) -> th.Tensor:
    """(T, P, L, …) → (P, L·T, …): lane by lane in the order of time."""
    return x.movedim(0, 2).reshape(x.shape[1], -1, *x.shape[3:])
