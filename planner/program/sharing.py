"""Arrays that are equal are one: levels without labels of their own have the same blocks, rows and vertices."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cuts import Cut
from gnnplan.planner.program.cycle import Cycle

Digests = dict[int, tuple[tuple, bytes]]
"""By identity, arrays with the digest of what is in them."""


def share_equal_arrays(cycle: Cycle, digests: Digests | None = None) -> Cycle:
    """The cycle without arrays that no operator reads; equal ones are the same object, and their names say so.

    Args:
        digests: taken before, to which those are added that are taken here (None: none).
    """
    arrays = cycle.arrays
    assert arrays
    used = _used(cycle)
    matrices = {name: each for name, each in arrays.matrices.items() if name in used}
    rows = {name: each for name, each in arrays.rows.items() if name in used}
    digests = {} if digests is None else digests
    of_block, of_rows, of_ids = (_contents(each, digests) for each in (matrices, rows, arrays.ids))
    return replace(
        cycle,
        blocks={name: replace(block, content=of_block.get(name, "")) for name, block in cycle.blocks.items()},
        indexes={name: replace(index, content=of_rows.get(name, "")) for name, index in cycle.indexes.items()},
        arrays=Arrays(
            {name: arrays.ids[of] for name, of in of_ids.items()},
            {name: matrices[of] for name, of in of_block.items()},
            {name: rows[of] for name, of in of_rows.items()},
            arrays.entries,
        ),
    )


def digested_bytes(digests: Digests) -> int:
    """Of all arrays whose digest is kept, which keeps them too."""
    return sum(part.nbytes for each, _ in digests.values() for array in each for part in _parts(array))


def _used(cycle: Cycle) -> set[str]:
    """Names of blocks and indexes that operators have among their attributes."""
    found: set[str] = set()
    for program in cycle.programs.values():
        for op in program:
            for value in op.attributes.values():
                found.update([value] if isinstance(value, str) else _words(value))
    return found


def _words(value: Any) -> Iterable[str]:
    return (each for each in value if isinstance(each, str)) if isinstance(value, tuple) else ()


def _contents(arrays: Mapping[str, tuple], digests: Digests) -> dict[str, str]:
    """Every name -> the first one with the same arrays."""
    first: dict[bytes, str] = {}
    found = {}
    for name, each in arrays.items():
        if id(each) not in digests:
            digests[id(each)] = each, _digest(each)  # the arrays too, so that no others are taken for them
        found[name] = first.setdefault(digests[id(each)][1], name)
    return found


def _digest(each: tuple) -> bytes:
    digest = hashlib.sha256()
    for array in each:
        for part in (np.array(array.shape), *_parts(array)):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.digest()


def _parts(array: Any) -> tuple[np.ndarray, ...]:
    """Arrays that are equal where two are; what is still to be cut out of the same matrix is so by where it is cut."""
    if isinstance(array, Cut):
        return np.array([id(array.source)]), array.rows, array.columns
    return (array.indptr, array.indices, array.data) if sp.issparse(array) else (array,)
