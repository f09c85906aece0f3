"""Trains a plan on devices that are only pretended, each worker in a thread of its own, and says what was seen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch
from torch import Tensor

from benchmarks._fake_cuda_calls import current_device, on_device, pretended_cuda
from benchmarks._fake_device import CPU, FakeDevice, FakeTensor
from benchmarks._fake_group import FakeGroup, grouped
from benchmarks._fake_plans import Planned
from gnnplan.planner.models.first_weights import first_weights
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import EXECUTIONS, Bind, Execution
from gnnplan.runtime.program_trainer import ProgramTrainer
from gnnplan.runtime.transfer import Transfer

PLANNED_WAITS = Counter({("", "torch.cuda.synchronize"): 2, ("", "aten::_local_scalar_dense"): 1})
"""Of an epoch: its begin and end are timed, and its loss is read."""
TIMEOUT_S = 120.0
_models = threading.Lock()  # torch draws the parameters of all threads from one generator


@dataclass
class Seen:
    """What was seen of one worker.

    Args:
        kinds: of operators that ran.
        losses: of every epoch.
        wrong_device, unordered: what was wrong, in words.
        synchronisations: of epochs whose kind was played before, (operator, what) that no plan asks for.
        peak_bytes: most that were alive until the last epoch's end; of the later epochs alone: `epoch_peak_bytes`.
    """

    kinds: set[str] = field(default_factory=set)
    losses: list[float] = field(default_factory=list)
    wrong_device: list[str] = field(default_factory=list)
    unordered: list[str] = field(default_factory=list)
    synchronisations: Counter[tuple[str, str]] = field(default_factory=Counter)
    peak_bytes: int = 0
    epoch_peak_bytes: int = 0


def train_on_fakes(planned: Planned) -> list[Seen]:
    """Every worker of a plan on a device that is pretended: each kind of epoch twice, then the evaluation."""
    with pretended_cuda(), _watched_operators():
        return _on_threads(planned, _train_on_fake, is_cuda=True)


def train_on_cpu(planned: Planned) -> list[Seen]:
    """The same on this machine's CPU."""
    return _on_threads(planned, _train_on_cpu, is_cuda=False)


def _train_on_fake(planned: Planned, rank: int) -> Seen:
    place = planned.plan.placement.workers[rank]
    with on_device(FakeDevice(torch.device("cuda", place.device_index))) as device:
        seen = _train(planned, rank, device.device, device)
    seen.wrong_device, seen.unordered, seen.kinds = device.wrong, device.unordered, device.kinds
    return seen


def _train_on_cpu(planned: Planned, rank: int) -> Seen:
    return _train(planned, rank, CPU, None)


def _train(planned: Planned, rank: int, where: torch.device, watched: FakeDevice | None) -> Seen:
    seen = Seen()
    with closing(ProgramTrainer(planned.plan, planned.shards[rank], rank, where, _weights(planned))) as trainer:
        num_kinds = len(trainer.cycle.order)
        for epoch in range(2 * num_kinds):
            is_watched = watched is not None and epoch >= num_kinds
            if watched and epoch == num_kinds:
                seen.peak_bytes, watched.memory.peak_bytes = watched.memory.peak_bytes, watched.memory.live_bytes
            if watched:
                watched.waits.clear()
            seen.losses.append(trainer.train_epoch(epoch, traced=True).loss)
            if watched and is_watched:
                seen.synchronisations += watched.waits - PLANNED_WAITS
        if watched:
            seen.epoch_peak_bytes = watched.memory.peak_bytes
            seen.peak_bytes = max(seen.peak_bytes, seen.epoch_peak_bytes)
        trainer.evaluate()
    return seen


def _weights(planned: Planned) -> dict[str, torch.Tensor]:
    """By one worker after another: they draw from the same stream."""
    with _models:
        return first_weights(planned.plan.job, planned.plan.graph.num_features, planned.plan.graph.num_classes)


def _on_threads(planned: Planned, work: Callable[[Planned, int], Seen], *, is_cuda: bool) -> list[Seen]:
    size = planned.plan.num_workers
    found: dict[int, Seen] = {}
    faults: list[BaseException] = []

    def worker(group: FakeGroup, rank: int) -> None:
        group.join(rank)
        try:
            found[rank] = work(planned, rank)
        except BaseException as fault:
            faults.append(fault)
            group.abort()

    with grouped(size, is_cuda=is_cuda) as group:
        threads = [threading.Thread(target=worker, args=(group, rank), daemon=True) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
    if faults:
        raise next((fault for fault in faults if not isinstance(fault, threading.BrokenBarrierError)), faults[0])
    return [found[rank] for rank in range(size)]


@contextmanager
def _watched_operators() -> Iterator[None]:
    """While it lasts, every operator says that it runs, and what it reads and writes is looked at."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(EXECUTIONS, {kind: _watched(bind) for kind, bind in EXECUTIONS.items()}))
        yield


def _watched(bind: Bind) -> Bind:
    def bound(c: Context, op: Operator) -> Execution:
        values, brings_arrays = c.cycle.values, c.brings_arrays(op)
        is_crossing = brings_arrays or len({values[name].tier for name in (*op.reads, *op.writes)}) > 1
        if brings_arrays:  # they are copied while it is bound, which is when it runs
            current_device().operator, current_device().is_crossing = op.key, True
        run = bind(c, op)

        def go(*reads):
            device = current_device()
            device.operator, device.is_crossing = op.key, is_crossing
            device.kinds.add(op.kind)
            written = run(*reads)
            made = written if isinstance(written, tuple) else (written,)
            for name, value in zip((*op.reads, *op.writes), (*reads, *made), strict=True):
                if not _lies_right(value, values[name], device.device):
                    device.wrong.append(f"{op.key}: {name} does not lie in the tier that the program says")
            device.operator, device.is_crossing = "", False
            return written

        return go

    return bound


def _lies_right(found: Tensor | Transfer | SparseRows, value: Value, device: torch.device) -> bool:
    if isinstance(found, SparseRows):
        made = [each for each in vars(found).values() if isinstance(each, Tensor)]
        return value.layout == "csr" and found.device == device and all(each.device == device for each in made)
    tensor = found.out if isinstance(found, Transfer) else found
    assert tensor is not None
    if value.tier in ("region", "pinned"):
        return tensor.device == CPU
    return isinstance(tensor, FakeTensor) and tensor.device == device
