"""Deep SQIRL for stacked pictures of live games on a GPU: frames stay on the device, a gradient step is one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy

from sqirl.algorithms import mixed_precision as mixed
from sqirl.algorithms.sqirl.algorithm import SQIRL
from sqirl.algorithms.sqirl.hyperparameters import LEAST_LOSS
from sqirl.algorithms.sqirl.policy import SQIRLCnnPolicy
from sqirl.play.device_frames import device_player
from sqirl.play.episodes import Transitions
from sqirl.play.live import LivePlayer
from sqirl.play.players import Player
from sqirl.play.training_env import frames_kept, horizon_of

#: Gradient steps whose samples are sent to the device at a time.
STEPS_AT_A_TIME = 1024


class SQIRLPolicyOnGPU(SQIRLCnnPolicy):
    """Acts in the precision of training; frozen weights are kept on the device, too."""

    def prepare(self) -> None:
        """Call it when the policy is on its device."""
        networks = self.networks
        parameters = dict(zip(networks.names, networks.stacked, strict=True))
        self.weights = mixed.FlatWeights(
            parameters, precise=networks.names[-2:], stacked=True
        )  # the last layer is precise
        self.evaluate = mixed.Evaluation(networks.member)  # (n, k, A) Q^1..Q^k
        self._best = mixed.GreedyActions(
            lambda *given: self.evaluate(*given)[:, -1], self.weights, self.observation_space.shape or ()
        )
        self.forget()

    def forget(self) -> None:
        """Discard the copies of frozen weights."""
        self._frozen_copies: dict[int, th.Tensor] = {}

    def act(self, t: NDArray[np.integer], observations: th.Tensor) -> NDArray[np.integer]:
        generation = np.minimum(t, len(self.frozen))
        if (generation == generation[0]).all():  # then no rows are picked on the device
            return self.greedy(int(generation[0]), observations)
        return super().act(t, observations)

    def greedy(self, generation: int, observations: th.Tensor) -> NDArray[np.int64]:
        return self._best(self._flat_weights(generation), observations)

    def _flat_weights(self, generation: int) -> th.Tensor:
        """The weights of a timestep as one vector."""
        if generation >= len(self.frozen):
            return self.weights.flat
        if generation not in self._frozen_copies:
            flat = th.empty_like(self.weights.flat)
            block = self.networks.unpack(self.frozen.blocks[generation].to(self.device))
            for name, place in zip(self.weights.names, self.weights.parameter_views(flat), strict=True):
                place.copy_(block[name])
            self._frozen_copies[generation] = flat
        return self._frozen_copies[generation]


class GradientSteps:
    """The gradient step of `gradient_step.py` on minibatches that the device assembles; no observation is looked for twice.

    The samples of many steps are sent at once. `_at` says which of them are next.
    """

    def __init__(self, model: SQIRLOnGPU) -> None:
        self.model, self.frames = model, model.player.memory  # type: ignore[attr-defined]
        self.adam = mixed.FlatAdam(model.policy.weights, model.policy.optimizer)
        self.copy = mixed.WorkingCopy(model.policy.weights, mixed.compute_type(model.device))
        device, samples = model.device, (STEPS_AT_A_TIME, model.batch_size)
        self._places = th.zeros((2, *samples, model.player.key_length), dtype=th.int64, device=device)
        self._actions = th.zeros(samples, dtype=th.int64, device=device)
        self._rewards, self._returns, self._continues = (th.zeros(samples, device=device) for _ in range(3))
        self._at = th.zeros(1, dtype=th.int64, device=device)
        self._mean, self._total = th.zeros(model.k, device=device), th.zeros(model.k, device=device)
        self._count = th.zeros((), device=device)
        model.policy.evaluate.fuse(self.copy.tensors, (model.batch_size, *(model.observation_space.shape or ())))
        kept = [*self.adam.tensors, self._at, self._mean, self._total, self._count]
        self._step: Callable[[], object] = mixed.as_graph(self.step, device, kept=kept)

    def run(self, steps: int, rng: np.random.Generator) -> th.Tensor:
        """(k,) the sums of the losses of so many steps."""
        model, averages = self.model, self.model.averages
        self.adam.rate.fill_(model.policy.optimizer.param_groups[0]["lr"])
        self.copy.load(model.policy.weights.flat)
        self._mean.copy_(averages.mean[0])
        self._count.fill_(averages.count)
        self._total.zero_()
        for first in range(0, steps, STEPS_AT_A_TIME):
            count = min(STEPS_AT_A_TIME, steps - first)
            self.send(model.replay.sample(count * model.batch_size, rng))
            for _ in range(count):
                self._step()
        averages.mean, averages.count = self._mean[None].clone(), averages.count + steps
        return self._total.clone()

    def send(self, samples: Transitions) -> None:
        """Put samples of whole minibatches where the next steps take them from."""
        self.frames.send_waiting()
        count = len(samples) // self.model.batch_size
        next_keys = np.where(samples.continues[:, None], samples.next_keys, 0)
        columns: list[tuple[th.Tensor, NDArray[Any]]] = [
            (self._places[0], self.frames.places(samples.keys)),
            (self._actions, samples.actions),
            (self._returns, samples.returns),
        ]
        if self.model.k > 1:
            columns += [
                (self._places[1], self.frames.places(next_keys)),
                (self._rewards, samples.rewards),
                (self._continues, samples.continues),
            ]
        for mine, values in columns:
            mine[:count].copy_(th.from_numpy(values).view(count, *mine.shape[1:]))
        self._at.zero_()

    def step(self) -> None:
        """One step on the mean over j of each loss divided by its average."""
        losses = self.losses()
        found, smoothing = losses.detach(), self.model.loss_smoothing
        self._count.add_(1)
        self._mean.mul_(smoothing).add_(found, alpha=1 - smoothing)
        averages = self._mean / (1 - smoothing**self._count)
        self.adam.descend((losses / averages.clamp(min=LEAST_LOSS)).mean(), self.copy)
        self._total.add_(found)
        self._at.add_(1).remainder_(STEPS_AT_A_TIME)

    def losses(self) -> th.Tensor:
        """(k,) the mean squared error of each of Q^1..Q^k."""
        k, actions = self.model.k, self._next(self._actions)
        q = self._q_values(self._next(self._places[0]))  # (B, k, A)
        predicted = q.gather(-1, actions[:, None, None].expand(-1, k, 1))[..., 0]
        targets = self._next(self._returns)[:, None]
        if k > 1:
            with th.no_grad():
                ahead = self._q_values(self._next(self._places[1]))[:, :-1].amax(dim=-1)  # (B, k - 1)
            later = self.model.gamma * self._next(self._continues)[:, None] * ahead
            targets = th.cat([targets, self._next(self._rewards)[:, None] + later], dim=1)
        return (predicted - targets).square().mean(dim=0)

    def _next(self, column: th.Tensor) -> th.Tensor:
        return column.index_select(0, self._at)[0]

    def _q_values(self, places: th.Tensor) -> th.Tensor:
        q_values: th.Tensor = self.model.policy.evaluate(self.copy.tensors, self.frames.at(places))
        return q_values


class SQIRLOnGPU(SQIRL):
    """Deep SQIRL with the same minibatches and checkpoints as `SQIRL`, for envs that stack their frames (`VecFrameStack`).

    The networks compute in bfloat16, their last layers in float32. On a GPU the same seed gives the same run only up to
    rounding, unless `mixed_precision.REPEATABLE` is set, which is slower.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"CnnPolicy": SQIRLPolicyOnGPU}
    policy: SQIRLPolicyOnGPU
    _gradient_steps: GradientSteps | None = None

    def _setup_model(self) -> None:
        super()._setup_model()
        self.policy.prepare()

    @property
    def precision(self) -> str:
        """The precision that the networks compute in, for the record of a run."""
        return str(mixed.compute_type(self.device)).removeprefix("torch.")

    def train(self, samples: int) -> None:
        """Meanwhile the games of the next iteration are started: a seed makes the emulators load their game anew, 0.1 s each."""
        player, seed = self.player, np.random.SeedSequence([self._seed, self.iteration + 1]).spawn(1)[0]
        assert isinstance(player, LivePlayer)
        with ThreadPoolExecutor(1) as helper:
            started = helper.submit(player.start_ahead, seed)
            super().train(samples)
        started.result()

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._player, LivePlayer):
            self._player.forget_start()
        return super()._setup_learn(*args, **kwargs)

    def _descend(self, steps: int, rng: np.random.Generator) -> th.Tensor:
        if self._gradient_steps is None:
            self._gradient_steps = GradientSteps(self)
        return self._gradient_steps.run(steps, rng)

    @property
    def player(self) -> Player:
        if self._player is None and self.env is not None:
            capacity = frames_kept(self.buffer_size)
            self._player = device_player(self.env, capacity=capacity, horizon=horizon_of(self.env), device=self.device)
        return super().player

    def reset_learning(self) -> None:
        super().reset_learning()
        self.policy.forget()

    def _clear_memory(self) -> None:
        super()._clear_memory()
        self._gradient_steps = None  # the moments, the frames or the averages are others now

    def _forget_episodes(self) -> None:
        super()._forget_episodes()
        self._gradient_steps = None

    def set_parameters(self, *args: Any, **kwargs: Any) -> None:
        super().set_parameters(*args, **kwargs)
        self._gradient_steps = None
        self.policy.forget()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_gradient_steps"]
