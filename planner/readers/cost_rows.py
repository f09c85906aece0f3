"""Seconds of rows taken, put together and added up, and of what all workers do at once."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.costs import FLOAT_BYTES, ZERO, OperatorCosts, total
from gnnplan.planner.crowd import Crowd
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import (
    Collective,
    costs,
    guess,
    in_float32,
    in_proportion,
    num_written,
    register_collective,
    share_of_float32,
    with_base,
)
from gnnplan.profiles.curves import Estimate

_LENGTH_BYTES = 8  # of a sparse row, which travels before its entries


@costs("take")
def _take(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Of the host's memory a GPU copies consecutive rows directly, and others when the host has gathered them."""
    if cycle.values[op.reads[0]].tier == "pinned":
        return _copied(cycle, op, op.writes[0], worker, cost, "h2d")
    if cycle.indexes[op.attributes["index"]].is_view:
        return ZERO
    taken = cycle.values[op.writes[0]]
    if taken.layout == "csr":
        return _sparse_copy(cycle, op, worker, cost)
    width = taken.num_columns(worker) * share_of_float32(cycle, taken.name)
    return cost("gather_rows", cycle.num_rows(taken.name, worker), width)


@costs("scatter_add")
def _scatter_add(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Where there is no base, the result is cleared first, which only writes.

    In the host's memory the host adds, which is guessed to take twice as long as to gather as many rows.
    """
    x = cycle.values[op.reads[0]]
    if cycle.values[op.writes[0]].tier == "pinned":
        shape = cycle.num_rows(x.name, worker), x.num_columns(worker)
        return guess(total([cost.to_region(*shape), cost.from_region(*shape)]))
    if cycle.indexes[op.attributes["index"]].is_view:
        work = cost("add", in_float32(cycle, x.name, worker))
    else:
        width = x.num_columns(worker) * share_of_float32(cycle, x.name)
        work = cost("scatter_add_rows", cycle.num_rows(x.name, worker), width)
    if op.has_base:
        return with_base(cycle, op, worker, cost, work)
    return total([cost.copy(num_written(cycle, op, worker) / 2), work])


@costs("put")
def _put(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    if cycle.values[op.writes[0]].tier == "pinned":
        return _copied(cycle, op, op.reads[0], worker, cost, "d2h")
    return with_base(cycle, op, worker, cost, cost.copy(in_float32(cycle, op.reads[0], worker)))


def _copied(cycle: Cycle, op: Operator, name: str, worker: int, cost: OperatorCosts, way: str) -> Estimate:
    """A GPU's rows from the host's memory or to it; staged there where they are not consecutive."""
    how = "pinned" if cycle.indexes[op.attributes["index"]].is_view else "pageable"
    return cost(f"{way}_{how}", cycle.num_bytes(name, worker))


@costs("place")
def _place(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    if cycle.values[op.writes[0]].layout == "csr":
        return _sparse_copy(cycle, op, worker, cost)
    return cost.copy(num_written(cycle, op, worker))


def _sparse_copy(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    return guess(cost.copy(cycle.num_bytes(op.writes[0], worker) / FLOAT_BYTES))


@costs("publish")
def _publish(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    written = cycle.values[op.writes[0]]
    return cost.to_region(cycle.num_rows(written.name, worker), written.num_columns(worker))


@costs("find")
def _find(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    found = cycle.values[op.writes[0]]
    return cost.from_region(cycle.num_rows(found.name, worker), found.num_columns(worker))


def _routed_bytes(cycle: Cycle, op: Operator) -> np.ndarray:
    """int64 [W, W]: bytes from worker p to worker q.

    Of sparse rows only a sender's total is known; every receiver is taken to get entries in proportion to its rows.
    """
    x = cycle.values[op.reads[0]]
    rows = cycle.routes[op.attributes["route"]].sent(back=bool(op.attributes.get("back")))
    per_row = _LENGTH_BYTES if x.layout == "csr" else 0
    sent_bytes = np.array([cycle.num_bytes(x.name, worker) for worker in cycle.workers], np.int64)
    found = in_proportion(rows, sent_bytes) + rows * per_row
    np.fill_diagonal(found, 0)  # what a worker has already does not travel
    return found


def _routed(cycle: Cycle, op: Operator) -> tuple[np.ndarray, np.ndarray]:
    """Sums of `_routed_bytes`, of what is sent and of what comes: float64 [W] each."""
    kept = np.diag(cycle.routes[op.attributes["route"]].counts)
    return tuple(
        np.array([_travelling(cycle, name, w, int(kept[w])) for w in cycle.workers])
        for name in (op.reads[0], op.writes[0])
    )  # type: ignore[return-value]


def _travelling(cycle: Cycle, name: str, worker: int, kept: int) -> float:
    """Bytes of a value but for some of its rows, with the length of every sparse row."""
    rows, per_row = cycle.num_rows(name, worker), _LENGTH_BYTES if cycle.values[name].layout == "csr" else 0
    return (cycle.num_bytes(name, worker) / max(rows, 1) + per_row) * (rows - kept)


def summed_bytes(cycle: Cycle, op: Operator) -> int:
    """Bytes of what is summed, which are as many on every worker."""
    return cycle.num_bytes(op.reads[0], 0)


register_collective(
    "exchange",
    Collective(
        _routed_bytes,
        lambda network, num_bytes: network.all_to_all(num_bytes),
        lambda network, num_bytes: network.all_to_all_processor(num_bytes),
        moved=_routed,
    ),
)
register_collective(
    "all_reduce",
    Collective(
        summed_bytes,
        lambda network, num_bytes: network.all_reduce(num_bytes),
        lambda network, num_bytes: network.all_reduce_processor(num_bytes),
        of_crowd=Crowd.all_reduce,
    ),
)
register_collective(
    "host_barrier",
    Collective(
        lambda cycle, op: cycle.num_workers,
        lambda network, num_workers: network.meet(),
        lambda network, num_workers: [ZERO] * num_workers,
        by_host=True,
    ),
)
