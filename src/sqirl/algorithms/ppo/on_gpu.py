"""PPO for stacked pictures on a GPU: the rollout stays on the device; acting and a gradient step are one CUDA graph each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from sqirl.algorithms.mixed_precision import (
    Evaluation,
    FlatAdam,
    FlatWeights,
    GreedyActions,
    WorkingCopy,
    as_graph,
    compute_type,
    precise_linear,
)
from sqirl.algorithms.ppo.rollout import DeviceRollout, Minibatch
from sqirl.errors import SqirlError
from sqirl.play.device_frames import unstacked

#: What is logged of a gradient step, under Stable-Baselines3's names.
LOGGED = ("policy_gradient_loss", "value_loss", "entropy_loss", "clip_fraction", "approx_kl", "loss")


class ActorCritic(nn.Module):
    """A policy of Stable-Baselines3 as a function: pictures in [0, 1] → logits (n, A) and values (n,), in float32.

    The policy itself names its features three times, and `functional_call` would leave the given weights in it.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        if not policy.share_features_extractor:
            raise SqirlError("on a GPU the policy and the values of PPO share their features")
        self.features_extractor, self.mlp_extractor = policy.features_extractor, policy.mlp_extractor
        self.action_net, self.value_net = policy.action_net, policy.value_net

    @property
    def precise(self) -> list[str]:
        """The names of the weights that stay in float32."""
        return [name for name, _ in self.named_parameters() if name.startswith(("action_net.", "value_net."))]

    def forward(self, observations: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        for_policy, for_values = self.mlp_extractor(self.features_extractor(observations))
        return precise_linear(self.action_net, for_policy), precise_linear(self.value_net, for_values)[:, 0]


@dataclass(eq=False)
class Graphs:
    """What lasts as long as one call of `learn`: the functions that are captured, and the tensors that they read."""

    act: Callable[[], object]
    descend: Callable[[], object]  # one minibatch of full size
    adam: FlatAdam


class PPOOnGPU(PPO):
    """Stable-Baselines3's PPO with the same losses, minibatches and checkpoints.

    The differences: (1) networks compute in bfloat16, their last layers in float32; (2) actions are drawn by the device, so
    the same seed gives other actions than Stable-Baselines3; (3) `target_kl` and `clip_range_vf` are refused; (4) on a GPU the
    same seed gives the same run only up to rounding, unless `mixed_precision.REPEATABLE` is set, which is slower.
    `seconds` says how long emulation, acting and learning took.
    """

    rollout_buffer: DeviceRollout

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "rollout_buffer_class": DeviceRollout})

    @property
    def precision(self) -> str:
        """The precision that the networks compute in, for the record of a run."""
        return str(compute_type(self.device)).removeprefix("torch.")

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.target_kl is not None or self.clip_range_vf is not None:
            raise SqirlError("PPO on a GPU has neither target_kl nor clip_range_vf")
        device, envs = self.device, self.n_envs
        network = ActorCritic(self.policy)
        self._evaluate = Evaluation(network)
        self._weights = FlatWeights(dict(network.named_parameters()), precise=network.precise, stacked=False)
        self._copy = WorkingCopy(self._weights, compute_type(device))
        self._graphs: Graphs | None = None
        channels, height, width = self.observation_space.shape or (0, 0, 0)
        self._greedy = GreedyActions(lambda *given: self._evaluate(*given)[0], self._weights, (channels, height, width))
        # What is seen now, and what the host tells the device before every step
        self._stack = th.zeros((envs, channels, height, width), dtype=th.uint8, device=device)
        self._frame = th.zeros((envs, height, width), dtype=th.uint8, device=device)
        self._going_on = th.zeros(envs, dtype=th.uint8, device=device)
        self._told = [th.zeros_like(tensor, device="cpu") for tensor in (self._frame, self._going_on)]
        self._chosen = th.zeros(envs, dtype=th.int64, device=device)
        if device.type == "cuda":
            self._told = [tensor.pin_memory() for tensor in self._told]
        self._clip = th.zeros((), device=device)
        self._order = th.zeros(self.n_epochs, self.n_steps * envs, dtype=th.int64, device=device)
        self._rows = th.zeros(self.n_epochs * self._num_full, self.batch_size, dtype=th.int64, device=device)
        self._at = th.zeros(1, dtype=th.int64, device=device)
        self._log = th.zeros(len(self._rows), len(LOGGED), device=device)
        self.seconds = {"emulation": 0.0, "acting": 0.0, "learning": 0.0}

    @property
    def _num_full(self) -> int:
        """Minibatches of full size in an epoch."""
        return self.n_steps * self.n_envs // self.batch_size

    def _logits_and_values(self, observations: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        found: tuple[th.Tensor, th.Tensor] = self._evaluate(self._copy.tensors, observations)
        return found

    # Acting -----------------------------------------------------------------------------------------------------------

    def _next_stack(self) -> th.Tensor:
        """The newest frame on those before it, which are blank where an episode starts."""
        before = self._stack[:, 1:] * self._going_on[:, None, None, None]
        return th.cat([before, self._frame[:, None]], dim=1)

    @th.no_grad()
    def _act(self) -> None:
        self._stack.copy_(self._next_stack())
        logits, values = self._logits_and_values(self._stack)
        log_probs = logits.log_softmax(-1)
        waiting = th.empty_like(
            log_probs
        ).exponential_()  # the least of these times E_a / p_a is drawn with probability p_a
        self._chosen.copy_((log_probs - waiting.log()).argmax(-1))
        taken = log_probs.gather(-1, self._chosen[:, None])[:, 0]
        self.rollout_buffer.write(observations=self._stack, actions=self._chosen, values=values, log_probs=taken)

    def _tell(self, observations: NDArray[Any], starts: NDArray[Any]) -> None:
        """Send the newest frames to the device."""
        # By numpy: the threads of torch would take cores from the emulators
        self._told[0].numpy()[:] = observations[:, -1]
        self._told[1].numpy()[:] = ~np.asarray(starts, bool)
        for mine, told in zip((self._frame, self._going_on), self._told, strict=True):
            mine.copy_(told, non_blocking=True)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """As Stable-Baselines3's, except that the device sees only the newest frame of every env."""
        assert self._last_obs is not None and self._last_episode_starts is not None
        graphs, frames, rollout = self._prepared(), unstacked(env), self.rollout_buffer
        self.policy.set_training_mode(False)
        rollout.reset()
        callback.on_rollout_start()
        for _ in range(n_rollout_steps):
            began = time.perf_counter()
            self._tell(self._last_obs, self._last_episode_starts)  # type: ignore[arg-type]
            graphs.act()
            actions = self._chosen.cpu().numpy()  # waits for the device
            acted = time.perf_counter()
            new_obs, rewards, dones, infos = frames.step(actions)
            self.seconds["acting"] += acted - began
            self.seconds["emulation"] += time.perf_counter() - acted
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            self._update_info_buffer(infos, dones)
            rollout.outcome(self._bootstrapped(rewards, dones, infos), self._last_episode_starts)
            self._last_obs, self._last_episode_starts = new_obs, dones  # type: ignore[assignment]
        self._tell(self._last_obs, self._last_episode_starts)  # type: ignore[arg-type]
        with th.no_grad():
            last_values = self._logits_and_values(self._next_stack())[1]
        rollout.compute_returns_and_advantage(last_values=last_values, dones=self._last_episode_starts)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    @th.no_grad()
    def _bootstrapped(self, rewards: NDArray[Any], dones: NDArray[Any], infos: list[dict[str, Any]]) -> NDArray[Any]:
        """The rewards, with the value of what follows where an episode was cut off."""
        for lane in np.flatnonzero(dones).tolist():
            if infos[lane].get("TimeLimit.truncated") and infos[lane].get("terminal_observation") is not None:
                last = th.as_tensor(np.array(infos[lane]["terminal_observation"])).to(self.device)[-1:]
                value = self._logits_and_values(th.cat([self._stack[lane, 1:], last])[None])[1]
                rewards[lane] += self.gamma * float(value)
        return rewards

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """The best actions in the precision of training."""
        if not deterministic or np.ndim(observation) != 4:
            return super().predict(observation, state, episode_start, deterministic)
        return self._greedy(self._weights.flat, th.as_tensor(observation)), state

    # Learning ---------------------------------------------------------------------------------------------------------

    def loss(self, batch: Minibatch) -> tuple[th.Tensor, th.Tensor]:
        """The loss of Stable-Baselines3's `PPO.train`, and the numbers of `LOGGED`."""
        logits, values = self._logits_and_values(batch.observations)
        every = logits.log_softmax(-1)
        log_prob = every.gather(-1, batch.actions[:, None])[:, 0]
        advantages = batch.advantages
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_ratio = log_prob - batch.log_probs
        ratio = log_ratio.exp()
        clipped = th.minimum(th.maximum(ratio, 1 - self._clip), 1 + self._clip)
        policy_loss = -th.min(advantages * ratio, advantages * clipped).mean()
        value_loss = (batch.returns - values).square().mean()
        entropy_loss = (every.exp() * every).sum(-1).mean()
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        outside = ((ratio - 1).abs() > self._clip).float().mean()
        kl = (ratio - 1 - log_ratio).mean()
        return loss, th.stack([policy_loss, value_loss, entropy_loss, outside, kl, loss]).detach()

    def _descend(self, adam: FlatAdam, rows: th.Tensor) -> th.Tensor:
        loss, logged = self.loss(self.rollout_buffer.minibatch(rows))
        adam.descend(loss, self._copy, max_norm=self.max_grad_norm)
        return logged

    def train(self) -> None:
        """As Stable-Baselines3's: the same minibatches in the same order."""
        began = time.perf_counter()
        graphs = self._prepared()
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        graphs.adam.rate.fill_(self.policy.optimizer.param_groups[0]["lr"])
        self._clip.fill_(self.clip_range(self._current_progress_remaining))  # type: ignore[operator]
        orders = np.stack([self.rollout_buffer.shuffled() for _ in range(self.n_epochs)])
        self._order.copy_(th.from_numpy(orders))
        full = self._num_full * self.batch_size
        self._rows.copy_(self._order[:, :full].reshape(-1, self.batch_size))
        self._at.zero_()
        logged = []
        for epoch in range(self.n_epochs):
            for _ in range(self._num_full):
                graphs.descend()
            if full < self._order.shape[1]:  # a smaller last minibatch
                logged.append(self._descend(graphs.adam, self._order[epoch, full:]))
        self._n_updates += self.n_epochs
        means = th.cat([self._log, *(row[None] for row in logged)]).mean(dim=0)
        for name, value in zip(LOGGED, means.tolist(), strict=True):
            self.logger.record(f"train/{name}", value)
        rollout = self.rollout_buffer
        self.logger.record(
            "train/explained_variance", explained_variance(rollout.values.flatten(), rollout.returns.flatten())
        )
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.seconds["learning"] += time.perf_counter() - began

    # The graphs -------------------------------------------------------------------------------------------------------

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        self._graphs = None  # the optimizer may have other moments since the last time
        return super()._setup_learn(*args, **kwargs)

    def _prepared(self) -> Graphs:
        if self._graphs is None:
            adam = FlatAdam(self._weights, self.policy.optimizer)
            self._copy.load(self._weights.flat)
            if self._num_full:
                self._evaluate.fuse(self._copy.tensors, (self.batch_size, *self._stack.shape[1:]))

            def descend() -> None:
                logged = self._descend(adam, self._rows.index_select(0, self._at)[0])
                self._log.index_copy_(0, self._at, logged[None])
                self._at.add_(1).remainder_(len(self._rows))

            self._at.zero_()
            changed = [*adam.tensors, self._at, self._log]
            learning = as_graph(descend, self.device, kept=changed) if self._num_full else descend
            self._copy.load(self._weights.flat)
            act = as_graph(self._act, self.device, kept=[self._stack, self.rollout_buffer.step])
            self._graphs = Graphs(act, learning, adam)
        return self._graphs

    def _excluded_save_params(self) -> list[str]:
        own = ("evaluate", "weights", "copy", "graphs", "greedy", "stack", "frame", "going_on", "told", "chosen", "clip",
               "order", "rows", "at", "log")  # fmt: skip
        return [*super()._excluded_save_params(), *(f"_{name}" for name in own)]
