"""What a training needs to go on: its parameters, its optimizer's state, and what it keeps between epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.program.cycle import Cycle
from gnnplan.runtime.checkpoint.parts import Likes
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.sparse_rows import SparseRows

PARAMETER, OPTIMIZER, RUNNING, KEPT, CONTROL = "parameter", "optimizer", "running", "kept", "control"
METRIC = f"{CONTROL}/metric"
"""What validations have come to; NaN before the first."""
Shape = tuple[int | None, ...]

_CSR_PARTS = ("data", "indices", "indptr")


class State(Protocol):
    """The state of one worker's training; names begin with `parameter/`, `optimizer/` or what else it is."""

    def like(self) -> Likes:
        """Every array that `held` has."""

    def held(self) -> dict[str, Tensor | np.ndarray]:
        """What there is after an epoch: the tensors themselves, which the next epoch changes."""

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes on from arrays: all of `like`, or on another plan what it has too."""


def is_carried(name: str) -> bool:
    """Whether another plan of the same training has an array too."""
    return name.split("/", 1)[0] in (PARAMETER, OPTIMIZER, RUNNING, CONTROL)


def copied(held: Mapping[str, Tensor | np.ndarray]) -> dict[str, np.ndarray]:
    """A copy in host memory."""
    return {
        name: value.detach().to("cpu", copy=True).numpy() if isinstance(value, Tensor) else np.array(value)
        for name, value in held.items()
    }


def viewed(held: Mapping[str, Tensor | np.ndarray]) -> dict[str, np.ndarray]:
    """The same without a copy, where it lies in host memory; nobody may train until it has been used."""
    return {name: value.detach().cpu().numpy() if isinstance(value, Tensor) else value for name, value in held.items()}


class ProgramState:
    """The state of a program's executor: parameters, and the cells that its epochs write.

    Cells that the setup alone writes are the same in every epoch, and the setup makes them again. Of a host's region
    every worker has the rows that it writes itself.

    Args:
        host_barrier: waits for the other workers of the host.
    """

    def __init__(self, executor: ProgramExecutor, host_barrier: Callable[[], None] = lambda: None) -> None:
        self._executor, self._host_barrier = executor, host_barrier
        cycle = executor.cycle
        self._groups = dict.fromkeys(cycle.parameters, PARAMETER) | _cells(cycle)
        self._places = {
            op.writes[0]: op.attributes["places"]
            for name in cycle.order
            for op in cycle.programs[name]
            if op.kind == "host_barrier" and op.writes[0] in self._groups
        }

    def like(self) -> Likes:
        """As `State`."""
        return dict(self._likes())

    def _likes(self) -> Iterator[tuple[str, tuple[Shape, np.dtype]]]:
        for name, group in self._groups.items():
            yield from self._likes_of(name, group)

    def _likes_of(self, name: str, group: str) -> Iterator[tuple[str, tuple[Shape, np.dtype]]]:
        cycle = self._executor.cycle
        value, rows = cycle.values[name], cycle.num_rows(name, 0)
        if name in self._places:
            start, stop = self._executor.rows_written(self._places[name])
            rows = stop - start
        if value.layout == "csr":
            shapes: tuple[Shape, ...] = ((None,), (None,), (rows + 1,))
            dtypes = (np.float32, np.int32, np.int32)
            for part, shape, dtype in zip(_CSR_PARTS, shapes, dtypes, strict=True):
                yield f"{group}/{name}:{part}", (shape, np.dtype(dtype))
        else:
            yield f"{group}/{name}", ((rows, value.num_columns(0)), np.dtype(value.dtype))

    def held(self) -> dict[str, Tensor | np.ndarray]:
        """As `State`; after the last epoch of a refresh interval as after any other.

        What no program has written yet is nothing but zeros: it is written before it is read.
        """
        found: dict[str, Tensor | np.ndarray] = {}
        for name, group in self._groups.items():
            value = self._executor.stored.get(name)
            if value is None:
                likes = self._likes_of(name, group)
                found |= {key: np.zeros([size or 0 for size in shape], dtype) for key, (shape, dtype) in likes}
            elif isinstance(value, SparseRows):
                of = (value.matrix.data, value.matrix.indices, value.matrix.indptr)
                parts = zip(_CSR_PARTS, of, (np.float32, np.int32, np.int32), strict=True)
                found |= {f"{group}/{name}:{part}": array.astype(dtype, copy=False) for part, array, dtype in parts}
            elif name in self._places:
                start, stop = self._executor.rows_written(self._places[name])
                found[f"{group}/{name}"] = value[start:stop]
            else:
                found[f"{group}/{name}"] = value
        return found

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `State`."""
        for name, group in self._groups.items():
            key, value = f"{group}/{name}", self._executor.cycle.values[name]
            if f"{key}:data" in arrays:
                parts = tuple(arrays[f"{key}:{part}"] for part in _CSR_PARTS)
                matrix = sp.csr_matrix(parts, shape=(len(parts[2]) - 1, value.num_columns(0)))
                matrix.check_format(full_check=True)
                self._executor.stored[name] = SparseRows(matrix, self._executor.recorder.device)
            elif key in arrays and name in self._places:
                self._executor.write_region(name, self._places[name], torch.from_numpy(arrays[key]))
            elif key in arrays:
                self._put(name, torch.from_numpy(arrays[key]))
        if self._places and any(f"{self._groups[name]}/{name}" in arrays for name in self._places):
            self._host_barrier()

    def _put(self, name: str, rows: Tensor) -> None:
        stored = self._executor.stored
        if name in stored:  # a parameter is the module's own memory
            stored[name].copy_(rows)
        else:
            stored[name] = rows.to(self._executor.recorder.device)


def _cells(cycle: Cycle) -> dict[str, str]:
    """Cells that epochs write, by what they are; all but what is kept are the same on all workers."""
    programs = [cycle.programs[name] for name in dict.fromkeys(cycle.order)]
    ops = [op for program in programs for op in program]
    written = [name for op in ops for name in op.writes if cycle.values[name].role == "cell"]
    alike = {name: OPTIMIZER for op in ops if op.kind == "step" for name in op.attributes["cells"]}
    alike |= {name: RUNNING for op in ops if op.kind == "running_statistics" for name in op.writes}
    return {name: alike.get(name, KEPT) for name in written}
