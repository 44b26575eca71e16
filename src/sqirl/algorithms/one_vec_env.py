"""What Stable-Baselines3 asks of a `VecEnv` whose lanes are not env objects of their own."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices


class OneVecEnv(VecEnv):
    """Attributes and methods belong to the whole, whichever lanes they are asked of."""

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
