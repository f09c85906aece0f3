"""Loops over rows of bfloat16 on a CPU, compiled by numba, which knows them as the upper halves of float32 numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from gnnplan.profiles.kernels.counter import GOLDEN, MIX_1, MIX_2
from gnnplan.profiles.kernels.sum_loops import prefetch

_ROWS_AT_ONCE = 64  # that one thread sums one after another, in the same float32 row
_AHEAD = 4  # entries whose rows are on their way while one is summed: rows lie anywhere, and no cache knows where
_LINE = 32  # halves of a cache line
_WORD, _HALF = ir.IntType(32), ir.IntType(16)


@intrinsic
def _widened(context, bits):  # pragma: no cover - compiled
    """The float32 whose upper half these bits are."""

    def made(_, builder, signature, arguments):
        word = builder.shl(builder.zext(arguments[0], _WORD), ir.Constant(_WORD, 16))
        return builder.bitcast(word, ir.FloatType())

    return types.float32(types.uint16), made


@intrinsic
def _narrowed(context, number):  # pragma: no cover - compiled
    """The bits of the nearest bfloat16, ties to even; NaN stays NaN, for its quiet bit is in the upper half."""

    def made(_, builder, signature, arguments):
        (value,) = arguments
        word = builder.bitcast(value, _WORD)
        is_odd = builder.and_(builder.lshr(word, ir.Constant(_WORD, 16)), ir.Constant(_WORD, 1))
        rounded = builder.add(word, builder.add(is_odd, ir.Constant(_WORD, 0x7FFF)))
        quiet = builder.or_(word, ir.Constant(_WORD, 0x00400000))
        kept = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
        return builder.trunc(builder.lshr(kept, ir.Constant(_WORD, 16)), _HALF)

    return types.uint16(types.float32), made


widened: Any = _widened  # compiled code calls them without the context
narrowed: Any = _narrowed


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def product(indptr, indices, data, rows, out, adds):  # pragma: no cover - compiled
    """`out = matrix @ rows`, or with `adds` `out += `, summed in float32; uint16 [k, width] and [m, width]."""
    num_rows, width = out.shape
    num_entries = indptr[num_rows]
    for part in prange((num_rows + _ROWS_AT_ONCE - 1) // _ROWS_AT_ONCE):
        total = np.empty(width, np.float32)
        for i in range(part * _ROWS_AT_ONCE, min(num_rows, (part + 1) * _ROWS_AT_ONCE)):
            for j in range(width):
                total[j] = widened(out[i, j]) if adds else np.float32(0)
            for e in range(indptr[i], indptr[i + 1]):
                if e + _AHEAD < num_entries:
                    for j in range(0, width, _LINE):
                        prefetch(rows, np.int64(indices[e + _AHEAD]), np.int64(j))
                weight, row = data[e], indices[e]
                for j in range(width):
                    total[j] += weight * widened(rows[row, j])
            for j in range(width):
                out[i, j] = narrowed(total[j])


@njit(nogil=True, cache=True)
def add_rows(out, index, x):  # pragma: no cover - compiled
    """`out[index] += x` in place, row after row, for an index may come several times."""
    for i in range(len(index)):
        row = index[i]
        for j in range(out.shape[1]):
            out[row, j] = narrowed(widened(out[row, j]) + widened(x[i, j]))


@njit(parallel=True, nogil=True, cache=True)
def add_bias(z, bias, relu):  # pragma: no cover - compiled
    """`z += bias` in place, then ReLU where it is asked for; torch would make two float32 copies of z."""
    rows, width = z.shape
    for i in prange(rows):
        for j in range(width):
            value = widened(z[i, j]) + bias[j]
            z[i, j] = narrowed(np.float32(0) if relu and value < 0 else value)


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def column_sums(x, parts):  # pragma: no cover - compiled
    """Sums of columns into float32 `parts` [P, width], each of as many consecutive rows."""
    rows, width = x.shape
    count = len(parts)
    for part in prange(count):
        for j in range(width):
            parts[part, j] = 0
        for i in range(rows * part // count, rows * (part + 1) // count):
            for j in range(width):
                parts[part, j] += widened(x[i, j])


@njit(parallel=True, nogil=True, cache=True)
def relu_dropout(z, bias, vertices, first, whole, key, threshold, scale, relu):  # pragma: no cover - compiled
    """As the loop of this name over float32 in `gnnplan.profiles.kernels.activation_loops`: the same are dropped."""
    rows, width = z.shape
    for i in prange(rows):
        base = np.uint64(vertices[i]) * np.uint64(whole) + np.uint64(first) + np.uint64(key) + np.uint64(GOLDEN)
        for j in range(width):
            h = base + np.uint64(j)
            h = (h ^ (h >> np.uint64(30))) * np.uint64(MIX_1)
            h = (h ^ (h >> np.uint64(27))) * np.uint64(MIX_2)
            h = h ^ (h >> np.uint64(31))
            value = widened(z[i, j]) + bias[j]
            keep = (h >> np.uint64(32)) >= np.uint64(threshold)
            if not keep or (relu and value < 0):
                value = np.float32(0)
            z[i, j] = narrowed(value * scale)
