"""What operators of one worker may ask for while they are bound and while they run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import OUTSIDE, is_staged
from gnnplan.planner.program.own_layer import OwnLayer
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.project import Projection
from gnnplan.planner.program.sums import widest_sums
from gnnplan.planner.readers.block_bytes import has_staged_index
from gnnplan.planner.readers.pinned import most_on_their_way
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.edge_block import EdgeBlock
from gnnplan.profiles.kernels.file_rows import asked_for
from gnnplan.profiles.kernels.heap import return_freed_memory
from gnnplan.profiles.kernels.tiles import Tiles, on_device
from gnnplan.runtime.execution.outside import Outside
from gnnplan.runtime.execution.peers import Workers

if TYPE_CHECKING:
    from gnnplan.runtime.execution.region import HostRegion


@dataclass
class Context:
    """One worker's part of a cycle, on its device.

    Args:
        epoch: which one is played.
        rate_factor: of the learning rate, beside what its schedule says.
        sent_bytes: what this worker has handed to exchanges.
        region: what the workers of its host hold together (None: they hold nothing).
        module: whose layers some operators run (None: there are none); it is left as it is.
        outside: where rows and matrices lie that take none of the device's memory (None: there are none).
    """

    projection: Projection
    device: torch.device
    peers: Workers
    epoch: int = 0
    rate_factor: float = 1.0
    sent_bytes: int = 0
    region: HostRegion | None = None
    module: nn.Module | None = None
    outside: Outside | None = None
    _made: dict[tuple, Any] = field(default_factory=dict)

    @property
    def cycle(self):
        """Of this worker alone."""
        return self.projection.cycle

    @property
    def host_region(self) -> HostRegion:
        """What the workers of its host hold together."""
        assert self.region is not None
        return self.region

    def empty(self, value: str, width: int) -> Tensor:
        """Uninitialised rows of a value, where it lies."""
        of = self.cycle.values[value]
        if of.tier in OUTSIDE:
            return self.rows_outside(self.num_rows(of.space), width)
        return pool.empty(self.device, self.num_rows(of.space), width, dtype=getattr(torch, of.dtype))

    def rows_outside(self, num_rows: int, width: int) -> Tensor:
        """Uninitialised float32 rows that take none of the device's memory."""
        assert self.outside is not None
        return self.outside.rows(num_rows, width)

    def rows_on_their_way(self, num_rows: int, width: int) -> Tensor:
        """Uninitialised float32 rows between host and device: the same memory whenever it is asked for."""
        flat = self._once(("on their way",), lambda: self.rows_outside(most_on_their_way(self.cycle, 0), 1).view(-1))
        return flat[: num_rows * width].view(num_rows, width)

    def lies_in_host(self, value: str) -> bool:
        """Whether a GPU takes a value's rows of its host's memory."""
        return self.cycle.values[value].tier == "pinned"

    def around(self, value: str) -> Callable[[Tensor, Tensor], AbstractContextManager[None]]:
        """Within what some rows of a value are taken, or added to: where they lie in a file, they are asked for."""
        return asked_for if self.cycle.values[value].tier == "disk" else lambda x, rows: nullcontext()

    def is_half(self, value: str) -> bool:
        """Whether a value's numbers take two bytes."""
        return self.cycle.values[value].dtype == "bfloat16"

    def num_rows(self, space: str) -> int:
        """Rows of a space."""
        return self.cycle.spaces[space].sizes[0]

    def ids(self, space: str) -> np.ndarray:
        """int64 global vertices of a space's rows."""
        return self._arrays.ids[space][0]

    def ids_on_device(self, space: str) -> Tensor:
        """The same, on the device."""
        return self._once(("ids", id(self.ids(space))), lambda: torch.from_numpy(self.ids(space)).to(self.device))

    def rows(self, index: str) -> Tensor:
        """int64 rows of an index, on the device; a new copy where blocks lie in the host's memory."""
        rows = self._arrays.rows[index][0]
        if self.is_staged:
            return torch.from_numpy(rows).to(self.device)
        return self._once(("rows", id(rows)), lambda: torch.from_numpy(rows).to(self.device))

    def rows_on_host(self, index: str) -> Tensor:
        """int64 rows of an index, on the CPU."""
        return torch.from_numpy(self._arrays.rows[index][0])

    def view(self, index: str) -> tuple[int, int]:
        """(start, stop) of an index of consecutive rows."""
        rows = self._arrays.rows[index][0]
        return (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)

    def host_matrix(self, block: str) -> sp.csr_matrix:
        """A block's matrix on the host."""
        return self._arrays.matrices[block][0]

    def matrix(self, op: Operator) -> Tensor | Tiles:
        """The matrix of an operator's block on the device, transposed with `back`. Equal blocks share one.

        Where blocks lie in the host's memory it is a new copy.
        """
        name, back = op.attributes["block"], bool(op.attributes.get("back"))
        matrix = self.host_matrix(name)
        is_half = self.is_half(op.reads[0])  # a product of halves takes its matrix whole
        width = 0 if is_half else self._widest_sums[self.cycle.blocks[name].content or name, back]
        made = self._once(("matrix", id(matrix), back, is_half), lambda: self._matrix(matrix, back, width))
        return made.to(self.device, non_blocking=True) if self.is_staged and isinstance(made, Tensor) else made

    def diagonal(self, block: str) -> Tensor:
        """float32 [n, 1]: the entries of a diagonal block, one a row, on the device."""
        matrix = self.host_matrix(block)
        assert len(matrix.data) == matrix.shape[0], block
        return self._once(("diagonal", id(matrix)), lambda: torch.from_numpy(matrix.data).to(self.device)[:, None])

    def edges(self, block: str) -> EdgeBlock:
        """A block's edges on the device; a new copy where blocks lie in the host's memory."""
        matrix = self.host_matrix(block)
        made = self._once(("edges", id(matrix)), lambda: self._edges(matrix))
        return made.to(self.device) if self.is_staged else made

    def right_labels(self, op: Operator) -> list[Tensor]:
        """Where a loss keeps the labels of its rows, which never change and are the same in all programs."""
        return self._once(("right labels", op.reads[1], op.attributes.get("index")), list)

    def own_layer(self, op: Operator) -> OwnLayer:
        """A layer of the user's module on the edges of a block."""
        assert self.module is not None, "a program with layers of somebody's own is played with their module"
        name, matrix = op.attributes["module"], self.host_matrix(op.attributes["block"])
        whole = self.module.get_submodule(name)
        layer = self._once(("own layer", name), lambda: deepcopy(whole).to(self.device))
        key = (
            "own layer",
            name,
            id(matrix),
            *(op.attributes[each] for each in ("training", "arguments", "num_values")),
        )
        return self._once(key, lambda: OwnLayer(layer, matrix, op.attributes, self.device))

    @cached_property
    def is_staged(self) -> bool:
        """Whether blocks lie in the host's memory, and go to the device for one operator each."""
        return is_staged(self.cycle)

    def brings_arrays(self, op: Operator) -> bool:
        """Whether an operator's blocks, or its index, come to the device when it runs, and leave it afterwards."""
        names_blocks = ("block" in op.attributes or "blocks" in op.attributes) and KINDS[op.kind].holds != "diagonal"
        return self.is_staged and (names_blocks or has_staged_index(self.cycle, op))

    @property
    def _stored_on(self) -> torch.device:
        return torch.device("cpu") if self.is_staged else self.device

    @cached_property
    def _widest_sums(self) -> dict[tuple[str, bool], int]:
        return widest_sums(self.cycle, 0)

    @property
    def _arrays(self):
        assert self.cycle.arrays is not None, "a cycle without arrays can be simulated, not run"
        return self.cycle.arrays

    def _matrix(self, matrix: sp.csr_matrix, back: bool, width: float) -> Tensor | Tiles:
        made = on_device(matrix, back, 0 if self.is_staged else width, self._stored_on)
        kept = made if self.outside is None else self.outside.matrix(made)
        del made
        return_freed_memory()
        return kept

    def _edges(self, matrix: sp.csr_matrix) -> EdgeBlock:
        made = EdgeBlock.from_csr(matrix, self._stored_on)
        kept = made if self.outside is None else self.outside.edges(made)
        del made
        return_freed_memory()
        return kept

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
