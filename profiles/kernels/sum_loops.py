"""Sums of float32 rows over edges on a CPU, compiled by numba.

Columns go in blocks: as many as fit a core's registers are summed without touching memory, and the rows of entries
ahead are asked for meanwhile, for they lie anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import get_num_threads, njit, prange, set_num_threads, types
from numba.core import cgutils
from numba.extending import intrinsic

_ROWS_AT_ONCE = 64  # that one thread sums one after another
_AHEAD = 8  # entries whose rows are on their way while one is summed
_LINE = 16  # float32 numbers of a cache line
_WORD = ir.IntType(32)


def _started() -> int:
    """Numba's threads. Starting them sets OpenMP's count for all of the process: torch's stays what it was."""
    num_threads = torch.get_num_threads()
    most = get_num_threads()
    torch.set_num_threads(num_threads)
    return most


_MOST_THREADS = _started()


@intrinsic
def _prefetch(context, rows, row, column):  # pragma: no cover - compiled
    """Asks for the cache line of an element, which will be read soon."""

    def made(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], array, [arguments[1], arguments[2]], wraparound=False
        )
        byte = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        shape = ir.FunctionType(ir.VoidType(), [byte.type, _WORD, _WORD, _WORD])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte.type], shape)
        builder.call(ask, [byte, *(ir.Constant(_WORD, how) for how in (0, 3, 1))])  # to read, to keep, of data
        return context.get_dummy_value()

    return types.void(rows, row, column), made


prefetch: Any = _prefetch  # compiled code calls it without the context


def _columns_summed(block: int) -> Any:
    """The loop over `block` columns, a number the compiler knows; over `count` where it is 0."""

    @njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
    def loop(indptr, indices, data, rows, out, first, count, adds, num_threads):  # pragma: no cover - compiled
        num_rows, width = out.shape
        num_entries = indptr[num_rows]
        flat_rows, flat_out = rows.ravel(), out.ravel()
        num_groups = (num_rows + _ROWS_AT_ONCE - 1) // _ROWS_AT_ONCE
        turns = (num_groups + num_threads - 1) // num_threads
        for number in prange(turns * num_threads):
            # A thread's numbers follow each other, its groups of rows do not: long rows often lie together.
            begin = (number % turns * num_threads + number // turns) * _ROWS_AT_ONCE
            columns = block if block else count
            total = np.empty(columns, np.float32)
            for i in range(begin, min(num_rows, begin + _ROWS_AT_ONCE)):
                target = flat_out[i * width + first : i * width + first + columns]
                for j in range(columns):
                    total[j] = target[j] if adds else np.float32(0)
                for e in range(indptr[i], indptr[i + 1]):
                    if e + _AHEAD < num_entries:
                        for j in range(0, columns, _LINE):
                            prefetch(rows, np.int64(indices[e + _AHEAD]), np.int64(first + j))
                    weight, begin_of = data[e], np.int64(indices[e]) * width + first
                    source = flat_rows[begin_of : begin_of + columns]
                    for j in range(columns):
                        total[j] += weight * source[j]
                for j in range(columns):
                    target[j] = total[j]

    return loop


_of_128 = _columns_summed(128)
_of_64 = _columns_summed(64)
_of_any = _columns_summed(0)


def compile_all() -> None:
    """Compiles every loop, or finds it compiled."""
    nothing = np.zeros(0, np.int32)
    for width in (1, 64, 128):
        rows, out = np.zeros((2, 1, width), np.float32)
        product(np.zeros(2, np.int32), nothing, nothing.astype(np.float32), rows, out, adds=False)


def product(indptr, indices, data, rows, out, *, adds) -> None:
    """`out [m, width] = matrix [m, k] @ rows [k, width]`, or with `adds` `out +=`; float32, C-contiguous.

    As many threads as torch has take part, for samplers of mini-batches may have the others.
    """
    num_threads = min(torch.get_num_threads(), _MOST_THREADS)
    set_num_threads(num_threads)
    first, width = 0, out.shape[1]
    while first < width:
        count = min(128, width - first)
        loop = {128: _of_128, 64: _of_64}.get(count, _of_any)
        loop(indptr, indices, data, rows, out, first, count, adds, num_threads)
        first += count
