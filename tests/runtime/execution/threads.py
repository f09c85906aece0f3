"""Workers of one process, a thread each: projected programs without torchrun and without sockets."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.project import project
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.recorder import Recorder

TIMEOUT_S = 60


class Exchanged:
    """Rows that are taken as here when they are asked for; until then what was sent lives too."""

    def __init__(self, tensor: Tensor, source: Tensor) -> None:
        self._tensor: Tensor | None = tensor
        self._source: Tensor | None = source

    def view(self, *shape: int) -> Exchanged:
        assert self._tensor is not None, "waited for already"
        self._tensor = self._tensor.view(*shape)
        return self

    def wait(self) -> Tensor:
        tensor, self._tensor, self._source = self._tensor, None, None
        assert tensor is not None, "waited for already"
        return tensor


class ThreadWorkers(Workers):
    """Collectives over a table that all threads see."""

    def __init__(self, recorder: Recorder, rank: int, table: list, barrier: threading.Barrier) -> None:
        super().__init__(recorder)
        self._rank, self._table, self._barrier = rank, table, barrier

    def _all(self, mine: Any) -> list[Any]:
        self._table[self._rank] = mine
        self._barrier.wait(TIMEOUT_S)
        everyone = list(self._table)
        self._barrier.wait(TIMEOUT_S)
        return everyone

    def exchange(self, out, source, recv_counts, send_counts):
        with self._recorder.span(self._key, "communicate"):
            sent = self._all([part.clone() for part in source.split(list(send_counts))])
            received = [parts[self._rank] for parts in sent]
            assert [len(part) for part in received] == list(recv_counts)
            out.copy_(torch.cat([part for part in received if len(part)] or received[:1]).view(out.shape))
        return Exchanged(out, source) if self._is_beside else out

    def host_memory(self, layout):
        mine = mmap.mmap(-1, layout.num_bytes) if self._rank == layout.ranks[0] else None
        return self._all(mine)[layout.ranks[0]]

    def host_barrier(self):
        with self._recorder.span(self._key, "communicate"):
            self._barrier.wait(TIMEOUT_S)

    def all_reduce(self, flat):
        with self._recorder.span(self._key, "communicate"):
            flat.copy_(torch.stack(self._all(flat.clone())).sum(0))
        return Exchanged(flat, flat) if self._is_beside else flat


def play_on_threads(
    cycle: Cycle,
    inputs: dict[str, list],
    parameters: dict[str, Tensor],
    use: Callable[[ProgramExecutor, int], Any],
    module: nn.Module | None = None,
) -> list[Any]:
    """What `use` returns of every worker's executor; `module` is whose layers run their own code."""
    table, barrier = [None] * cycle.num_workers, threading.Barrier(cycle.num_workers)
    results: list[Any] = [None] * cycle.num_workers
    faults: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            recorder = Recorder(torch.device("cpu"))
            executor = ProgramExecutor(
                project(cycle, rank),
                {name: each[rank] for name, each in inputs.items()},
                {name: value.float().clone() for name, value in parameters.items()},
                recorder,
                ThreadWorkers(recorder, rank, table, barrier),
                module,
            )
            results[rank] = use(executor, rank)
        except BaseException as fault:
            faults.append(fault)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(cycle.num_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    if faults:
        raise next((fault for fault in faults if not isinstance(fault, threading.BrokenBarrierError)), faults[0])
    return results
