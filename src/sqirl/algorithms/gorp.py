"""GORP as a Stable-Baselines3 algorithm: open-loop, greedy over the returns of random play after every k-long sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv

from sqirl.algorithms.episodes import Act, Played
from sqirl.algorithms.fit import action_sequences, check_sequences
from sqirl.algorithms.policies import SequencePolicy
from sqirl.algorithms.timed import IteratedAlgorithm


class GORP(IteratedAlgorithm):
    """Greedy Over Random Policy: iteration i fixes the action at timestep i.

    It plays m episodes for each of the A^k action sequences after the actions fixed so far, at random after them, and takes
    the first action of the sequence with the highest mean return. From a table, all episodes of an iteration are played
    side by side. Until every action is fixed, the policy goes on with the rest of the best sequence, then at random.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"SequencePolicy": SequencePolicy}
    policy: SequencePolicy

    def __init__(
        self,
        policy: str | type[SequencePolicy] = "SequencePolicy",
        env: GymEnv | str | None = None,
        *,
        k: int = 1,
        m: int = 100,
        gamma: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, k=k, m=m, gamma=gamma, **kwargs)

    def iterate(self, play: Callable[[Act, int], Played | None]) -> bool:
        fixed = self.policy.actions[: self.iteration].cpu().numpy()
        left = self.k if self.horizon is None else min(self.k, self.horizon - self.iteration)
        sequences = action_sequences(self.policy.num_actions, left)
        plan = np.concatenate([np.tile(fixed, (len(sequences), 1)), sequences], axis=1).astype(np.int64)
        played = play(self._follow(np.repeat(plan, self.m, axis=0)), len(plan) * self.m)
        if played is None:
            return False
        returns = _returns_by_episode(played, self.gamma).reshape(len(sequences), self.m)
        best = sequences[returns.mean(axis=1).argmax()]
        self.policy.actions = th.as_tensor(np.concatenate([fixed, best]), dtype=th.int64, device=self.device)
        return True

    def _follow(self, plans: np.ndarray) -> Act:
        """Episode e follows plan e, then acts at random; episodes are dealt out to lanes in turn."""
        rng, rounds = self.generator(0), np.full(0, -1)

        def act(t: np.ndarray, keys: np.ndarray) -> np.ndarray:
            nonlocal rounds
            n = len(t)
            rounds = (rounds if len(rounds) else np.full(n, -1)) + (t == 0)
            episode = np.minimum(np.arange(n) + n * rounds, len(plans) - 1)
            random = rng.integers(self.policy.num_actions, size=n)
            known = t < plans.shape[1]
            return np.where(known, plans[episode, np.minimum(t, plans.shape[1] - 1)], random)

        return act

    def start_anew(self) -> None:
        self.policy.actions = self.policy.actions[:0]

    def _setup_model(self) -> None:
        super()._setup_model()
        check_sequences(self.policy.num_actions, self.k)
        self.policy.rng = np.random.default_rng(self.seed)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy"], []


def _returns_by_episode(played: Played, gamma: float) -> np.ndarray:
    """(episodes,) the discounted return of each, in the order in which they were dealt out: lane by lane in rounds."""
    firsts = played.active & (played.t == 0)
    rounds = np.cumsum(firsts, axis=0)[firsts] - 1
    lanes = np.nonzero(firsts)[1]
    order = np.lexsort((lanes, rounds))
    returns: np.ndarray = played.returns_to_go(gamma)[firsts][order]
    return returns
