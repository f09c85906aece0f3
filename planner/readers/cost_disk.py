"""What it takes to read rows from disk and to write them there, beside the work that an operator does with them."""

from __future__ import annotations

from gnnplan.planner.costs import ZERO, OperatorCosts
from gnnplan.planner.program.aliases import owners
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import lies_on_disk
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import MachineProfile

_FLOAT_BYTES, _INDEX_BYTES, _LONG_BYTES, _LONGS_AN_EDGE = 4, 4, 8, 3
_GUESSED_BYTES_PER_S = 1e9  # of a solid-state disk
_NO_BYTES = (0, 0)


class DiskCosts:
    """Of one program.

    The kernel keeps in memory what of the files there is room for. Where all of it has room, nothing is read again.
    Where not, all that is read comes from the disk: an epoch comes back to a row when all others have come between.
    """

    def __init__(self, cycle: Cycle, program: Program) -> None:
        self._cycle, self._is_used = cycle, lies_on_disk(cycle)
        self._owner = owners(cycle, program) if self._is_used else {}

    def __call__(self, op: Operator, worker: int, costs: OperatorCosts) -> Estimate:
        """Seconds of a worker's operator with the disk; a guess where the profile does not know its disk."""
        if not self._is_used or on_disk_bytes(self._cycle, worker) <= costs.profile.memory_bytes:
            return ZERO
        read_bytes, written_bytes = self.moved_bytes(op, worker)
        return _seconds(read_bytes, written_bytes, costs.profile)

    def moved_bytes(self, op: Operator, worker: int) -> tuple[int, int]:
        """Bytes that an operator reads from files, and writes to them."""
        if not self._is_used:
            return _NO_BYTES
        read, written = self._of_arrays(op, worker), 0
        if KINDS[op.kind].by_part and op.kind != "take":
            if self._lies_there(op.writes[0]):
                rows_bytes = self._cycle.num_bytes(op.reads[0], worker)
                adds = op.kind == "scatter_add"
                read += rows_bytes * adds
                written += rows_bytes if op.has_base or not adds else self._cycle.num_bytes(op.writes[0], worker)
        elif op.kind == "take":
            read += self._cycle.num_bytes(op.writes[0], worker) * self._lies_there(op.reads[0])
        else:
            read += sum(self._cycle.num_bytes(name, worker) for name in op.reads if self._lies_there(name))
        return read, written

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
    """Of all rows that lie in files."""
    return sum(cycle.num_bytes(name, worker) for name, value in cycle.values.items() if value.tier == "disk")


def _seconds(read_bytes: int, written_bytes: int, profile: MachineProfile) -> Estimate:
    if not read_bytes and not written_bytes:
        return ZERO
    rates = profile.disk
    if rates is None:
        seconds = (read_bytes + written_bytes) / _GUESSED_BYTES_PER_S
        return Estimate(seconds, 0.0, True, (("disk", seconds),))
    seconds = read_bytes / rates.read_bytes_per_s + written_bytes / rates.write_bytes_per_s
    return Estimate(seconds, 0.0, False, (("disk", seconds),))
