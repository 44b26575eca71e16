"""Deep SQIRL: the paper's algorithm with one neural network as the regression oracle (appendix C)."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.vec_env import VecEnv

from sqirl.algorithms.iterated import IteratedAlgorithm, PlayEpisodes
from sqirl.algorithms.sqirl.gradient_step import Batch, LossAverages, gradient_step
from sqirl.algorithms.sqirl.hyperparameters import PAPER
from sqirl.algorithms.sqirl.policy import SQIRLCnnPolicy, SQIRLPolicy
from sqirl.algorithms.sqirl.replay import Replay, distinct_observations
from sqirl.errors import SqirlError
from sqirl.mdp.arrays import distinct_rows
from sqirl.play.episodes import Act, Episodes, Transitions
from sqirl.play.live import LivePlayer

_TRAINING, _EXPLORING = 0, 1  # purposes of random generators


class SQIRL(IteratedAlgorithm):
    """Shallow Q-Iteration via Reinforcement Learning, deep.

    Where it departs from Algorithm 2 of the paper (`sqirl.algorithms.literal.fit_sqirl`), and why:

    1. One network with k·A outputs stands for Q^1..Q^k at all timesteps: it generalises over time, as deep RL does.
    2. Its weights are copied after iteration i and act at timestep i from then on: that is the paper's policy π_i.
    3. Data are kept: the last 10^6 transitions. Only those at timestep i and later are stored, because the earlier actions were
       chosen by the policy, and Q^1 is the value of random play.
    4. Q^1..Q^k are regressed at once, on the targets of the current network (no target network): each gradient step is one on
       the mean of the k squared errors. Every error is divided by an exponential average of its past values, since the
       Monte Carlo targets of Q^1 are far noisier than the others.
    5. All timesteps from i on are trained, not only i..i+k-1: the later ones come next and start from what is learned now.
    6. Rewards may be discounted (γ = 0.99 on MiniGrid), without which networks fail on long sparse episodes.

    :param policy: "CnnPolicy" for pictures, "MlpPolicy" for vectors, or a subclass of `SQIRLPolicy`
    :param env: an id, a Gymnasium env, or a VecEnv; an id is played from its table where that is stored
    :param k: steps of Q-iteration; the policy is greedy on Q^k
    :param m: episodes in each iteration
    :param learning_rate: of Adam; a number, or a function of the share of the budget that remains
    :param gamma: discount of rewards
    :param buffer_size: transitions in the replay buffer
    :param batch_size: transitions in a minibatch
    :param n_epochs: epochs of every iteration; one epoch has m·T samples from the buffer
    :param loss_smoothing: how slowly the average of each loss forgets (0.99: about 100 gradient steps)
    :param max_grad_norm: gradients of a larger norm are scaled down to it; None for no limit
    :param counts_steps_played: an epoch has as many samples as steps were played, not m·T
    :param horizon: timesteps of an episode; the env's own if None; without one, learning lasts as long as its budget
    :param live: play the game of an id even where its table is stored
    :param policy_kwargs: arguments of the policy, such as `net_arch` or `features_extractor_class`
    :param stats_window_size: episodes over which the logged means are taken
    :param tensorboard_log: folder of TensorBoard's logs; None for no logs
    :param verbose: 0 prints nothing, 1 says what is played and logs
    :param seed: of all randomness; None draws one
    :param device: "cpu", "cuda" or "auto"
    :param _init_setup_model: build the network when the model is made (Stable-Baselines3's `load` does it later)
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"CnnPolicy": SQIRLCnnPolicy, "MlpPolicy": SQIRLPolicy}
    policy: SQIRLPolicy

    def __init__(
        self,
        policy: str | type[SQIRLPolicy],
        env: gym.Env[Any, Any] | VecEnv | str | None,
        *,
        k: int = 1,
        m: int = 100,
        learning_rate: float | Schedule = PAPER.learning_rate,
        gamma: float = 1.0,
        buffer_size: int = PAPER.buffer_size,
        batch_size: int = PAPER.batch_size,
        n_epochs: int = PAPER.n_epochs,
        loss_smoothing: float = PAPER.loss_smoothing,
        max_grad_norm: float | None = PAPER.max_grad_norm,
        counts_steps_played: bool = PAPER.counts_steps_played,
        horizon: int | None = None,
        live: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        for name, value in (("buffer_size", buffer_size), ("batch_size", batch_size), ("n_epochs", n_epochs)):
            if value < 1:
                raise SqirlError(f"{name} = {value} is below 1")
        self.buffer_size, self.batch_size = buffer_size, batch_size
        self.n_epochs, self.loss_smoothing = n_epochs, loss_smoothing
        self.max_grad_norm, self.counts_steps_played = max_grad_norm, counts_steps_played
        super().__init__(
            policy,
            env,
            k=k,
            m=m,
            gamma=gamma,
            horizon=horizon,
            live=live,
            learning_rate=learning_rate,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
        )

    def iterate(self, play: PlayEpisodes) -> bool:
        episodes = play(self._explore(), self.m)  # π_0..π_{i-1}, then uniformly random
        if episodes is None:
            return False
        self.replay.extend(episodes.since(self.iteration, self.gamma))
        if isinstance(self.player, LivePlayer):
            self.replay.forget_until(self.player.memory.holds)
        self.train(self._samples_of(episodes))
        self.policy.freeze()
        return True

    def _samples_of(self, episodes: Episodes) -> int:
        """The samples of an epoch after these episodes."""
        if self.counts_steps_played or self.horizon is None:
            return episodes.num_steps
        return self.m * self.horizon

    def train(self, samples: int) -> None:
        """n epochs over so many samples (m·T) from the buffer, in minibatches."""
        if self.replay.size == 0:  # every episode was over before this timestep
            return
        began = time.perf_counter()
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        steps = math.ceil(self.n_epochs * samples / self.batch_size)
        total = self._descend(steps, self.generator(_TRAINING))
        self.n_updates += steps
        self.policy.set_training_mode(False)
        for j, loss in enumerate((total / steps).tolist(), start=1):
            self.logger.record(f"train/loss_q{j}", loss)
        self.logger.record("train/loss", float(total.mean() / steps))
        self.logger.record("train/n_updates", self.n_updates, exclude="tensorboard")
        self.training_seconds += time.perf_counter() - began

    def _descend(self, steps: int, rng: np.random.Generator) -> th.Tensor:
        """So many gradient steps; returns the (k,) sums of their losses."""
        total = th.zeros(self.k, device=self.device)
        for _ in range(steps):
            batch = self._batch(self.replay.sample(self.batch_size, rng))
            losses = gradient_step(
                self.policy.networks, self.policy.optimizer, self.averages, batch, self.gamma, self.max_grad_norm
            )
            total += losses[0]  # not fetched here: that would wait for the GPU
        return total

    def _batch(self, samples: Transitions) -> Batch:
        """The samples as tensors, each distinct observation once."""
        distinct = distinct_observations(samples, with_next=self.k > 1)
        observations = th.as_tensor(self.player.observations(distinct.keys)).to(self.device)

        def tensor(array: NDArray[Any], dtype: th.dtype) -> th.Tensor:
            return th.as_tensor(array, device=self.device).to(dtype)[None]

        return Batch(
            self.policy.preprocess(observations)[None],
            distinct.learned,
            tensor(distinct.place, th.int64),
            tensor(distinct.next_place, th.int64),
            tensor(samples.continues, th.float32),
            tensor(samples.actions, th.int64),
            tensor(samples.rewards, th.float32),
            tensor(samples.returns, th.float32),
        )

    def _explore(self) -> Act:
        """The frozen policies at timesteps before this iteration's, uniformly random actions from it on."""
        rng = self.generator(_EXPLORING)

        def act(t: NDArray[np.int64], keys: NDArray[np.int32], episode: NDArray[np.int64]) -> NDArray[np.integer]:
            actions = rng.integers(self.policy.num_actions, size=len(t))
            bound = np.flatnonzero(t < self.iteration)
            if len(bound):
                actions[bound] = self.act_by_keys(t[bound], keys[bound])
            return actions

        return act

    def act_by_keys(self, t: NDArray[np.integer], keys: NDArray[np.int32]) -> NDArray[np.integer]:
        """(n,) the greedy actions at the timesteps (n,) where these keys are observed; equal ones are evaluated once."""
        if not self.player.keys_are_permanent:
            return self.policy.act(t, th.as_tensor(self.player.observations(keys)))
        rows = np.column_stack([np.minimum(t, len(self.policy.frozen)), keys]).astype(np.int32)
        distinct, _, place = distinct_rows(rows)
        actions = np.array([self._known_actions.get(row.tobytes(), -1) for row in distinct])
        unknown = np.flatnonzero(actions < 0)
        if len(unknown):
            new = distinct[unknown]
            actions[unknown] = self.policy.act(new[:, 0], th.as_tensor(self.player.observations(new[:, 1:])))
            for row, action in zip(new, actions[unknown].tolist(), strict=True):
                if row[0] < len(self.policy.frozen):  # frozen weights never change, so their actions are remembered
                    self._known_actions[row.tobytes()] = action
        answers: NDArray[np.integer] = actions[place]
        return answers

    # State of a run ---------------------------------------------------------------------------------------------------

    def reset_learning(self) -> None:
        self.policy.frozen.blocks.clear()
        self._clear_memory()

    def _setup_model(self) -> None:
        super()._setup_model()
        self.n_updates = 0
        self.training_seconds = 0.0
        self._clear_memory()

    def _clear_memory(self) -> None:
        self._known_actions: dict[bytes, int] = {}
        self._replay: Replay | None = None
        self.averages = LossAverages(self.loss_smoothing, th.zeros(1, self.k, device=self.device))

    @property
    def replay(self) -> Replay:
        if self._replay is None:
            self._replay = Replay(self.buffer_size, self.player.key_length)
        return self._replay

    def _transitions_kept(self) -> int:
        return self.buffer_size

    def _first_kept(self) -> int:
        """A step that is stored shows the frames before it, too."""
        return self.iteration - getattr(self.player, "stacked", 1) + 1

    def _forget_episodes(self) -> None:
        self._known_actions, self._replay = {}, None

    def _policy_arguments(self) -> dict[str, Any]:
        return {**self.policy_kwargs, "k": self.k}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_replay", "_known_actions"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], []

    def save_checkpoint(self, path: str | Path) -> None:
        """Write everything needed to resume; call it between iterations."""
        from sqirl.algorithms.sqirl.checkpoint import save_checkpoint

        save_checkpoint(self, Path(path))

    def load_checkpoint(self, path: str | Path) -> None:
        """Resume from a checkpoint of a model made with the same arguments: `learn(…, reset_num_timesteps=False)`."""
        from sqirl.algorithms.sqirl.checkpoint import load_checkpoint

        load_checkpoint(self, Path(path))
