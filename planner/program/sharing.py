"""Arrays that are equal are one: levels without labels of their own have the same blocks, rows and vertices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cuts import Cut
from gnnplan.planner.program.cycle import Cycle

_SAMPLED = 32  # elements by which most arrays that are not equal are told apart


class Contents:
    """Arrays that were met, and which of them are equal. All are kept; `num_bytes` is what they take together."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._met: dict[int, tuple[tuple, tuple]] = {}
        self._alike: dict[tuple, list[tuple]] = {}

    def first(self, each: tuple) -> tuple:
        """The first ones met that are equal to these: themselves, where there are none."""
        if id(each) not in self._met:
            self._met[id(each)] = each, self._equal(each)  # them too, so that no others are taken for them
            self.num_bytes += sum(part.nbytes for array in each for part in _parts(array))
        return self._met[id(each)][1]

    def _equal(self, each: tuple) -> tuple:
        alike = self._alike.setdefault(_sample(each), [])
        found = next((other for other in alike if _are_equal(each, other)), each)
        if found is each:
            alike.append(each)
        return found


def share_equal_arrays(cycle: Cycle, contents: Contents | None = None) -> Cycle:
    """The cycle without arrays that no operator reads; equal ones are the same object, and their names say so.

    Args:
        contents: of arrays that were met before, to which these are added (None: none).
    """
    arrays = cycle.arrays
    assert arrays
    used = _used(cycle)
    matrices = {name: each for name, each in arrays.matrices.items() if name in used}
    rows = {name: each for name, each in arrays.rows.items() if name in used}
    contents = contents or Contents()
    of_block, of_rows, of_ids = (_firsts(each, contents) for each in (matrices, rows, arrays.ids))
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


def _used(cycle: Cycle) -> set[str]:
    """Names of blocks and indexes that operators have among their attributes."""
    found: set[str] = set()
    for op in cycle.operators():
        for value in op.attributes.values():
            found.update([value] if isinstance(value, str) else _words(value))
    return found


def _words(value: Any) -> Iterable[str]:
    return (each for each in value if isinstance(each, str)) if isinstance(value, tuple) else ()


def _firsts(arrays: Mapping[str, tuple], contents: Contents) -> dict[str, str]:
    """Every name -> the first one with the same arrays."""
    names: dict[int, str] = {}
    return {name: names.setdefault(id(contents.first(each)), name) for name, each in arrays.items()}


def _sample(each: tuple) -> tuple:
    """The same for arrays that are equal."""
    parts = [part.reshape(-1) for array in each for part in _parts(array)]
    kinds = tuple((part.dtype.str, len(part)) for part in parts)
    return kinds, b"".join(part[:: max(1, len(part) // _SAMPLED)].tobytes() for part in parts)


def _are_equal(each: tuple, other: tuple) -> bool:
    pairs = zip(each, other, strict=True)
    return all(
        one is another or (one.shape == another.shape and all(map(np.array_equal, _parts(one), _parts(another))))
        for one, another in pairs
    )


def _parts(array: Any) -> tuple[np.ndarray, ...]:
    """Arrays that are equal where two are; what is still to be cut out of the same matrix is so by where it is cut."""
    if isinstance(array, Cut):
        return np.array([id(array.source)]), np.array([array.factor]), array.rows, array.columns
    return (array.indptr, array.indices, array.data) if sp.issparse(array) else (array,)
