"""A hint to the processor to bring memory into its cache, for code that is compiled with numba.

A backup reads the next state's numbers, which may be anywhere in memory. The processor does not begin to read them early enough
by itself, because it waits for the stores of the states before. With the hint a backup over a large MDP takes half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir  # it comes with numba
from numba.core import cgutils
from numba.extending import intrinsic

#: The states between the hint and the use of the numbers.
AHEAD = 32
#: The bytes that are brought together.
LINE = 64


@intrinsic
def prefetch(_context: Any, _address: Any) -> tuple[Any, Callable[..., Any]]:
    """Bring the line with this address into the cache. The address need not be valid."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        # for reading, to be kept in all caches, data
        builder.call(function, [builder.inttoptr(arguments[0], pointer), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.void(numba.uint64), code
