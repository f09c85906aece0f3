"""Plays a worker's part of a cycle on its device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.edges import awaited
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import is_staged, lies_on_disk
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.project import Projection
from gnnplan.planner.program.region import region_layout
from gnnplan.planner.readers.liveness import training_bytes
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.execution import (  # noqa: F401  (register)
    columns,
    dense,
    functions,
    norms,
    optimizer_step,
    region,
    sparse,
    training,
    travel,
)
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.outside import Outside, in_host_memory, on_disk
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.execution.table import Bind, Execution, execution_of
from gnnplan.runtime.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Step:
    """An operator that is bound to what it needs.

    Args:
        is_timed: it is a task of the trace; a view is none.
        waits: values on their way that must have come or gone before it may write.
        anew: cells that it writes without reading what they held.
        ends: values that nobody reads after it.
    """

    operator: Operator
    run: Execution
    is_timed: bool
    waits: tuple[str, ...]
    anew: tuple[str, ...]
    ends: tuple[str, ...]


class ProgramExecutor:
    """One worker's part of a cycle, ready to be played.

    Args:
        projection: with arrays.
        inputs: every input value where it lies, which is the device or its host: tensors, or `SparseRows`.
        parameters: every parameter as a matrix, and cells that do not start at zero; all are trained in place.
        peers: the other workers.
        module: whose layers some operators run (None: there are none); it is left as it is.
        folder: where files are made for what lies on disk (None: the system's own for temporary files).
    """

    def __init__(
        self,
        projection: Projection,
        inputs: Mapping[str, Any],
        parameters: Mapping[str, Tensor],
        recorder: Recorder,
        peers: Workers,
        module: nn.Module | None = None,
        folder: Path | None = None,
    ) -> None:
        self.cycle, self.recorder, self._peers = projection.cycle, recorder, peers
        pool.serve(training_bytes(self.cycle, 0, on_cuda=recorder.device.type == "cuda").classes)
        self._context = Context(
            projection,
            recorder.device,
            peers,
            region=_region_of(projection, peers),
            module=module,
            outside=_outside_of(self.cycle, folder, recorder.device),
        )
        self.stored: dict[str, Any] = {**inputs, **parameters}
        for name in (name for name in inputs if self._context.is_half(name)):
            self.stored[name] = inputs[name].to(torch.bfloat16)
        for name in (name for name in inputs if self._context.lies_in_host(name)):
            self.stored[name] = self._context.rows_outside(*inputs[name].shape).copy_(inputs[name])
        for name in starting_cells(self.cycle):
            if name in parameters:
                continue
            shape = (self.cycle.num_rows(name, 0), self.cycle.values[name].num_columns(0))
            self.stored[name] = torch.zeros(shape, device=recorder.device)
        self._bound: dict[str, list[Step]] = {}
        self._staying: dict[str, list[str]] = {}
        if SETUP in self.cycle.programs:
            self.run(SETUP)
            del self._bound[SETUP]
            self._drop_inputs()

    @property
    def rate_factor(self) -> float:
        """Of the learning rate, beside what its schedule says."""
        return self._context.rate_factor

    @rate_factor.setter
    def rate_factor(self, factor: float) -> None:
        self._context.rate_factor = factor

    @property
    def sent_bytes(self) -> int:
        """What this worker has handed to exchanges since the last epoch began."""
        return self._context.sent_bytes

    def prepare(self, names: Iterable[str]) -> None:
        """Makes the matrices and the code of programs that are to be played, which else their first time would take."""
        for name in names:
            if name not in self._bound:
                self._bound[name] = self._bind(self.cycle.programs[name])
                self._staying[name] = _staying(self.cycle, self.cycle.programs[name])

    def run(
        self, name: str, epoch: int = 0, before: Mapping[str, Callable[[], None]] = MappingProxyType({})
    ) -> dict[str, Tensor]:
        """Plays a program; returns its results.

        Args:
            before: by an operator's key, what is called before it.
        """
        self.prepare((name,))
        context, values = self._context, dict(self.stored)
        context.epoch, context.sent_bytes = epoch, 0
        results: dict[str, Tensor] = {}
        for step in self._bound[name]:
            if step.operator.key in before:
                before[step.operator.key]()
            self._play(step, values)
            for written in step.operator.writes:
                if written in self.cycle.results:
                    results[written] = values[written] = travel.finished(values[written])
            for ended in step.ends:
                del values[ended]
        for written in self._staying[name]:
            self.stored[written] = travel.finished(values[written])
        return results

    def replay(self, name: str, epoch: int, look: Callable[[Operator, list[Any]], None]) -> None:
        """Plays a program again, up to its optimizer's step, and shows what each operator has written.

        Values on their way are waited for at once. What is kept between epochs is not what it was afterwards.
        """
        context, values = self._context, dict(self.stored)
        context.epoch = epoch
        for step in self._bound[name]:
            if step.operator.kind == "step":
                break
            self._play(step, values)
            for written in step.operator.writes:
                values[written] = travel.finished(values[written])
            look(step.operator, [values[written] for written in step.operator.writes])
            for ended in step.ends:
                del values[ended]

    def rows_written(self, places: str) -> tuple[int, int]:
        """(start, stop) of the rows that this worker writes of a cell of its host's region, by the index of them."""
        return self._context.view(places)

    def write_region(self, cell: str, places: str, rows: Tensor) -> None:
        """Writes this worker's rows of a cell of its host's region; the others may read them after a barrier."""
        region, (start, stop) = self._context.host_region, self._context.view(places)
        with region.writing(cell):
            region.rows(cell)[start:stop].copy_(rows)
        self.stored[cell] = region.rows(cell)

    def finish(self, name: str, key: str, written: Tensor) -> None:
        """Plays what follows an operator of a program, as if the operator had written this; nothing of it is timed.

        It may be called while that operator runs: whatever stays is written in place.
        """
        steps = self._bound[name]
        at = next(number for number, step in enumerate(steps) if step.operator.key == key)
        values = {**self.stored, steps[at].operator.writes[0]: written}
        for step in steps[at + 1 :]:
            made = step.run(*[values[each] for each in step.operator.reads])
            values.update(zip(step.operator.writes, made if isinstance(made, tuple) else (made,), strict=True))

    def _play(self, step: Step, values: dict[str, Any]) -> None:
        op = step.operator
        for name in step.waits:
            values[name] = travel.finished(values[name])
        reads = [values[name] for name in op.reads]
        for name in step.anew:  # what it held goes first, so that there is never a second copy
            values.pop(name, None)
            self.stored.pop(name, None)
        if not step.is_timed:
            written = step.run(*reads)
        elif KINDS[op.kind].collective:
            with self._peers.on(op):
                written = step.run(*reads)
        else:
            with self.recorder.span(op.key):
                written = step.run(*reads)
        del reads
        for name, value in zip(op.writes, written if isinstance(written, tuple) else (written,), strict=True):
            values[name] = value

    def _drop_inputs(self) -> None:
        """Inputs that only the setup read."""
        read = {
            name for key, program in self.cycle.programs.items() if key != SETUP for op in program for name in op.reads
        }
        for name, value in self.cycle.values.items():
            if value.role == "input" and name not in read:
                self.stored.pop(name, None)

    def _bind(self, program: Program) -> list[Step]:
        last = {name: number for number, op in enumerate(program) for name in (*op.writes, *op.reads)}
        waits = awaited(self.cycle, program)
        steps = []
        for number, op in enumerate(program):
            ends = tuple(
                name
                for name in dict.fromkeys((*op.reads, *op.writes))
                if last[name] == number and self.cycle.values[name].role == "temporary"
            )
            anew = tuple(n for n in op.writes if self.cycle.values[n].role == "cell" and n not in op.reads)
            bind = execution_of(op.kind)
            run = _bound_anew(bind, self._context, op) if self._context.brings_arrays(op) else bind(self._context, op)
            steps.append(Step(op, run, not views(self.cycle, op), waits[number], anew, ends))
        return steps


def _outside_of(cycle: Cycle, folder: Path | None, device: torch.device) -> Outside | None:
    """Where some rows lie, if any lie outside."""
    if lies_on_disk(cycle):
        return on_disk(folder or Path(gettempdir()))
    return in_host_memory(device) if is_staged(cycle) else None


def _bound_anew(bind: Bind, context: Context, op: Operator) -> Execution:
    return lambda *reads: bind(context, op)(*reads)


def _region_of(projection: Projection, peers: Workers) -> region.HostRegion | None:
    """What the workers of a host share; all workers make theirs at once, or none does."""
    layout, rank = region_layout(projection.cycle, 0, projection.rank), projection.rank
    return region.HostRegion(peers.host_memory(layout), layout, rank) if layout else None


def _staying(cycle: Cycle, program: Program) -> list[str]:
    """What a program writes that outlives it."""
    return [name for op in program for name in op.writes if cycle.values[name].role != "temporary"]
