"""Frames of live games in the memory of a GPU, and a player that puts them there."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

from sqirl.errors import SqirlError
from sqirl.play.live import FrameMemory, LivePlayer


def unstacked(env: VecEnv) -> VecEnv:
    """The env below its `VecFrameStack`: it shows only the newest frame, and nobody copies the others."""
    if not isinstance(env, VecFrameStack):
        raise SqirlError(f"the outermost wrapper is {type(env).__name__}, not VecFrameStack")
    return env.venv


class DeviceFrames(FrameMemory):
    """As `FrameMemory`, on a device; memory for all frames is taken at once. A frame has one channel or more."""

    def __init__(self, *args: Any, device: th.device, **kwargs: Any) -> None:
        self.device = device
        super().__init__(*args, **kwargs)

    def _blank(self, shape: tuple[int, ...], dtype: Any) -> th.Tensor:
        return th.zeros(shape, dtype=th.as_tensor(np.empty(0, dtype)).dtype, device=self.device)

    def _write(self, places: NDArray[np.integer], frames: NDArray[Any]) -> None:
        at = th.as_tensor(places).to(self.device)
        self._frames.index_copy_(0, at, th.as_tensor(np.ascontiguousarray(frames)).to(self.device))

    def at(self, places: th.Tensor) -> th.Tensor:
        """(n, stacked) places → (n, stacked·C, …) the frames there, stacked along their first axis."""
        frames: th.Tensor = self._frames.index_select(0, places.flatten())
        return frames.view(len(places), -1, *frames.shape[2:])

    def observations(self, keys: NDArray[np.int32]) -> Any:
        return self.at(th.as_tensor(self.places(keys)).to(self.device))

    def state(self) -> dict[str, Any]:
        state = super().state()
        return {**state, "frames": state["frames"].cpu().numpy()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore({**state, "frames": th.from_numpy(state["frames"]).to(self.device)})


def device_player(env: VecEnv, *, capacity: int, horizon: int | None, device: th.device) -> LivePlayer:
    """A player of an env with stacked frames, which keeps `capacity` frames on the device."""
    frames = unstacked(env)
    assert isinstance(env, VecFrameStack)
    player = LivePlayer(
        env,
        capacity=capacity,
        stacked=int(env.stacked_obs.n_stack),
        horizon=horizon,
        make_memory=partial(DeviceFrames, device=device),
    )
    player.env = frames
    return player
