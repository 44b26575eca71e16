"""A table as a vectorised env of Stable-Baselines3: what PPO and DQN play, and where SQIRL and GORP find the table."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn

from sqirl.mdp.tabular import END
from sqirl.play.lanes import Lanes
from sqirl.play.table import Table


class BatchedVecEnv(VecEnv):
    """A `VecEnv` whose lanes are not env objects of their own: attributes and methods belong to all lanes together."""

    def close(self) -> None:
        """Nothing to close."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        return [getattr(self, method_name)(*args, **kwargs)] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))


class TableVecEnv(BatchedVecEnv):
    """`num_envs` episodes side by side from the table; ends and restarts are reported in the form of Stable-Baselines3.

    Rewards are divided by `reward_factor`, for learning; the episode's total in `infos` is in the units of the game. The last
    observation of an episode whose game is over is blank: the table has no state for it, and nothing bootstraps from it. An
    episode that reaches the horizon is truncated only if the table says so.
    """

    def __init__(self, table: Table, num_envs: int = 1, *, reward_factor: float = 1.0, seed: int | None = None) -> None:
        self.table, self.reward_factor = table, reward_factor
        self.horizon = table.horizon
        self.render_mode = None
        space = gym.spaces.Box(0, 255, table.view.observation_shape, np.uint8)
        super().__init__(num_envs, space, gym.spaces.Discrete(table.mdp.num_actions))
        self.lanes = Lanes(table, num_envs, np.random.default_rng(seed))
        self._totals = np.zeros(num_envs)
        self._began = time.time()
        # Keys of the current observations, of those before the last step, and of those after it (before any restart)
        self.keys = self.acted_keys = self.last_keys = self.lanes.keys.copy()

    def reset(self) -> NDArray[np.uint8]:
        if self._seeds[0] is not None:
            self.lanes.rng = np.random.default_rng(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self.lanes.reset(np.ones(self.num_envs, bool))
        self._totals[:] = 0
        self.keys = self.lanes.keys.copy()
        return self.table.observations(self.keys)

    def step_async(self, actions: NDArray[np.integer]) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        rewards, ends = self.lanes.step(self._actions)
        self._totals += rewards
        self.acted_keys, self.last_keys = self.keys, self.lanes.keys.copy()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ends.any():
            self._finish(np.flatnonzero(ends), infos)
            self.lanes.reset(ends)
            self._totals[ends] = 0
        self.keys = self.lanes.keys.copy()
        return self.table.observations(self.keys), (rewards / self.reward_factor).astype(np.float32), ends, infos

    def _finish(self, lanes: NDArray[np.integer], infos: list[dict[str, Any]]) -> None:
        last = self.table.observations(self.last_keys[lanes])
        cut = self.table.truncates & (self.lanes.states != END)  # (num_envs,)
        for lane, observation in zip(lanes.tolist(), last, strict=True):
            elapsed = round(time.time() - self._began, 6)
            infos[lane]["terminal_observation"] = observation
            infos[lane]["TimeLimit.truncated"] = bool(cut[lane])
            infos[lane]["episode"] = {"r": float(self._totals[lane]), "l": int(self.lanes.t[lane]), "t": elapsed}

    def state(self) -> dict[str, Any]:
        """For a checkpoint: where every lane is."""
        names = ("keys", "acted_keys", "last_keys", "_totals")
        return {"lanes": self.lanes.state(), **{name: getattr(self, name) for name in names}}

    def restore(self, state: dict[str, Any]) -> None:
        self.lanes.restore(state["lanes"])
        self.keys, self.acted_keys, self.last_keys = state["keys"], state["acted_keys"], state["last_keys"]
        self._totals = state["_totals"]

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        from stable_baselines3.common.monitor import Monitor

        # Episodes are reported in infos as Monitor does it, so no wrapper is needed
        return [wrapper_class is Monitor] * len(list(self._get_indices(indices)))
