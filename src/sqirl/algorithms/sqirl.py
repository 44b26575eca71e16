"""Deep SQIRL: the paper's algorithm with one neural network as the regression oracle (appendix C)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv

from sqirl.algorithms.core import Batch, LossAverages, gradient_step
from sqirl.algorithms.episodes import Act, Played
from sqirl.algorithms.policies import SQIRLCnnPolicy, SQIRLPolicy
from sqirl.algorithms.replay import Replay, Transitions, distinct_observations
from sqirl.algorithms.sources import LiveSource
from sqirl.algorithms.timed import IteratedAlgorithm
from sqirl.errors import SqirlError
from sqirl.mdp.arrays import distinct_rows

_TRAINING, _EXPLORING = 0, 1  # purposes of random generators


class SQIRL(IteratedAlgorithm):
    """Shallow Q-Iteration via Reinforcement Learning, deep.

    Where it departs from the paper's algorithm as written (`fit_sqirl`), and why:

    1. One network with k·A outputs stands for Q^1..Q^k at all timesteps: it generalises over time, as deep RL does.
    2. Its weights are copied after iteration i and act at timestep i ever after: that is the paper's policy π_i.
    3. Data are kept: the last 10^6 transitions, of which only those after the frozen prefix are stored, because earlier ones were
       chosen by the policy and are not what Q^1, the value of random play, is about.
    4. Q^1..Q^k are regressed at once, on the targets of the current network (no target network): each gradient step is one on
       the mean of the k squared errors, every one divided by an exponential average of its past values, since the
       Monte Carlo targets of Q^1 are far noisier than the others.
    5. All timesteps from i on are trained, not only i..i+k-1: later ones come next, and what is learned of them is a start.
    6. Rewards may be discounted (γ = 0.99 on MiniGrid), without which networks fail on long sparse episodes.

    :param k: steps of Q-iteration, Q^k is what the policy is greedy on
    :param m: episodes in each iteration
    :param horizon: timesteps of an episode; taken from the env where it tells, else learning goes on to the end of its budget
    :param live: play an id's simulator even where its table is at hand
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"CnnPolicy": SQIRLCnnPolicy, "MlpPolicy": SQIRLPolicy}
    policy: SQIRLPolicy

    def __init__(
        self,
        policy: str | type[SQIRLPolicy],
        env: GymEnv | str | None,
        *,
        k: int = 1,
        m: int = 100,
        learning_rate: float = 1e-4,
        gamma: float = 1.0,
        buffer_size: int = 1_000_000,
        batch_size: int = 128,
        n_epochs: int = 10,
        loss_smoothing: float = 0.99,
        **kwargs: Any,
    ) -> None:
        for name, value in (("buffer_size", buffer_size), ("batch_size", batch_size), ("n_epochs", n_epochs)):
            if value < 1:
                raise SqirlError(f"{name} = {value} is below 1")
        self.buffer_size, self.batch_size = buffer_size, batch_size
        self.n_epochs, self.loss_smoothing = n_epochs, loss_smoothing
        super().__init__(policy, env, k=k, m=m, gamma=gamma, learning_rate=learning_rate, **kwargs)

    def iterate(self, play: Callable[[Act, int], Played | None]) -> bool:
        played = play(self._explore(), self.m)  # π_0..π_{i-1}, then uniformly random
        if played is None:
            return False
        self.replay.extend(played.transitions(self.gamma, first=self.iteration))
        if isinstance(self.source, LiveSource):
            self.replay.forget_until(self.source.memory.holds)
        self.train(self.m * self.horizon if self.horizon is not None else int(played.active.sum()))
        self.policy.freeze()
        return True

    def train(self, samples: int) -> None:
        """n epochs over so many samples (m·T) from the buffer, in minibatches."""
        if self.replay.size == 0:  # every episode was over before this timestep
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        steps = math.ceil(self.n_epochs * samples / self.batch_size)
        rng, total = self.generator(_TRAINING), th.zeros(self.k, device=self.device)
        for _ in range(steps):
            batch = self._batch(self.replay.sample(self.batch_size, rng))
            losses = gradient_step(self.policy.networks, self.policy.optimizer, self.averages, batch, self.gamma)
            total += losses[0]  # not fetched here: a GPU would have to be waited for
        self.n_updates += steps
        self.policy.set_training_mode(False)
        for j, loss in enumerate((total / steps).tolist(), start=1):
            self.logger.record(f"train/loss_q{j}", loss)
        self.logger.record("train/loss", float(total.mean() / steps))
        self.logger.record("train/n_updates", self.n_updates, exclude="tensorboard")

    def _batch(self, samples: Transitions) -> Batch:
        """The samples as tensors, every distinct observation once."""
        distinct = distinct_observations(samples, with_next=self.k > 1)
        observations = th.as_tensor(self.source.observations(distinct.keys)).to(self.device)

        def tensor(array: np.ndarray, dtype: th.dtype) -> th.Tensor:
            return th.as_tensor(array, device=self.device).to(dtype)[None]

        return Batch(
            self.policy.preprocess(observations)[None],
            distinct.learned,
            tensor(distinct.place, th.int64),
            tensor(distinct.next_place, th.int64),
            tensor(samples.goes_on, th.float32),
            tensor(samples.actions, th.int64),
            tensor(samples.rewards, th.float32),
            tensor(samples.returns, th.float32),
        )

    def _explore(self) -> Act:
        """The frozen policies at timesteps before this iteration's, uniformly random actions from it on."""
        rng = self.generator(_EXPLORING)

        def act(t: np.ndarray, keys: np.ndarray) -> np.ndarray:
            actions = rng.integers(self.policy.num_actions, size=len(t))
            bound = np.flatnonzero(t < self.iteration)
            if len(bound):
                actions[bound] = self.act_by_keys(t[bound], keys[bound])
            return actions

        return act

    def act_by_keys(self, t: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The greedy actions at the timesteps (n,) where these keys are observed; equal questions are answered once."""
        if not self.source.keys_last:
            return self.policy.act(t, th.as_tensor(self.source.observations(keys)))
        questions = np.column_stack([np.minimum(t, len(self.policy.frozen)), keys]).astype(np.int32)
        distinct, _, place = distinct_rows(questions)
        answers = np.array([self._known_actions.get(row.tobytes(), -1) for row in distinct])
        new = np.flatnonzero(answers < 0)
        if len(new):
            asked = distinct[new]
            answers[new] = self.policy.act(asked[:, 0], th.as_tensor(self.source.observations(asked[:, 1:])))
            for row, action in zip(asked, answers[new].tolist(), strict=True):
                if row[0] < len(self.policy.frozen):  # what is frozen never changes
                    self._known_actions[row.tobytes()] = action
        return answers[place]

    # A run's life -----------------------------------------------------------------------------------------------------

    def start_anew(self) -> None:
        self.policy.frozen.blocks.clear()
        self._forget()

    def _setup_model(self) -> None:
        super()._setup_model()
        self.n_updates = 0
        self._forget()

    def _forget(self) -> None:
        self._known_actions: dict[bytes, int] = {}
        self._replay: Replay | None = None
        self.averages = LossAverages(self.loss_smoothing, th.zeros(1, self.k, device=self.device))

    @property
    def replay(self) -> Replay:
        if self._replay is None:
            self._replay = Replay(self.buffer_size, self.source.key_length)
        return self._replay

    def _transitions_kept(self) -> int:
        return self.buffer_size

    def _first_kept(self) -> int:
        """A step that is stored shows the frames before it, too."""
        return self.iteration - getattr(self.source, "stacked", 1) + 1

    def _forget_episodes(self) -> None:
        self._known_actions, self._replay = {}, None

    def _policy_arguments(self) -> dict[str, Any]:
        return {**self.policy_kwargs, "k": self.k}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_replay", "_known_actions"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], []

    def save_checkpoint(self, path: str | Path) -> None:
        """Everything that learning goes on from: call it between iterations."""
        from sqirl.algorithms.checkpoints import save_checkpoint

        save_checkpoint(self, Path(path))

    def load_checkpoint(self, path: str | Path) -> None:
        """Go on from a checkpoint of a model made with the same arguments: `learn(…, reset_num_timesteps=False)`."""
        from sqirl.algorithms.checkpoints import load_checkpoint

        load_checkpoint(self, Path(path))
