"""Plays the programs of a cycle for all workers in one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gnnplan.planner.program.cuts import cut_out
from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.program.sequential import optimizer_step  # noqa: F401  (register)
from gnnplan.planner.program.sequential.going_on import IN_STEP, GoingOn, Policy
from gnnplan.planner.program.sequential.held import HeldBytes
from gnnplan.planner.program.sequential.meanings import as_tensor, meaning_of

if TYPE_CHECKING:
    from gnnplan.planner.program.own_layer import OwnLayer

Inputs = Mapping[str, Sequence[Tensor]]


@dataclass
class Context:
    """What an operator of one worker may ask for.

    Args:
        rate_factor: of the learning rate, beside what its schedule says.
    """

    cycle: Cycle
    dtype: torch.dtype
    worker: int = 0
    epoch: int = 0
    module: nn.Module | None = None
    rate_factor: float = 1.0
    _made: dict = field(default_factory=dict)

    @property
    def workers(self) -> range:
        """Ranks."""
        return self.cycle.workers

    def ids(self, space: str) -> np.ndarray:
        """Global vertices of a space's rows."""
        assert self.cycle.arrays
        return self.cycle.arrays.ids[space][self.worker]

    def rows(self, index: str) -> Tensor:
        """Rows of an index."""
        assert self.cycle.arrays
        return as_tensor(self.cycle.arrays.rows[index][self.worker])

    def num_rows(self, space: str) -> int:
        """Rows of a space."""
        return self.cycle.spaces[space].sizes[self.worker]

    def matrix(self, block: str) -> Tensor:
        """A block's matrix; dense, for graphs are small here and repeated entries add up."""
        return self._once(("matrix", block), lambda: torch.from_numpy(self._csr(block).toarray()).to(self.dtype))

    def edges(self, block: str) -> tuple[Tensor, Tensor]:
        """(row, column) of every edge of a block."""

        def make() -> tuple[Tensor, Tensor]:
            matrix = self._csr(block)
            return as_tensor(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))), as_tensor(matrix.indices)

        return self._once(("edges", block), make)

    def own_layer(self, op: Operator) -> OwnLayer:
        """A layer of the user's module on the edges of a block."""
        from gnnplan.planner.program.own_layer import OwnLayer

        assert self.module is not None, "a program with layers of somebody's own is played with their module"
        layer = self.module.get_submodule(op.attributes["module"])
        key = ("layer", *(op.attributes[each] for each in ("module", "block", "training", "arguments", "num_values")))
        make = lambda: OwnLayer(deepcopy(layer).to(self.dtype), self._csr(op.attributes["block"]), op.attributes)  # noqa: E731
        return self._once(key, make)

    def _csr(self, block: str) -> sp.csr_matrix:
        assert self.cycle.arrays
        return cut_out(self.cycle.arrays.matrices[block][self.worker])

    def _once(self, key: tuple, make):
        key = (*key, self.worker)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


