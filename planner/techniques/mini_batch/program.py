"""The program of an epoch of mini-batches: its operators are the stages of a batch, on each route that is taken."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from gnnplan.planner.minibatch.decision import MiniBatchDecision, WorkerBatches
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Space, Value

EPOCH, HELD = "epoch", "held"
_ROWS, _EDGES, _ITEM_BYTES = "batch", "batch:edges", 4
_TO_QUARTILES = 1.349  # standard deviations between the quartiles of what varies as a normal variable does


def batch_cycle(decision: MiniBatchDecision) -> Cycle:
    """One program, which every epoch plays. Batch after batch passes through its operators.

    A route that no worker takes has no operators.
    """
    workers = decision.workers
    emitter = Emitter(Cycle(len(workers)))
    emitter.add_space(Space(_ROWS, (decision.batch_nodes,) * len(workers)))
    emitter.add_space(Space(_EDGES, (decision.batch_edges,) * len(workers)))
    emitter.add_space(Space(HELD, tuple(-(-each // _ITEM_BYTES) for each in decision.held_bytes)))
    emitter.add_value(Value(HELD, HELD, 1, role="input"))
    emitter.begin()
    if any(worker.num_in_turn != worker.num_batches for worker in workers):
        _add_ahead(emitter, decision)
    if any(worker.num_in_turn != 0 for worker in workers):
        _add_in_turn(emitter, decision)
    emitter.end(EPOCH)
    losses = frozenset(op.writes[0] for op in emitter.operators if op.kind == "train_batch")
    return replace(emitter.cycle, order=(EPOCH,), results=losses)


def _add_ahead(emitter: Emitter, decision: MiniBatchDecision) -> None:
    on_host = decision.device_kind == "cuda"
    made = {} if on_host else {"waiting": tuple(_ahead(worker) for worker in decision.workers)}
    batch = _make(emitter, decision, "ahead", "cpu_batch", tier="host" if on_host else "device", **made)
    waiting = {"waiting": tuple(_waiting(worker) for worker in decision.workers)} if on_host else {}
    moved = emitter.emit_all(
        "move_batch",
        *batch,
        **_stage(decision, "ahead", "transfer", "move"),
        **_sizes(decision, tier="device", **waiting),
    )
    _train(emitter, decision, "ahead", moved)


def _ahead(worker: WorkerBatches) -> int:
    """Batches that may be there beside the one that is trained: in work at loader threads, or waiting for it."""
    buffers = worker.buffers.for_threads(worker.num_loaders)
    return min(buffers.cpu_slots + buffers.gpu_slots, worker.num_batches) - 1 if buffers.cpu_slots else 0


def _waiting(worker: WorkerBatches) -> int:
    return min(worker.buffers.gpu_slots, worker.num_batches)


def _add_in_turn(emitter: Emitter, decision: MiniBatchDecision) -> None:
    waiting = {"waiting": tuple(_waiting(worker) - 1 for worker in decision.workers)}
    _train(emitter, decision, "in_turn", _make(emitter, decision, "in_turn", "gpu_batch", tier="device", **waiting))


def _make(emitter: Emitter, decision: MiniBatchDecision, way: str, stage: str, **more: Any) -> tuple[str, ...]:
    return emitter.emit_all("make_batch", **_stage(decision, way, stage, "make"), **_sizes(decision, **more))


def _train(emitter: Emitter, decision: MiniBatchDecision, way: str, batch: tuple[str, ...]) -> None:
    streams = tuple(
        {"num_batches": each.num_batches, "num_loaders": each.num_loaders, "buffers": asdict(each.buffers)}
        for each in decision.workers
    )
    step_bytes = tuple(decision.step_bytes)
    stage = _stage(decision, way, "train", "train")
    emitter.emit("train_batch", *batch, HELD, **stage, streams=streams, step_bytes=step_bytes)


def _sizes(decision: MiniBatchDecision, **more: Any) -> dict[str, Any]:
    return {"spaces": (_ROWS, _EDGES), "width": decision.num_features, **more}


def _stage(decision: MiniBatchDecision, way: str, stage: str, word: str) -> dict[str, Any]:
    seconds = tuple(worker.seconds[stage] for worker in decision.workers)
    spreads = tuple(worker.spreads.get(stage, 0.0) for worker in decision.workers)
    return {
        "key": f"{way}/{word}",
        "way": way,
        "stage": stage,
        "seconds": seconds,
        "spread_s": tuple(_TO_QUARTILES * spread * each for spread, each in zip(spreads, seconds, strict=True)),
    }
