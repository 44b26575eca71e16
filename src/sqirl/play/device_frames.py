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

#: Steps of all lanes whose frames are sent to the device at a time, if nobody looks at them before.
STEPS_WAITING = 32


def unstacked(env: VecEnv) -> VecEnv:
    """The env below its `VecFrameStack`: it shows only the newest frame, and nobody copies the others."""
    if not isinstance(env, VecFrameStack):
        raise SqirlError(f"the outermost wrapper is {type(env).__name__}, not VecFrameStack")
    return env.venv


class DeviceFrames(FrameMemory):
    """As `FrameMemory`, on a device; memory for all frames is taken at once. A frame has one channel or more.

    New frames wait on the host, and many of them are sent at a time; at the latest when somebody looks at one.
    """

    def __init__(
        self, capacity: int, shape: tuple[int, ...], dtype: Any, *, stacked: int, num_lanes: int, device: th.device
    ) -> None:
        self.device = device
        super().__init__(capacity, shape, dtype, stacked=stacked, num_lanes=num_lanes)
        self._num_lanes, self._count_waiting = num_lanes, 0
        pinned, rows = device.type == "cuda", STEPS_WAITING * num_lanes
        self._waiting = th.zeros((rows, *shape), dtype=self._frames.dtype, pin_memory=pinned)
        self._waiting_places = th.zeros(rows, dtype=th.int64, pin_memory=pinned)
        self._places_waiting: set[int] = set()
        self._sent: Any = th.cuda.Event() if pinned else None  # type: ignore[no-untyped-call]  # after the last transfer

    def _blank(self, shape: tuple[int, ...], dtype: Any) -> th.Tensor:
        return th.zeros(shape, dtype=th.as_tensor(np.empty(0, dtype)).dtype, device=self.device)

    def _write(self, places: NDArray[np.integer], frames: NDArray[Any]) -> None:
        new = places.tolist()
        if self._count_waiting + len(new) > len(self._waiting) or not self._places_waiting.isdisjoint(new):
            self.send_waiting()
        if not self._count_waiting and self._sent is not None:
            self._sent.synchronize()  # else the transfer might take the new frames
        rows = slice(self._count_waiting, self._count_waiting + len(new))
        # By numpy: the threads of torch would take cores from the emulators
        self._waiting.numpy()[rows], self._waiting_places.numpy()[rows] = frames, places
        self._places_waiting.update(new)
        self._count_waiting += len(new)

    def send_waiting(self) -> None:
        """Put the frames that wait to their places; those who read `_frames` by places of their own call it before."""
        count, self._count_waiting = self._count_waiting, 0
        self._places_waiting.clear()
        if not count:
            return
        at, frames = (t[:count].to(self.device, non_blocking=True) for t in (self._waiting_places, self._waiting))
        self._frames.index_copy_(0, at, frames)
        if self._sent is not None:
            self._sent.record()

    def tidy(self) -> None:
        """Send frames when there is no room for those of another step."""
        if self._count_waiting + self._num_lanes > len(self._waiting):
            self.send_waiting()

    def at(self, places: th.Tensor) -> th.Tensor:
        """(n, stacked) places → (n, stacked·C, …) the frames there, stacked along their first axis."""
        frames: th.Tensor = self._frames.index_select(0, places.flatten())
        return frames.view(len(places), -1, *frames.shape[2:])

    def observations(self, keys: NDArray[np.int32]) -> Any:
        self.send_waiting()
        return self.at(th.as_tensor(self.places(keys)).to(self.device))

    def state(self) -> dict[str, Any]:
        self.send_waiting()
        state = super().state()
        return {**state, "frames": state["frames"].cpu().numpy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.send_waiting()
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
