"""Peak bytes of one worker, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.program.cycle import EVALUATE, SETUP, Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.kinds.reduce import rows_of_loss
from gnnplan.planner.program.optimizer import is_torchs
from gnnplan.planner.program.outside import is_staged, lies_on_disk
from gnnplan.planner.program.parts import ITEM_BYTES, Operator
from gnnplan.planner.program.region import region_bytes
from gnnplan.planner.program.sums import widest_sums
from gnnplan.planner.program.whole import runs_module
from gnnplan.planner.readers.block_bytes import (
    blocks_bytes,
    edge_blocks,
    edges_bytes,
    made_blocks,
    matrix_bytes,
    named_blocks,
)
from gnnplan.planner.readers.compiled import compiles, has_halves
from gnnplan.planner.readers.liveness import Held, setup_bytes, training_bytes
from gnnplan.planner.readers.outliving import outliving_bytes
from gnnplan.planner.readers.pinned import pinned_bytes
from gnnplan.profiles.machine import MachineProfile

_INDEX_BYTES, _LONG_BYTES, _FLOAT_BYTES = 4, 8, 4


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak bytes of a worker and what they are made of.

    Args:
        base_bytes: the process itself, with what it compiles and imports where it needs that.
        graph_bytes: blocks, those of the backward half transposed, rows to take and to add to, and training labels.
            Where rows lie on disk these do too, and this is the largest of them, while it is made.
        input_bytes: features, dense or CSR with its transpose; labels. None where rows lie on disk.
        parameter_bytes: weights and cells that start with the training.
        epoch_bytes: what programs make and drop, and cells that they fill.
        setup_bytes: peak of what is done once before training, which may exceed it.
        outliving_bytes: copies that operators hold from epoch to epoch, beside cells.
        before_bytes: the parameters from before an epoch of training, for who looks where a NaN came from.
        region_bytes: of the region that its host's workers share; it is of the host's memory, and not in the peak.
        pinned_bytes: page-locked memory of the host that a GPU takes rows and blocks of; not in the peak either.
        later_bytes: of the graph, what training alone reads: it is made when the setup is over.
    """

    base_bytes: int
    graph_bytes: int
    input_bytes: int
    parameter_bytes: int
    epoch_bytes: int
    setup_bytes: int
    outliving_bytes: int = 0
    before_bytes: int = 0
    region_bytes: int = 0
    pinned_bytes: int = 0
    later_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """The larger of the setup's and the training's peak."""
        held = self.graph_bytes + self.input_bytes + self.parameter_bytes + self.outliving_bytes + self.before_bytes
        return self.base_bytes + held + max(self.epoch_bytes, self.setup_bytes - self.later_bytes)


def estimate_memory(cycle: Cycle, worker: int, profile: MachineProfile) -> MemoryEstimate:
    """Peak memory of a worker on the device of a profile. Evaluation comes after it was read, so it does not count."""
    on_cuda = profile.device_kind == "cuda"

    def bytes_of(held: Held) -> int:
        return held.peak_bytes if on_cuda else held.held_bytes

    programs = [program for name, program in cycle.programs.items() if name != EVALUATE]
    later_bytes, wide_bytes = 0, _wide_bytes(cycle, worker)
    if lies_on_disk(cycle):
        graph_bytes, input_bytes = _largest_made_bytes(cycle, worker, programs), 0
    else:
        later_bytes = 0 if is_staged(cycle) else _later_bytes(cycle, worker, programs, on_cuda=on_cuda)
        graph_bytes = _graph_bytes(cycle, worker, programs, on_cuda=on_cuda)
        input_bytes = sum(
            _input_bytes(cycle, name, worker) for name in _inputs(cycle) if cycle.values[name].tier == "device"
        )
    return MemoryEstimate(
        base_bytes=_base_bytes(cycle, programs, worker, profile),
        graph_bytes=graph_bytes,
        input_bytes=input_bytes,
        parameter_bytes=sum(cycle.num_bytes(name, worker) for name in (*cycle.parameters, *_starting(cycle))),
        epoch_bytes=bytes_of(training_bytes(cycle, worker, on_cuda=on_cuda)),
        setup_bytes=bytes_of(setup_bytes(cycle, worker, on_cuda=on_cuda)) + _host_bytes(cycle, worker) + wide_bytes,
        outliving_bytes=outliving_bytes(cycle, worker, on_cuda=on_cuda),
        before_bytes=_before_bytes(cycle, programs, worker),
        region_bytes=region_bytes(cycle, worker),
        pinned_bytes=pinned_bytes(cycle, worker) if is_staged(cycle) else 0,
        later_bytes=later_bytes,
    )


