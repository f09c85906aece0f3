"""What it takes to read rows from disk and to write them there, beside the work that an operator does with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnnplan.planner.costs import ZERO, OperatorCosts
from gnnplan.planner.program.aliases import owners
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import lies_on_disk
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.pinned import outside_bytes
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.disk import DiskRates
from gnnplan.profiles.machine import MachineProfile

_FLOAT_BYTES, _INDEX_BYTES, _LONG_BYTES, _LONGS_AN_EDGE = 4, 4, 8, 3
_GUESSED_BYTES_PER_S = 1e9  # of a solid-state disk
PAGE_BYTES = 4096  # of most machines
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
        self._rooms: dict[int, tuple[int, int]] = {}

    def __call__(self, op: Operator, worker: int, costs: OperatorCosts) -> Estimate:
        """Seconds of a worker's operator with the disk; a guess where the profile does not know its disk."""
        if not self._is_used:
            return ZERO
        free_bytes, all_bytes = self._room(worker, costs.profile)
        if all_bytes <= free_bytes:
            return ZERO
        moved = self.moved(op, worker)
        if moved.scattered_bytes:
            outer = op.reads[0] if op.kind == "take" else op.writes[0]
            missing = max(0.0, 1 - free_bytes / self._cycle.num_bytes(outer, worker))
            moved = replace(moved, scattered_bytes=round(moved.scattered_bytes * missing))
        return _seconds(moved, costs.profile)

    def _room(self, worker: int, profile: MachineProfile) -> tuple[int, int]:
        """Bytes for pages of files that a worker leaves of its memory, and those of all that lies in files."""
        if worker not in self._rooms:
            needed = estimate_memory(self._cycle, worker, profile).peak_bytes
            free_bytes = max(0, self._memory_bytes[worker] - needed)
            self._rooms[worker] = free_bytes, outside_bytes(self._cycle, worker, "disk")
        return self._rooms[worker]

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
        adds = op.kind == "scatter_add"
        cleared = self._cycle.num_bytes(outer, worker) if adds and not op.has_base else 0
        # A page that is written in part is read first.
        return Moved(of_arrays + whole * adds, pages, cleared + whole + pages)

    def _rows_bytes(self, op: Operator, outer: str, inner: str, worker: int) -> tuple[int, int]:
        """Of an operator's rows in a file: of consecutive ones, or of the pages on which others lie."""
        cycle, index = self._cycle, op.attributes["index"]
        rows_bytes = cycle.num_bytes(inner, worker)
        if cycle.indexes[index].is_view or not rows_bytes:
            return rows_bytes, 0
        num_rows, num_all = (cycle.num_rows(name, worker) for name in (inner, outer))
        runs = cycle.indexes[index].num_runs
        num_runs = runs[worker] if runs else num_rows * (1 - num_rows / num_all)  # as they are by chance
        unit_bytes = _FLOAT_BYTES if cycle.values[outer].role == "input" else 0  # they lie somewhere in a shard
        pages = likely_pages(num_rows, num_all, num_runs, rows_bytes // num_rows, unit_bytes=unit_bytes)
        return 0, pages * PAGE_BYTES

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


def likely_pages(num_rows: int, num_all: int, num_runs: float, row_bytes: int, *, unit_bytes: int = 0) -> int:
    """Pages of a file of `num_all` rows on which some of them lie, in so many runs of consecutive ones.

    As many rows as have so many runs by chance are taken to lie anywhere, and all others together.

    Args:
        unit_bytes: rows begin at multiples of this (0: of a row's bytes, for the file begins with the first row).
    """
    pages = num_all * row_bytes / PAGE_BYTES
    of_a_row = 1 + (row_bytes - (unit_bytes or math.gcd(row_bytes, PAGE_BYTES))) / PAGE_BYTES
    lone = min(num_rows, num_all * (1 - math.sqrt(max(0.0, 1 - 4 * num_runs / num_all))) / 2)
    of_lone = pages * (1 - (1 - lone / num_all) ** (num_all * of_a_row / pages))
    return math.ceil(min(of_lone + (num_rows - lone) * row_bytes / PAGE_BYTES, pages))


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
