"""What a device can run."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch as th


def has_triton(device: th.device) -> bool:
    """Are there Triton kernels for it? Triton comes with PyTorch for GPUs, and is imported only there."""
    return device.type == "cuda" and _is_installed()


@cache
def _is_installed() -> bool:
    return importlib.util.find_spec("triton") is not None