def _wide_bytes(cycle: Cycle, worker: int) -> int:
    """Inputs in float32, as they are read, beside the halves that are made of them."""
    halves = (name for name, value in cycle.values.items() if value.role == "input" and value.dtype == "bfloat16")
    return sum(cycle.num_bytes(name, worker) // ITEM_BYTES["bfloat16"] * ITEM_BYTES["float32"] for name in halves)


def _before_bytes(cycle: Cycle, programs: list[Program], worker: int) -> int:
    if not any(op.kind == "step" for program in programs for op in program):
        return 0
    return sum(cycle.num_bytes(name, worker) for name in cycle.parameters)


def _base_bytes(cycle: Cycle, programs: list[Program], worker: int, profile: MachineProfile) -> int:
    has_own_layers, found = runs_module(cycle), profile.process_base_bytes
    if compiles(cycle, programs, worker, on_cuda=profile.device_kind == "cuda"):
        found += profile.compiled_kernel_bytes
    if has_halves(cycle, programs):
        found += profile.half_kernel_bytes
    if has_own_layers or any(op.kind == "step" and is_torchs(op.attributes) for ops in programs for op in ops):
        found += profile.optimizer_class_bytes  # PyG imports torch's compiler too
    return found + (profile.pyg_bytes if has_own_layers else 0)


def _starting(cycle: Cycle) -> list[str]:
    """Cells that start with the training and are only ever changed; those that are made anew count in the epoch."""
    operators = [op for name in dict.fromkeys(cycle.order) for op in cycle.programs[name]]
    anew = {name for op in operators for name in op.writes if name not in op.reads}
    return [name for name in starting_cells(cycle) if name not in anew]


def _graph_bytes(cycle: Cycle, worker: int, programs: list[Program], *, on_cuda: bool) -> int:
    """Every block once for each direction in which it is used, every diagonal one's entries and every index once.

    A CPU's worker also keeps all blocks as it read them. Where rows lie in the host's memory so do blocks, and indexes
    of rows that are taken.
    """
    staged = is_staged(cycle)
    indexes: set[str] = set()
    diagonals: set[str] = set()
    for op in (op for program in programs for op in program):
        if KINDS[op.kind].holds == "diagonal":
            diagonals |= named_blocks(cycle, op)
        name = op.attributes.get("index")
        if name and not cycle.indexes[name].is_view and not (staged and KINDS[op.kind].by_part):
            indexes.add(cycle.indexes[name].content or name)
    widths = {} if on_cuda else widest_sums(cycle, worker)
    return (
        (0 if staged else blocks_bytes(cycle, worker, programs, widths, beside_shard=not on_cuda))
        + sum(_FLOAT_BYTES * cycle.blocks[name].num_edges[worker] for name in diagonals if on_cuda)
        + sum(_LONG_BYTES * cycle.spaces[cycle.indexes[name].target].sizes[worker] for name in indexes)
        + max(
            (_label_bytes(cycle, op, worker) for program in programs for op in program if op.kind == "loss"), default=0
        )
    )


def _later_bytes(cycle: Cycle, worker: int, programs: list[Program], *, on_cuda: bool) -> int:
    """Of blocks that the setup does not read, what is made of them for training."""
    widths = {} if on_cuda else widest_sums(cycle, worker)
    whole, first = (
        made_blocks(cycle, worker, of, widths, beside_shard=not on_cuda)
        for of in (programs, [cycle.programs.get(SETUP, ())])
    )
    return sum(num_bytes for made, num_bytes in whole.items() if made not in first)


def _largest_made_bytes(cycle: Cycle, worker: int, programs: list[Program]) -> int:
    """Of the matrices and edges that a worker makes of its blocks, one after another, before they are on disk."""
    widths, most = widest_sums(cycle, worker), 0
    for op in (op for program in programs for op in program):
        name, back = op.attributes.get("block"), bool(op.attributes.get("back"))
        if name and KINDS[op.kind].holds == "matrix":
            key = cycle.blocks[name].content or name
            most = max(most, matrix_bytes(cycle, key, worker, back, widths.get((key, back), 0)))
        most = max([most, *(edges_bytes(cycle, each, worker) for each in edge_blocks(cycle, op))])
    return most


def _label_bytes(cycle: Cycle, op: Operator, worker: int) -> int:
    """Labels of the training rows, which are taken once; where all rows are trained, they are the input."""
    labels = cycle.values[op.reads[1]]
    return rows_of_loss(cycle, op)[worker] * labels.width * ITEM_BYTES[labels.dtype] if "index" in op.attributes else 0


def _inputs(cycle: Cycle) -> list[str]:
    """Inputs, and what the setup makes of sparse ones."""
    read = {name for key, ops in cycle.programs.items() if key != SETUP for op in ops for name in op.reads}
    kept = [n for n, v in cycle.values.items() if v.role == "cell" and v.layout == "csr"]
    return [n for n, v in cycle.values.items() if v.role == "input" and n in read] + kept


def _input_bytes(cycle: Cycle, name: str, worker: int) -> int:
    """Sparse ones lie by rows and by columns, each with pointers to its begins."""
    value, rows = cycle.values[name], cycle.num_rows(name, worker)
    if value.layout == "dense":
        return rows * value.num_columns(worker) * ITEM_BYTES[value.dtype]
    entries = value.num_entries[worker]
    pointers = rows + 1 + value.width + 1
    return 2 * entries * (_FLOAT_BYTES + _INDEX_BYTES) + pointers * _INDEX_BYTES


def _host_bytes(cycle: Cycle, worker: int) -> int:
    """Inputs that only the setup reads: they are gone before training."""
    used = set(_inputs(cycle))
    setup = {name for op in cycle.programs.get(SETUP, ()) for name in op.reads}
    return sum(
        _input_bytes(cycle, name, worker) for name in setup if cycle.values[name].role == "input" and name not in used
    )
