"""GORP as a Stable-Baselines3 algorithm: open-loop, greedy over the returns of random play after every k-long sequence."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from sqirl.algorithms.gorp.policy import SequencePolicy
from sqirl.algorithms.gorp.sequences import action_sequences, check_sequences, follow, plans_after
from sqirl.algorithms.iterated import IteratedAlgorithm, PlayEpisodes


class GORP(IteratedAlgorithm):
    """Greedy Over Random Policy: iteration i fixes the action at timestep i.

    It plays m episodes for each of the A^k action sequences after the actions fixed so far, at random after them, and fixes
    the first action of the sequence with the highest mean return. From a table all episodes of an iteration are played
    side by side. Until every action is fixed, the policy continues with the rest of the best sequence, then at random.

    :param policy: "SequencePolicy", the only one
    :param env: an id, a Gymnasium env, or a VecEnv; an id is played from its table where that is stored
    :param k: length of the action sequences that are tried
    :param m: episodes for each sequence in each iteration
    :param gamma: discount of rewards
    :param horizon: timesteps of an episode; the env's own if None; without one, learning lasts as long as its budget
    :param live: play the game of an id even where its table is stored
    :param policy_kwargs: arguments of the policy; it has none of its own
    :param stats_window_size: episodes over which the logged means are taken
    :param tensorboard_log: folder of TensorBoard's logs; None for no logs
    :param verbose: 0 prints nothing, 1 says what is played and logs
    :param seed: of all randomness; None draws one
    :param device: "cpu", "cuda" or "auto"
    :param _init_setup_model: build the policy when the model is made (Stable-Baselines3's `load` does it later)
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"SequencePolicy": SequencePolicy}
    policy: SequencePolicy

    def __init__(
        self,
        policy: str | type[SequencePolicy] = "SequencePolicy",
        env: gym.Env[Any, Any] | VecEnv | str | None = None,
        *, k: int = 1, m: int = 100, gamma: float = 1.0, horizon: int | None = None, live: bool = False,
        policy_kwargs: dict[str, Any] | None = None, stats_window_size: int = 100, tensorboard_log: str | None = None,
        verbose: int = 0, seed: int | None = None, device: th.device | str = "auto", _init_setup_model: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            policy, env, k=k, m=m, gamma=gamma, horizon=horizon, live=live, learning_rate=0.0, policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size, tensorboard_log=tensorboard_log, verbose=verbose, seed=seed, device=device,
            _init_setup_model=_init_setup_model,
        )  # fmt: skip

    def iterate(self, play: PlayEpisodes) -> bool:
        fixed = self.policy.actions[: self.iteration].cpu().numpy()
        left = self.k if self.horizon is None else min(self.k, self.horizon - self.iteration)
        sequences = action_sequences(self.policy.num_actions, left)
        plans = plans_after(fixed, sequences, self.m)
        episodes = play(follow(plans, self.policy.num_actions, self.generator(0)), len(plans))
        if episodes is None:
            return False
        mean_returns = episodes.returns(self.gamma).reshape(len(sequences), self.m).mean(axis=1)
        best = sequences[mean_returns.argmax()]
        self.policy.actions = th.as_tensor(np.concatenate([fixed, best]), dtype=th.int64, device=self.device)
        return True

    def reset_learning(self) -> None:
        self.policy.actions = self.policy.actions[:0]

    def _setup_model(self) -> None:
        super()._setup_model()
        check_sequences(self.policy.num_actions, self.k)
        self.policy.rng = np.random.default_rng(self.seed)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy"], []
