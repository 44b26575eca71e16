"""CUDA graphs: a function that launches kernels is captured once and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch as th
from torch import cuda


def captured(step: Callable[[], object], *, kept: Sequence[th.Tensor] = (), warm_up: int = 2) -> Callable[[], None]:
    """A function that replays the kernels that `step` launches.

    `step` must change tensors in place and must not wait for the device. It is run `warm_up` times before it is captured; the
    tensors of `kept` are restored after that.
    """
    before = [tensor.clone() for tensor in kept]
    stream = cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        for _ in range(warm_up):
            step()
    cuda.current_stream().wait_stream(stream)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        step()
    for tensor, value in zip(kept, before, strict=True):
        tensor.copy_(value)
    return graph.replay