class SequentialExecutor:
    """All workers of a cycle in one process.

    Args:
        cycle: with arrays.
        inputs: of every input value a tensor a worker.
        parameters: of every parameter its matrix, of which each worker gets a copy; also cells that do not start at
            zero.
        dtype: of everything that is computed.
        policy: who goes on without whom, where the programs allow it.
        module: whose layers some operators run (None: there are none); it is left as it is.
    """

    def __init__(
        self,
        cycle: Cycle,
        inputs: Inputs,
        parameters: Mapping[str, Tensor],
        dtype: torch.dtype = torch.float64,
        policy: Policy = IN_STEP,
        module: nn.Module | None = None,
    ) -> None:
        self.cycle, self._context = cycle, Context(cycle, dtype, module=module)
        self._going_on = GoingOn(policy, cycle.num_workers)
        self.stored: dict[str, list[Tensor]] = {}
        self.peak_bytes = np.zeros(cycle.num_workers, np.int64)
        for name, value in cycle.values.items():
            if value.role == "input":
                self.stored[name] = [_cast(each, dtype) for each in inputs[name]]
                _round(self.stored[name], value)
            elif value.role == "parameter" or name in parameters:
                self.stored[name] = [parameters[name].to(dtype).clone() for _ in cycle.workers]
            elif value.role == "cell":
                shapes = [(cycle.num_rows(name, w), value.num_columns(w)) for w in cycle.workers]
                self.stored[name] = [torch.zeros(shape, dtype=dtype) for shape in shapes]
        if SETUP in cycle.programs:
            self.play(cycle.programs[SETUP])

    def train(self, num_epochs: int, *, first: int = 0) -> list[dict[str, list[Tensor]]]:
        """Plays epochs in the cycle's order; the results of each."""
        order = self.cycle.order
        return [self.run(order[epoch % len(order)], epoch) for epoch in range(first, first + num_epochs)]

    def run(self, name: str, epoch: int = 0) -> dict[str, list[Tensor]]:
        """Plays a program; returns its results on every worker."""
        return self.play(self.cycle.programs[name], epoch)

    def play(self, program: Program, epoch: int = 0, order: Iterable[int] | None = None) -> dict[str, list[Tensor]]:
        """Plays operators in their order, or in another one that keeps their edges."""
        self._context.epoch = epoch
        self._going_on.begin(program, epoch)
        operators = [program[i] for i in order] if order is not None else list(program)
        live = _Live(self.cycle, operators, self.stored)
        for number, op in enumerate(operators):
            live.put(op, self._execute(op, live))
            self.peak_bytes = np.maximum(self.peak_bytes, live.held.num_bytes())
            live.drop(number)
        return live.results

    def _execute(self, op: Operator, live: _Live) -> list[tuple[Any, ...]]:
        context = self._context
        here = self._going_on.here
        reads = [[live.get(name, worker) if here[worker] else None for name in op.reads] for worker in context.workers]
        if self._going_on.waits_for_few(op):
            return [(out,) for out in self._going_on.collective(context, op, [each[0] for each in reads])]
        if KINDS[op.kind].collective:
            return [(out,) for out in meaning_of(op.kind)(context, op, [each[0] for each in reads])]
        written: list[tuple] = []
        for context.worker in self.cycle.workers:
            out = meaning_of(op.kind)(context, op, *reads[context.worker]) if here[context.worker] else None
            written.append(out if isinstance(out, tuple) else (out,) * len(op.writes))
        return written


class _Live:
    """The values that a program has at a moment, on every worker."""

    def __init__(self, cycle: Cycle, operators: list[Operator], stored: dict[str, list[Tensor]]) -> None:
        self._cycle, self._stored = cycle, stored
        self._values: dict[str, list[Tensor]] = {}
        self.results: dict[str, list[Tensor]] = {}
        self.held = HeldBytes(cycle, stored)
        self._last = {name: i for i, op in enumerate(operators) for name in (*op.writes, *op.reads)}

    def get(self, name: str, worker: int) -> Tensor:
        return (self._values.get(name) or self._stored[name])[worker]

    def put(self, op: Operator, written: list[tuple[Tensor, ...]]) -> None:
        for number, name in enumerate(op.writes):
            tensors = [each[number] for each in written]
            _round(tensors, self._cycle.values[name])
            if any(tensor is None for tensor in tensors):  # who is not here keeps what it has
                before = self._stored.get(name, tensors)
                tensors = [old if new is None else new for new, old in zip(tensors, before, strict=True)]
            if self._cycle.values[name].role == "temporary":
                self._values[name] = tensors
            else:
                self._stored[name] = tensors
            self.held.put(name, tensors)
            if name in self._cycle.results:
                self.results[name] = [tensor if tensor is None else tensor.clone() for tensor in tensors]

    def drop(self, number: int) -> None:
        for name in [name for name in self._values if self._last[name] == number]:
            del self._values[name]
            self.held.drop(name)


def _round(tensors: Sequence[Tensor | None], value: Value) -> None:
    """To what the value's numbers can be, in place, for others may lie in the same storage."""
    for tensor in tensors if value.dtype == "bfloat16" else ():
        if tensor is not None:
            tensor.copy_(tensor.to(torch.bfloat16))


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
