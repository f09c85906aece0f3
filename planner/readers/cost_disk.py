"""What it takes to read rows from disk and to write them there, beside the work that an operator does with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gnnplan.planner.costs import ZERO, OperatorCosts
from gnnplan.planner.program.aliases import owners
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import lies_on_disk
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.liveness import training_bytes
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.disk import DiskRates
from gnnplan.profiles.kernels.scattered import PAGE_BYTES
from gnnplan.profiles.machine import MachineProfile

_FLOAT_BYTES, _INDEX_BYTES, _LONG_BYTES, _LONGS_AN_EDGE = 4, 4, 8, 3
_GUESSED_BYTES_PER_S = 1e9  # of a solid-state disk
_GUESSED_SCATTERED_PER_S = 2e8  # of pages that lie apart there
_GUESSED = DiskRates(read_bytes_per_s=_GUESSED_BYTES_PER_S, write_bytes_per_s=_GUESSED_BYTES_PER_S)


@dataclass(frozen=True)
class Moved:
    """Bytes that an operator moves between memory and files.

    Args:
        scattered_bytes: read too, of pages that lie apart.
    """

    read_bytes: int = 0
    scattered_bytes: int = 0
    written_bytes: int = 0


_NOTHING = Moved()


class DiskCosts:
    """Of one program.

    The kernel keeps in memory what of the files there is room for. Where all of it has room, nothing is read again.
    Where not, consecutive rows come from the disk: an epoch comes back to one when all others have come between. Of
    rows that lie all over a value every chunk takes some, and as large a share of its pages as has room is still there.

    Args:
        memory_bytes: of every worker.
    """

    def __init__(self, cycle: Cycle, program: Program, memory_bytes: Sequence[int]) -> None:
        self._cycle, self._is_used, self._memory_bytes = cycle, lies_on_disk(cycle), memory_bytes
        self._owner = owners(cycle, program) if self._is_used else {}
        self._free_bytes: dict[int, int] = {}

    def __call__(self, op: Operator, worker: int, costs: OperatorCosts) -> Estimate:
        """Seconds of a worker's operator with the disk; a guess where the profile does not know its disk."""
        if not self._is_used or self._has_room[worker]:
            return ZERO
        moved = self.moved(op, worker)
        if moved.scattered_bytes:
            moved = replace(
                moved, scattered_bytes=round(moved.scattered_bytes * self._missing(op, worker, costs.profile))
            )
        return _seconds(moved, costs.profile)

    def _missing(self, op: Operator, worker: int, profile: MachineProfile) -> float:
        """Of the pages of a value the share that is in memory no more."""
        outer = op.reads[0] if op.kind == "take" else op.writes[0]
        if worker not in self._free_bytes:
            needed = estimate_memory(self._cycle, worker, profile).peak_bytes
            self._free_bytes[worker] = max(0, self._memory_bytes[worker] - needed)
        return max(0.0, 1 - self._free_bytes[worker] / self._cycle.num_bytes(outer, worker))

    def moved(self, op: Operator, worker: int) -> Moved:
        """What an operator reads from files, and writes to them."""
        if not self._is_used:
            return _NOTHING
        of_arrays = self._of_arrays(op, worker)
        if not KINDS[op.kind].by_part:
            rows = sum(self._cycle.num_bytes(name, worker) for name in op.reads if self._lies_there(name))
            return Moved(of_arrays + rows)
        outer, inner = (op.reads[0], op.writes[0]) if op.kind == "take" else (op.writes[0], op.reads[0])
        if not self._lies_there(outer):
            return Moved(of_arrays)
        whole, pages = self._rows_bytes(op, outer, inner, worker)
        if op.kind == "take":
            return Moved(of_arrays + whole, pages)
        if op.kind == "scatter_add" and not op.has_base:  # all of it is cleared, and added to while it is there
            return Moved(of_arrays, 0, self._cycle.num_bytes(outer, worker))
        reads = op.kind == "scatter_add"  # a page that is written in part is read too
        return Moved(of_arrays + whole * reads, pages, whole + pages)

    def _rows_bytes(self, op: Operator, outer: str, inner: str, worker: int) -> tuple[int, int]:
        """Of an operator's rows in a file: of consecutive ones, or of the pages on which others lie."""
        cycle, index = self._cycle, op.attributes["index"]
        rows_bytes = cycle.num_bytes(inner, worker)
        if cycle.indexes[index].is_view or not rows_bytes:
            return rows_bytes, 0
        num_rows, num_all, runs = (
            *(cycle.num_rows(name, worker) for name in (inner, outer)),
            cycle.indexes[index].num_runs,
        )
        num_runs = runs[worker] if runs else num_rows * (1 - num_rows / num_all)
        return 0, likely_pages(num_rows, num_all, num_runs, rows_bytes / num_rows) * PAGE_BYTES

    @cached_property
    def _has_room(self) -> list[bool]:
        """By worker, whether all of its rows in files have room in memory too."""
        return [on_disk_bytes(self._cycle, worker) <= has for worker, has in enumerate(self._memory_bytes)]

    def _lies_there(self, name: str) -> bool:
        return self._cycle.values[self._owner.get(name, name)].tier == "disk"

    def _of_arrays(self, op: Operator, worker: int) -> int:
        """Of the operator's blocks, and of the rows of its index."""
        cycle, attributes = self._cycle, op.attributes
        names = [*attributes.get("blocks", ()), *([attributes["block"]] if "block" in attributes else [])]
        per_edge = _FLOAT_BYTES + _INDEX_BYTES if KINDS[op.kind].holds == "matrix" else _LONGS_AN_EDGE * _LONG_BYTES
        of_blocks = sum(per_edge * cycle.blocks[name].num_edges[worker] for name in names)
        index = cycle.indexes.get(attributes.get("index", ""))
        if index is None or index.is_view:
            return of_blocks
        return of_blocks + _LONG_BYTES * cycle.spaces[index.target].sizes[worker]


def on_disk_bytes(cycle: Cycle, worker: int) -> int:
    """Of the rows that lie in files at once, and of the files of inputs."""
    inputs = (name for name, value in cycle.values.items() if value.role == "input" and value.tier == "disk")
    return training_bytes(cycle, worker, tier="disk").held_bytes + sum(cycle.num_bytes(n, worker) for n in inputs)


def likely_pages(num_rows: int, num_all: int, num_runs: float, row_bytes: float) -> int:
    """Pages of a file of `num_all` rows on which some of them lie, in runs of consecutive ones that begin anywhere."""
    pages = max(num_all * row_bytes / PAGE_BYTES, 1.0)
    of_a_first = 1.0 if PAGE_BYTES % row_bytes == 0 else (row_bytes - 1) / PAGE_BYTES + 1
    of_firsts = pages * -math.expm1(-num_runs * of_a_first / pages)
    of_others = (num_rows - num_runs) * row_bytes / PAGE_BYTES
    return round(min(of_firsts + of_others, pages))


def _seconds(moved: Moved, profile: MachineProfile) -> Estimate:
    if moved == _NOTHING:
        return ZERO
    rates = profile.disk or _GUESSED
    scattered_per_s = rates.scattered_bytes_per_s or _GUESSED_SCATTERED_PER_S
    is_guess = profile.disk is None or (rates.scattered_bytes_per_s is None and moved.scattered_bytes > 0)
    seconds = (
        moved.read_bytes / rates.read_bytes_per_s
        + moved.scattered_bytes / scattered_per_s
        + moved.written_bytes / rates.write_bytes_per_s
    )
    return Estimate(seconds, 0.0, is_guess, (("disk", seconds),))
