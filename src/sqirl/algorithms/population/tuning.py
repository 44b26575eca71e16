"""Launch parameters of the kernels: the fastest of those that were tried on an H200."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch as th

Meta = dict[str, Any]


@dataclass(frozen=True)
class Tuning:
    """Tile shapes of each kernel, and the number of splits over which the weight gradients of the convolutions are summed."""

    splits1: int
    splits2: int
    splits3: int
    conv1: Meta
    conv2: Meta
    conv3: Meta
    conv1_weight_grad: Meta
    conv2_weight_grad: Meta
    conv3_weight_grad: Meta
    conv2_input_grad: Meta
    conv3_input_grad: Meta
    head: Meta
    head_backward: Meta
    dense_input_grad: Meta
    dense_weight_grad: Meta
    dense_squares: Meta


_16_BITS = Tuning(
    splits1=21,
    splits2=8,
    splits3=4,
    conv1={"BM": 64, "num_warps": 4},
    conv2={"BM": 128, "BK": 64, "STAGES": 3, "num_warps": 8},
    conv3={"BM": 128, "BK": 32, "STAGES": 4, "num_warps": 4},
    conv1_weight_grad={"BM": 64, "FS": 4, "num_warps": 8},
    conv2_weight_grad={"BM": 32, "BK": 128, "STAGES": 4, "num_warps": 4},
    conv3_weight_grad={"BM": 64, "BK": 64, "STAGES": 3, "num_warps": 4},
    conv2_input_grad={"BM": 64, "STAGES": 2, "num_warps": 4},
    conv3_input_grad={"BM": 64, "STAGES": 3, "num_warps": 4},
    head={"BM": 64, "BK": 64, "num_warps": 4, "num_stages": 3},
    head_backward={"BM": 128, "BF": 64, "num_warps": 4, "num_stages": 1},
    dense_input_grad={"BM": 128, "BN": 128, "BK": 64, "STAGES": 3, "num_warps": 4},
    dense_weight_grad={"BM": 128, "BI": 64, "BF": 64, "num_warps": 4, "num_stages": 1},
    dense_squares={"BM": 128, "BK": 64, "num_warps": 8, "num_stages": 3},
)

#: Exact float32 products do not use tensor cores; small tiles are faster.
_FLOAT32 = Tuning(
    splits1=16,
    splits2=8,
    splits3=8,
    conv1={"BM": 64, "num_warps": 4},
    conv2={"BM": 64, "BK": 32, "STAGES": 1},
    conv3={"BM": 64, "BK": 32, "STAGES": 1},
    conv1_weight_grad={"BM": 32, "FS": 1},
    conv2_weight_grad={"BM": 32, "BK": 64, "STAGES": 1},
    conv3_weight_grad={"BM": 32, "BK": 64, "STAGES": 1},
    conv2_input_grad={"BM": 32, "STAGES": 1},
    conv3_input_grad={"BM": 64, "STAGES": 1},
    head={"BM": 32, "BK": 32},
    head_backward={"BM": 32, "BF": 16, "num_stages": 1},
    dense_input_grad={"BM": 64, "BN": 64, "BK": 32, "STAGES": 1},
    dense_weight_grad={"BM": 32, "BI": 64, "BF": 64},
    dense_squares={"BM": 32, "BK": 64, "num_stages": 1},
)


def tuning_for(members: int, dtype: th.dtype) -> Tuning:
    """The launch parameters for this number of members."""
    if dtype == th.float32:
        return _FLOAT32
    if members <= 2:
        return replace(
            _16_BITS, splits1=128, splits2=32, splits3=32,
            head={"BM": 16, "BK": 128, "num_warps": 4, "num_stages": 1},
            dense_input_grad={"BM": 64, "BN": 64, "BK": 64, "STAGES": 4, "num_warps": 4},
            dense_squares={"BM": 64, "BK": 64, "num_warps": 4, "num_stages": 3},
        )  # fmt: skip
    if members <= 10:
        return replace(_16_BITS, splits1=64, splits2=16, splits3=8)
    return _16_BITS
