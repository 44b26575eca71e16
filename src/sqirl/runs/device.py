"""The device that a run is trained on."""

from __future__ import annotations

import torch as th

from sqirl.errors import SqirlError


def check_device(device: str) -> str:
    """The device; "auto" is a GPU if there is one. It is refused if it is not there: Stable-Baselines3 would take the CPU."""
    if device == "auto":
        return "cuda" if th.cuda.is_available() else "cpu"
    try:
        kind = th.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda") or (kind == "cpu" and device != "cpu"):
        raise SqirlError(f"no device '{device}'; there are auto, cpu, cuda and cuda:0, cuda:1, …")
    if kind == "cuda" and not th.cuda.is_available():
        raise SqirlError(f"no GPU for --device {device}: torch {th.__version__} sees none; take --device cpu")
    return device
