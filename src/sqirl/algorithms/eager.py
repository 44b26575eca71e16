"""Adam without the compiler of torch, whose import takes more than a second of CPU; most runs compile nothing.

torch imports `torch._dynamo` when the first optimizer is made, and again at its first step, only to keep optimizers out of
compiled graphs. As long as nobody has imported it there are no compiled graphs, and the functions alone do the same.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch as th

_COMPILER = "torch._dynamo"
#: The functions of `Optimizer` that import the compiler; those of Adam besides are `step` and what it calls, which does not.
_OF_OPTIMIZERS = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def without_compiler() -> None:
    """From now on, in this process, Adam does not import the compiler; where somebody else does, nothing is changed."""
    optimizer: Any = th.optim.Optimizer
    for name in _OF_OPTIMIZERS:
        _call_the_function_alone(optimizer, name, lambda function: function)
    _call_the_function_alone(th.optim.Adam, "step", _without_gradients)


def _call_the_function_alone(owner: Any, name: str, alone: Callable[[Any], Any]) -> None:
    """Replace a function that imports the compiler around another one, which it names as `__wrapped__`."""
    around = getattr(owner, name)
    if getattr(around, "hooked", False) or hasattr(around, "is_without_compiler") or not hasattr(around, "__wrapped__"):
        return  # an optimizer has been made before, this was called before, or torch has changed: all work as they are
    function = alone(around.__wrapped__)

    @functools.wraps(around)
    def call(*arguments: Any, **options: Any) -> Any:
        return (around if _COMPILER in sys.modules else function)(*arguments, **options)

    call.is_without_compiler = True  # type: ignore[attr-defined]
    setattr(owner, name, call)


def _without_gradients(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as torch does it: gradients of the step itself only where the optimizer is differentiable."""

    def call(optimizer: th.optim.Optimizer, *arguments: Any, **options: Any) -> Any:
        with th.set_grad_enabled(optimizer.defaults["differentiable"]):
            return step(optimizer, *arguments, **options)

    return call
