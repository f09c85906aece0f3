"""The memory in which the workers of one host hold rows together: a row once, written by one, read by all."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.region import RegionLayout
from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes

_NEVER, _UNDER_WAY = 0, -1


class HostRegion:
    """One worker's view of its host's region.

    A writer stamps a cell as under way while it writes, and then with a version: how often it has written it, which is
    as often as the host's other workers. A reader takes rows only where every worker of the host has its own version
    stamped, before and after: never rows that are half written, nor older or newer ones.

    Args:
        memory: of `layout.num_bytes`.
        rank: one of the layout's ranks.
    """

    def __init__(self, memory: mmap.mmap, layout: RegionLayout, rank: int) -> None:
        self.layout, self.rank = layout, rank
        self._numbers = {name: number for number, name in enumerate(layout.shapes)}
        self._versions = dict.fromkeys(layout.shapes, _NEVER)
        stamps = np.ndarray((len(layout.shapes), len(layout.ranks)), np.int64, memory)
        self._stamps = torch.from_numpy(stamps)
        self._rows = {
            name: torch.from_numpy(np.ndarray(shape, np.float32, memory, layout.offset(name)))
            for name, shape in layout.shapes.items()
        }

    def rows(self, cell: str) -> Tensor:
        """A cell [rows, width], of all workers."""
        return self._rows[cell]

    @contextmanager
    def writing(self, cell: str) -> Iterator[None]:
        """While this worker writes its rows of a cell. Where it fails, nobody reads the cell any more."""
        stamp = self._stamps[self._numbers[cell], self.layout.ranks.index(self.rank)]
        stamp.fill_(_UNDER_WAY)
        yield
        self._versions[cell] += 1
        stamp.fill_(self._versions[cell])

    def read(self, cell: str, rows: Tensor) -> Tensor:
        """Rows [k, width] of a cell by their numbers int64 [k], on the CPU, as this worker's version has them."""
        version = self._versions[cell]  # once: a thread of this worker may write while this one reads
        self._check(cell, version)
        found = gather_rows(self._rows[cell], rows)
        self._check(cell, version)
        return found

    def _check(self, cell: str, version: int) -> None:
        for rank, stamp in zip(self.layout.ranks, self._stamps[self._numbers[cell]].tolist(), strict=True):
            if stamp != version or stamp == _NEVER:
                has = {_NEVER: "has written none", _UNDER_WAY: "is writing"}.get(stamp, f"has written {stamp}")
                raise RuntimeError(f"{cell}: rows of version {version} are not there: worker {rank} {has}")


@executes("publish")
def _publish(c: Context, op: Operator) -> Execution:
    own, (start, stop), cell = c.rows(op.attributes["index"]), c.view(op.attributes["places"]), op.attributes["cell"]

    def run(x: Tensor, *received: Tensor) -> Tensor:
        region = c.host_region
        place = region.rows(cell)[start:stop]
        with region.writing(cell):
            if x.device.type == "cpu":
                torch.index_select(x, 0, own, out=place[: len(own)])
            else:
                place[: len(own)].copy_(gather_rows(x, own))  # waits for the device
            for rows in received:
                place[len(own) :].copy_(rows)
        return place

    return run


@executes("host_barrier")
def _host_barrier(c: Context, op: Operator) -> Execution:
    cell = op.writes[0]

    def run(_: Tensor) -> Tensor:
        c.peers.host_barrier()
        return c.host_region.rows(cell)

    return run


@executes("find")
def _find(c: Context, op: Operator) -> Execution:
    cell, rows = op.reads[0], c.rows(op.attributes["index"]).cpu()
    return lambda _: c.host_region.read(cell, rows).to(c.device)
